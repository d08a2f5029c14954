"""Formulas evaluated in a prime field at random values: equal formulas are equal there.

Reads and functions are random values that their arguments decide; sums, products and quotients
are exact. Formulas that are not equal agree at an element with a chance below 1e-6.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import isfinite
from random import Random
from typing import Any, Final

import numpy as np

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Apply, Axis, Call, Cast, Const, Expr, Read, Reduce, Select, Size
from tensorad.ir.functions import is_stop
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import postorder
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.columns import Columns, Rows

Array = Any
_PRIME: Final = (1 << 31) - 1
_MOST_POINTS: Final = 1 << 16
_MOST_ELEMENTS: Final = 64
_SIZES: Final = (0, 1, 2, 3, 4, 6)
_MOST_SIZES: Final = 12
_ROUNDED: Final = 10**6
_COMPARED: Final = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_FOLDS: Final = {"max": np.maximum, "min": np.minimum}


def compare_samples(outer: Sequence[Axis], one: Expr, other: Expr) -> str:
    """For which sizes two formulas were compared.

    Raises:
        Undecided: they could not be evaluated.
        Refuted: they differ.
    """
    sizes = _sizes_of((*outer, one, other))
    tried = [g for g in _choices(sizes) if _is_possible(g)]
    compared = 0
    for given in tried:
        field = Field(given)
        rows = field.begin(outer)
        if rows.count > _MOST_ELEMENTS:
            some = np.random.default_rng(0).choice(rows.count, _MOST_ELEMENTS, replace=False)
            rows = rows.take(np.sort(some)).from_here()
        if not rows.count:
            continue
        compared += 1
        if (field.values(one, rows) != field.values(other, rows)).any():
            raise Refuted("the values differ")
    if not compared and sizes:
        raise Undecided("no small sizes satisfy what is assumed")
    names = ", ".join(map(str, sizes))
    return f"values in a prime field{f', {compared} values of {names}' if sizes else ''}"


def _sizes_of(roots: Sequence[Expr]) -> list[Size]:
    found: dict[Size, None] = {}
    pending = list(roots)
    seen: dict[Expr, None] = {}
    while pending:
        for e in postorder(pending.pop()):
            if e in seen:
                continue
            seen[e] = None
            if isinstance(e, Size):
                found[e] = None
                pending += facts_about([e])
            if isinstance(e, Axis):
                pending += [e.lower, e.upper, e.step]
    return list(found)


def _choices(sizes: Sequence[Size]) -> list[dict[Expr, int]]:
    if not sizes:
        return [{}]
    if len(sizes) <= 2:
        values = list(product(_SIZES, repeat=len(sizes)))
    else:
        rng = Random(0)
        values = [(n,) * len(sizes) for n in _SIZES]
        values += [tuple(rng.choices(_SIZES[1:], k=len(sizes))) for _ in range(_MOST_SIZES)]
    return [dict(zip(sizes, v, strict=True)) for v in values]


def _is_possible(given: Mapping[Expr, int]) -> bool:
    columns, row = Columns(given, 1), Rows({}, 1)
    return all(bool(columns.values(f, row)[0]) for f in facts_about(given))


class Field(Columns):
    """Values of formulas modulo a prime; integers are themselves."""

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        super().__init__(sizes, _MOST_POINTS)
        self.seeds: dict[Hashable, int] = {}
        self.numbers = Random(1)

    def read(self, e: Read, rows: Rows) -> Array:
        if isinstance(e.tensor.op, Constant) and not e.dtype.is_float:
            return super().read(e, rows)
        at = [self.values(i, rows) for i in e.indices]
        found = self._random(e.tensor, at, rows)
        if e.dtype is BOOL:
            return found % 2 == 0
        if e.dtype.is_float:
            return found
        steps = 2 * sum(at, np.zeros(rows.count, dtype=np.int64))
        return np.maximum(steps - 1, 0) + found % 3 if at else found % 3

    def _random(self, what: Hashable, args: Sequence[Array], rows: Rows) -> Array:
        """Values that the arguments decide."""
        seed = self.seeds.setdefault(what, self.numbers.randrange(1, _PRIME))
        value = np.full(rows.count, seed, dtype=np.uint64)
        with np.errstate(over="ignore"):
            for a in args:
                value ^= a.astype(np.int64).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
                value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                value ^= value >> np.uint64(31)
        return (value % np.uint64(_PRIME)).astype(np.int64)

    def _value(self, e: Expr, rows: Rows) -> Array:
        if isinstance(e, Reduce):
            return self._reduce(e, rows)
        if e.dtype is BOOL and isinstance(e, Call) and e.args[0].dtype.is_float:
            args = [_signed(self.values(a, rows)) for a in e.args]
            if e.op in _COMPARED:
                return _COMPARED[e.op](*args)
            return self._random(e.op, args, rows) % 2 == 0
        return self._number(e, rows) if e.dtype.is_float else super()._value(e, rows)

    def _number(self, e: Expr, rows: Rows) -> Array:
        match e:
            case Const(value=v):
                return np.full(rows.count, _residue(v), dtype=np.int64)
            case Read():
                return self.read(e, rows)
            case Select(cond=c, then=a, orelse=b):
                holds = self.values(c, rows)
                return self._chosen(holds, a, b, rows)
            case Cast(value=v):
                return self.values(v, rows).astype(np.int64) % _PRIME
            case Apply(function=f, args=(a,)) if is_stop(f):
                return self.values(a, rows)
            case Apply(function=f, args=args):
                return self._random(f, [self.values(a, rows) for a in args], rows)
            case Call(op="pow", args=(a, Const(value=n))) if n == int(n) and abs(n) < 64:
                x = self.values(a, rows)
                return _power(x if n >= 0 else _power(x, _PRIME - 2), abs(int(n)))
            case Call(op=op, args=args):
                return self._call(op, [self.values(a, rows) for a in args], rows)
        return self._random(e, (), rows)

    def _chosen(self, holds: Array, a: Expr, b: Expr, rows: Rows) -> Array:
        """Each side only where it is chosen: loops elsewhere may have other bounds."""
        found = np.zeros(rows.count, dtype=np.int64)
        for side, e in ((holds, a), (~holds, b)):
            if side.any():
                found[side] = self.values(e, rows if side.all() else rows.where(side).from_here())
        return found

    def _call(self, op: str, args: Sequence[Array], rows: Rows) -> Array:
        match op:
            case "add":
                return (args[0] + args[1]) % _PRIME
            case "sub":
                return (args[0] - args[1]) % _PRIME
            case "neg":
                return -args[0] % _PRIME
            case "mul":
                return args[0] * args[1] % _PRIME
            case "div":
                return args[0] * _power(args[1], _PRIME - 2) % _PRIME
            case "maximum" | "minimum":
                choose = np.maximum if op == "maximum" else np.minimum
                return choose(*map(_signed, args)) % _PRIME
            case "abs":
                return np.abs(_signed(args[0]))
            case "sign":
                return np.sign(_signed(args[0])) % _PRIME
        return self._random(op, args, rows)

    def _reduce(self, e: Reduce, rows: Rows) -> Array:
        start = rows.from_here()
        points = self.along(start, e.axes, (e.condition,))
        fold = e.combiner.name
        if e.combiner.arity != 1 or not (e.combiner.is_sum or fold in _FOLDS):
            raise Undecided(f"{fold} is no fold that is evaluated")
        values = self.values(e.sources[0], points.from_here())
        if e.combiner.is_sum:
            total = np.zeros(rows.count, dtype=np.int64)
            np.add.at(total, points.origin, values)
            return total % _PRIME if e.dtype.is_float else total
        least = -_PRIME if fold == "max" else _PRIME
        found = np.full(rows.count, least, dtype=np.int64)
        _FOLDS[fold].at(found, points.origin, _signed(values) if e.dtype.is_float else values)
        return found % _PRIME if e.dtype.is_float else found


def _signed(values: Array) -> Array:
    """Residues between -p/2 and p/2; what is no residue as it is."""
    return np.where(values > _PRIME // 2, values - _PRIME, values) if len(values) else values


def _power(x: Array, n: int) -> Array:
    found = np.ones_like(x)
    while n:
        if n & 1:
            found = found * x % _PRIME
        x = x * x % _PRIME
        n >>= 1
    return found


def _residue(value: float) -> int:
    """A number of the field; one that is near a fraction of small numbers is that."""
    if not isfinite(value):
        return 12345 if value > 0 else _PRIME - 12345
    exact = Fraction(value)
    near = exact.limit_denominator(_ROUNDED)
    if near and abs(near - exact) <= abs(exact) / 10**7 and near.denominator % _PRIME:
        exact = near
    return exact.numerator * pow(exact.denominator, -1, _PRIME) % _PRIME
