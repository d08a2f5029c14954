"""How many points a nest with symbolic sizes has, as a polynomial of the sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from tensorad.errors import UserError
from tensorad.ir.analysis.points import count_points, independent_parts
from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.expr import (
    Axis,
    Call,
    Const,
    Expr,
    Size,
    add,
    call,
    floordiv,
    int_const,
    sub,
)
from tensorad.ir.order import AXIS, occurs, sizes_in
from tensorad.ir.visit import children, free_leaves, postorder, substitute

Count = int | Polynomial


def count_nest(items: Sequence[Expr], sizes: Mapping[Expr, int]) -> Count:
    """`count_points` where sizes may be unknown; exact whenever every extent that sizes alone
    decide is >= 0.

    Raises:
        UserError: no polynomial is found.
    """
    total = Polynomial.constant(1)
    for part in independent_parts(items):
        if all(s in sizes for s in sizes_of(part)):
            total = total * count_points(part, sizes)
        else:
            try:
                total = total * _sum_part(_Nest(part, sizes))
            except _NoPolynomial as failed:
                names = sorted({str(s) for s in sizes_of(items)})
                raise _explained(failed.cause, names) from None
    number = total.as_constant()
    return total if number is None else int(number)


def sizes_of(items: Sequence[Expr]) -> list[Size]:
    """The symbolic sizes in axes' bounds and conditions."""
    roots = [e for i in items for e in _expressions(i)]
    return sizes_in(*roots)


def _expressions(item: Expr) -> tuple[Expr, ...]:
    return (item.lower, item.upper, item.step) if isinstance(item, Axis) else (item,)


class _Nest:
    """Axes, outermost first, with their bounds; conditions have become bounds."""

    def __init__(self, items: Sequence[Expr], sizes: Mapping[Expr, int]) -> None:
        self.known: dict[Expr, Expr] = {s: int_const(n) for s, n in sizes.items()}
        self.axes = [i for i in items if isinstance(i, Axis)]
        self.bounds: dict[Axis, tuple[Polynomial, Polynomial]] = {}
        lower = {a: substitute(a.lower, self.known) for a in self.axes}
        upper = {a: substitute(a.upper, self.known) for a in self.axes}
        self.cut: dict[Axis, None] = {}
        for i in items:
            if not isinstance(i, Axis):
                self.cut.update(_tighten(substitute(i, self.known), self.axes, lower, upper))
        for a in self.axes:
            self.bounds[a] = (self.polynomial(lower[a]), self.polynomial(upper[a]))

    def polynomial(self, root: Expr) -> Polynomial:
        """An index expression over axes and sizes; what sizes alone decide is a symbol."""
        found: dict[Expr, Polynomial] = {}
        for e in postorder(root):
            found[e] = self._combine(e, [found[c] for c in children(e)])
        return found[root]

    def _combine(self, e: Expr, args: list[Polynomial]) -> Polynomial:
        if isinstance(e, Const) and e.dtype.is_integer:
            return Polynomial.constant(int(e.value))
        if isinstance(e, Call):
            if e.op == "add":
                return args[0] + args[1]
            if e.op == "sub":
                return args[0] - args[1]
            if e.op == "mul":
                return args[0] * args[1]
            if e.op == "neg":
                return -args[0]
            if e.op in ("minimum", "maximum"):
                first_is_less = self.is_nonnegative(args[1] - args[0])
                if first_is_less or self.is_nonnegative(args[0] - args[1]):
                    return args[0] if first_is_less is (e.op == "minimum") else args[1]
        if not e.dtype.is_integer or (not isinstance(e, Axis) and occurs(AXIS, e)):
            raise _NoPolynomial(e)
        return Polynomial.symbol(e)

    def is_nonnegative(self, p: Polynomial) -> bool:
        """Whether p >= 0 is evident at every point of the nest and every size >= 0."""
        for a in reversed(self.axes):
            parts = p.coefficients_of(a)
            if len(parts) == 1:
                continue
            slope = parts[1].as_constant()
            if len(parts) > 2 or slope is None or a not in self.bounds:
                return False
            lower, upper = self.bounds[a]
            p = p.replace(a, lower if slope > 0 else upper - 1)
        symbols = [s for m in p.terms for s, _ in m]
        return all(c >= 0 for c in p.terms.values()) and all(map(_is_natural, symbols))


