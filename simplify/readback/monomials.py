"""Formulas as sums of terms: a number times powers of atoms, over loops, where conditions hold.

Everything that is multiplied out here keeps its value wherever all is finite. Conditions on
indices stand apart; conditions on data are atoms that are 1 where they hold and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Final

from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Reduce,
    Select,
    call,
    logical_not,
)
from tensorad.ir.functions import is_stop
from tensorad.ir.order import DATA, FLOAT, PARAM, REDUCE, occurs
from tensorad.ir.visit import conjuncts, fresh_axes, substitute, substitute_all
from tensorad.simplify.certify.outcomes import Undecided

_MOST_TERMS: Final = 400
"""Formulas that are longer when they are multiplied out are not."""
_MOST_POWER: Final = 4
_ONE: Final = Fraction(1)
_INDEX: Final = DATA | REDUCE | FLOAT | PARAM


@dataclass(frozen=True, eq=False)
class Term:
    """number * product of atoms, summed over the loops' points where all conditions hold."""

    number: Fraction
    atoms: dict[Expr, int]
    loops: tuple[Axis, ...] = ()
    where: tuple[Expr, ...] = ()

    def renamed(self) -> Term:
        """The same over loops of its own."""
        if not self.loops:
            return self
        new = fresh_axes(self.loops)
        loops = tuple([a for a in map(new.__getitem__, self.loops) if isinstance(a, Axis)])
        atoms = {substitute(a, new): n for a, n in self.atoms.items()}
        return Term(self.number, atoms, loops, substitute_all(self.where, new))


Sum = list[Term]


def times(a: Term, b: Term) -> Term | None:
    """The product; None where it is surely 0."""
    if not dict.fromkeys(a.loops).keys().isdisjoint(b.loops):
        b = b.renamed()
    atoms = dict(a.atoms)
    for e, n in b.atoms.items():
        power = 1 if e.dtype is BOOL else atoms.get(e, 0) + n
        atoms[e] = power
        if not power:
            del atoms[e]
    where = tuple(dict.fromkeys((*a.where, *b.where)))
    number = a.number if b.number is _ONE else a.number * b.number
    return (
        None
        if any(c is FALSE for c in where) or not number
        else Term(number, atoms, a.loops + b.loops, where)
    )