def _is_natural(symbol: Expr) -> bool:
    """Whether sizes >= 0 evidently make the symbol >= 0."""
    return all(
        isinstance(e, Size)
        or (isinstance(e, Const) and e.value >= 0)
        or (isinstance(e, Call) and e.op in ("add", "mul", "floordiv", "mod"))
        for e in postorder(symbol)
    )


def _sum_part(nest: _Nest) -> Polynomial:
    total = Polynomial.constant(1)
    for a in reversed(nest.axes):
        lower, upper = nest.bounds[a]
        extent = upper - lower
        varies = any(isinstance(s, Axis) for m in extent.terms for s, _ in m)
        if (varies or a in nest.cut) and not nest.is_nonnegative(extent):
            raise _NoPolynomial(a.upper)
        step = substitute(a.step, nest.known)
        if isinstance(step, Const) and step.value == 1:
            total = total.sum_over(a, lower, upper)
        elif len(total.coefficients_of(a)) == 1:
            length = floordiv(sub(add(a.upper, step), add(a.lower, int_const(1))), step)
            total = total * nest.polynomial(substitute(length, nest.known))
        else:
            raise _NoPolynomial(a.step)
    return total


def _tighten(
    condition: Expr, axes: Sequence[Axis], lower: dict[Axis, Expr], upper: dict[Axis, Expr]
) -> dict[Axis, None]:
    """A comparison that is linear in the innermost of its axes becomes a bound of that axis."""
    used = free_leaves(condition)
    inner = [a for a in axes if a in used]
    if not isinstance(condition, Call) or not inner or condition.op not in _AS_AT_LEAST:
        raise _NoPolynomial(condition)
    a = inner[-1]
    left, right = condition.args
    if condition.op == "eq":
        sides = [(left, right), (right, left)]
    else:
        sides = [_AS_AT_LEAST[condition.op](left, right)]
    for big, small in sides:  # big >= small
        slope, rest = _slope(sub(big, small), a, condition)
        if slope == 1:
            lower[a] = call("maximum", lower[a], sub(int_const(0), rest))
        else:
            upper[a] = call("minimum", upper[a], add(rest, int_const(1)))
    return {a: None}


_AS_AT_LEAST: Final[dict[str, Callable[[Expr, Expr], tuple[Expr, Expr]]]] = {
    "ge": lambda x, y: (x, y),
    "gt": lambda x, y: (x, add(y, int_const(1))),
    "le": lambda x, y: (y, x),
    "lt": lambda x, y: (y, add(x, int_const(1))),
    "eq": lambda x, y: (x, y),
}


def _slope(e: Expr, a: Axis, condition: Expr) -> tuple[int, Expr]:
    """(+1 or -1, e without that multiple of a)."""
    rest = substitute(e, {a: int_const(0)})
    found = _Nest([], {}).polynomial(e) - _Nest([], {}).polynomial(rest)
    for slope in (1, -1):
        if found == Polynomial.symbol(a) * Fraction(slope):
            return slope, rest
    raise _NoPolynomial(condition)


class _NoPolynomial(Exception):
    """The count is no polynomial because of `cause`."""

    def __init__(self, cause: Expr) -> None:
        self.cause = cause


def _explained(cause: Expr, names: Sequence[str]) -> UserError:
    given = ", ".join([f'"{n}": 8' for n in names])
    return UserError(
        "the count is no polynomial of the symbolic sizes.",
        where=str(cause),
        hint=f"give the sizes' values: work(..., sizes={{{given}}}).",
    )