class Terms:
    """Formulas multiplied out, each once."""

    def __init__(self) -> None:
        self.known: dict[Expr, Sum] = {}

    def of(self, e: Expr) -> Sum:
        """The terms of a number.

        Raises:
            Undecided: they are too many.
        """
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._of(e)
            if len(found) > _MOST_TERMS:
                raise Undecided("multiplied out, the formula is too long")
        return found

    def _of(self, e: Expr) -> Sum:
        match e:
            case Const(value=v):
                return _number(e, v)
            case Call():
                return self._call(e)
            case Select(cond=c, then=a, orelse=b):
                first = self._product(self.truth(c), self.of(a))
                return first + self._product(self.truth(logical_not(c)), self.of(b))
            case Cast(value=v) if v.dtype is BOOL:
                return self.truth(v)
            case Cast(value=v) if v.dtype.is_float and e.dtype.is_float:
                return self.of(v)
            case Apply(function=f, args=(a,)) if is_stop(f):
                return self.of(a)
            case Reduce() if e.combiner.is_sum and e.dtype.is_float:
                inside = self._product(self.truth(e.condition), self.of(e.sources[0]))
                return [Term(t.number, t.atoms, e.axes + t.loops, t.where) for t in inside]
        return [Term(_ONE, {e: 1})]

    def _call(self, e: Call) -> Sum:
        match e:
            case Call(op="add", args=(a, b)):
                return self.of(a) + self.of(b)
            case Call(op="sub", args=(a, b)):
                return self.of(a) + _negated(self.of(b))
            case Call(op="neg", args=(a,)):
                return _negated(self.of(a))
            case Call(op="mul", args=(a, b)) if e.dtype.is_float:
                return self._product(self.of(a), self.of(b))
            case Call(op="div", args=(a, b)):
                return self._product(self.of(a), self._inverse(b))
            case Call(op="pow", args=(a, Const(value=n))) if n in range(2, _MOST_POWER + 1):
                found = self.of(a)
                for _ in range(int(n) - 1):
                    found = self._product(found, self.of(a))
                return found
            case Call(op="pow", args=(a, Const(value=n))) if -n in range(1, _MOST_POWER + 1):
                found = inverse = self._inverse(a)
                for _ in range(-int(n) - 1):
                    found = self._product(found, inverse)
                return found
        return [Term(_ONE, {e: 1})]

    def _product(self, one: Sum, other: Sum) -> Sum:
        if len(one) * len(other) > _MOST_TERMS:
            raise Undecided("multiplied out, the formula is too long")
        found = [times(a, b) for a in one for b in other]
        return [t for t in found if t is not None]

    def _inverse(self, e: Expr) -> Sum:
        """1/e: of one factor after another, if it is a product."""
        found = self.of(e)
        if len(found) == 1 and not found[0].loops and not found[0].where:
            (t,) = found
            if not any(a.dtype is BOOL for a in t.atoms):
                return [Term(1 / t.number, {a: -n for a, n in t.atoms.items()})]
        return [Term(_ONE, {e: -1})]

    def truth(self, c: Expr) -> Sum:
        """1 where a condition holds, otherwise 0."""
        if c is TRUE:
            return [Term(_ONE, {})]
        if c is FALSE:
            return []
        if not occurs(_INDEX, c):
            return [Term(_ONE, {}, (), tuple(conjuncts(c)))]
        match c:
            case Call(op="and", args=(a, b)):
                return self._product(self.truth(a), self.truth(b))
            case Call(op="or", args=(a, b)):
                return self.truth(a) + self._product(self.truth(logical_not(a)), self.truth(b))
            case Select(cond=a, then=x, orelse=y):
                first = self._product(self.truth(a), self.truth(x))
                return first + self._product(self.truth(logical_not(a)), self.truth(y))
            case Call(op="not", args=(a,)):
                return self._not(a)
        return self._compared(c)

    def _not(self, c: Expr) -> Sum:
        match c:
            case Call(op="and", args=(a, b)):
                other = self._product(self.truth(a), self.truth(logical_not(b)))
                return self.truth(logical_not(a)) + other
            case Call(op="or", args=(a, b)):
                return self._product(self.truth(logical_not(a)), self.truth(logical_not(b)))
            case Select(cond=a, then=x, orelse=y):
                first = self._product(self.truth(a), self.truth(logical_not(x)))
                return first + self._product(self.truth(logical_not(a)), self.truth(logical_not(y)))
        return _one_minus(self.truth(c))

    def _compared(self, c: Expr) -> Sum:
        """A condition on data: comparisons that say the same are one atom."""
        match c:
            case Call(op="gt", args=(a, b)):
                return self.truth(call("lt", b, a))
            case Call(op="ge", args=(a, b)) if a.dtype.is_float:
                return self.truth(call("le", b, a))
            case Call(op="ge", args=(a, b)):
                return _one_minus(self.truth(call("lt", a, b)))
            case Call(op="le", args=(a, b)) if not a.dtype.is_float:
                return _one_minus(self.truth(call("lt", b, a)))
            case Call(op="ne", args=(a, b)):
                return _one_minus(self.truth(call("eq", a, b)))
        return [Term(_ONE, {c: 1})]


def _number(e: Expr, value: float) -> Sum:
    if not isfinite(value):
        return [Term(_ONE, {e: 1})]
    return [Term(Fraction(value), {})] if value else []


def _negated(terms: Sequence[Term]) -> Sum:
    return [Term(-t.number, t.atoms, t.loops, t.where) for t in terms]


def _one_minus(terms: Sequence[Term]) -> Sum:
    return [Term(_ONE, {}), *_negated(terms)]
