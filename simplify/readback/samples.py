"""Formulas evaluated in a prime field at random values: equal formulas are equal there.

Reads and functions are random values that their arguments decide; sums, products and quotients
are exact. Formulas that are not equal agree at an element with a chance below 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import isfinite
from random import Random
from typing import Any, Final

import numpy as np

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.functions import is_stop
from tensorad.ir.order import DATA, REDUCE, occurs, reads
from tensorad.ir.tensor import Compute, Constant, Tensor
from tensorad.ir.visit import free_leaves, postorder
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.columns import Columns, Rows, TooManyPoints
from tensorad.simplify.readback.written_out import element, is_never_changed

Array = Any
_PRIME: Final = (1 << 31) - 1
_MOST_POINTS: Final = 1 << 16
_MOST_ELEMENTS: Final = (4096, 512, 64, 16, 4)
_MOST_STEPS: Final = 256
_WIDTHS: Final = (4, 16, 64)
"""Places that data say are below these: comparisons with indices hold somewhere."""
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


def compare_samples(outer: Sequence[Axis], one: Expr, other: Expr) -> str:
    """For which sizes two formulas were compared.

    Raises:
        Undecided: they could not be evaluated.
        Refuted: they differ.
    """
    sizes = _sizes_of((*outer, one, other))
    tried = [g for g in _choices(sizes) if _is_possible(g)][:_MOST_SIZES]
    fields = _fields(one)
    compared = 0
    for given in tried:
        compared += all(_is_equal(partial(f, given), outer, one, other) for f in fields)
    if not compared and sizes:
        raise Undecided("no small sizes satisfy what is assumed")
    names = ", ".join(map(str, sizes))
    return f"values in a prime field{f', {compared} values of {names}' if sizes else ''}"


def _fields(naive: Expr) -> list[Callable[[Mapping[Expr, int]], Field]]:
    """The choices of values that formulas are compared for."""
    signed, placed = _asked_for_sign(naive), _asked_for_place(naive)
    chosen = any(r.dtype.is_integer and isinstance(r.tensor.op, Compute) for r in reads(naive))
    widths = _WIDTHS if placed or chosen else _WIDTHS[:1]
    return [partial(Field, signed=signed, placed=dict.fromkeys(placed, w), seed=w) for w in widths]


def _is_equal(new: Callable[[], Field], outer: Sequence[Axis], one: Expr, other: Expr) -> bool:
    """Whether there are elements to compare; at fewer elements where they visit many points.

    Raises:
        Undecided, Refuted: they could not be evaluated, or differ.
    """
    for most in _MOST_ELEMENTS:
        field = new()
        rows = field.begin(outer)
        if rows.count > most:
            some = np.random.default_rng(0).choice(rows.count, most, replace=False)
            rows = rows.take(np.sort(some)).from_here()
        try:
            first = field.values(one, rows)
            divided, field.divided = field.divided, False
            if (first != field.values(other, rows)).any():
                raise Refuted("the values differ")
            if field.divided and not divided:
                raise Refuted("it divides by 0 where the naive sum does not")
            return rows.count > 0
        except TooManyPoints:
            if most == _MOST_ELEMENTS[-1]:
                raise
    return False


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
    values = [(n,) * len(sizes) for n in _SIZES]
    if len(sizes) > 1:
        rng = Random(0)
        values += [tuple(rng.choices(_SIZES[1:], k=len(sizes))) for _ in range(_MOST_SIZES)]
    return [dict(zip(sizes, v, strict=True)) for v in values]


def _asked_for_sign(naive: Expr) -> dict[Tensor, None]:
    """The tensors of integers that a formula compares with 0."""
    found: dict[Tensor, None] = {}
    for e in postorder(naive):
        match e:
            case Call(op="lt" | "ge", args=(Read(tensor=t), Const(value=0))) if t.dtype.is_integer:
                found[t] = None
    return found


def _asked_for_place(naive: Expr) -> dict[Tensor, None]:
    """The tensors of integers that a formula compares with indices."""
    found: dict[Tensor, None] = {}
    for e in postorder(naive):
        if isinstance(e, Call) and e.op in ("eq", "ne"):
            read = [a.tensor for a in e.args if isinstance(a, Read) and a.dtype.is_integer]
            found.update(dict.fromkeys(read))
    return found


def _is_possible(given: Mapping[Expr, int]) -> bool:
    columns, row = Columns(given, 1), Rows({}, 1)
    return all(bool(columns.values(f, row)[0]) for f in facts_about(given))


class Field(Columns):
    """Values of formulas modulo a prime; integers are themselves."""

    def __init__(
        self,
        sizes: Mapping[Expr, int],
        signed: Collection[Tensor] = (),
        placed: Mapping[Tensor, int] | None = None,
        seed: int = 1,
    ) -> None:
        """`signed`: tensors of integers that may be negative; `placed`: those below a number."""
        super().__init__(sizes, _MOST_POINTS)
        self.signed, self.placed = signed, placed or {}
        self.seeds: dict[Hashable, int] = {}
        self.numbers = Random(seed)
        self.formulas: dict[Expr, Expr] = {}
        self.divided = False
        """Whether something was divided by 0."""

    def read(self, e: Read, rows: Rows) -> Array:
        if isinstance(e.tensor.op, Constant) and not e.dtype.is_float:
            return super().read(e, rows)
        if e.dtype.is_integer and (isinstance(e.tensor.op, Compute) or is_never_changed(e.tensor)):
            return self.values(self._formula(e), rows)  # data decide among what it may be
        at = [self.values(i, rows) for i in e.indices]
        found = self._random(e.tensor, at, rows)
        if e.dtype is BOOL:
            return found % 2 == 0
        if e.dtype.is_float:
            return found
        if e.tensor in self.signed:
            return found % 5 - 2
        if e.tensor in self.placed:
            return found % self.placed[e.tensor]
        steps = 2 * sum(at, np.zeros(rows.count, dtype=np.int64))
        return np.maximum(steps - 1, 0) + found % 3 if at else found % 3

    def _formula(self, e: Read) -> Expr:
        found = self.formulas.get(e)
        if found is None:
            found = element(e.tensor, e.indices)
            if found is None:
                raise Undecided(f"{e.tensor.name} has no formula")
            self.formulas[e] = found
        return found

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
        match e:
            case Reduce():
                return self._reduce(e, rows)
            case Select(cond=c, then=a, orelse=b):
                return self._chosen(self.values(c, rows), a, b, rows)
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
            case Cast(value=v):
                return self.values(v, rows).astype(np.int64) % _PRIME
            case Apply(function=f, args=(a,)) if is_stop(f):
                return self.values(a, rows)
            case Apply(function=f, args=args):
                return self._random(f, [self.values(a, rows) for a in args], rows)
            case Call(op="pow", args=(a, Const(value=n))) if n == int(n) and abs(n) < 64:
                x = self.values(a, rows)
                self.divided |= n < 0 and bool((x == 0).any())
                return _power(x if n >= 0 else _power(x, _PRIME - 2), abs(int(n)))
            case Call(op=op, args=args):
                return self._call(op, [self.values(a, rows) for a in args], rows)
        return self._random(e, (), rows)

    def _chosen(self, holds: Array, a: Expr, b: Expr, rows: Rows) -> Array:
        """Each side only where it is chosen: loops elsewhere may have other bounds."""
        found = np.zeros(rows.count, dtype=bool if a.dtype is BOOL else np.int64)
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
                self.divided |= bool((args[1] == 0).any())
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
        """Once for each value of the axes that it depends on."""
        free = free_leaves(e)
        if any(isinstance(a, Param) for a in free):
            raise Undecided("a fold inside of another one's step")
        some, place = rows.distinct([a for a in free if isinstance(a, Axis)])
        return self._folded(e, some)[place]

    def _folded(self, e: Reduce, rows: Rows) -> Array:
        points = self.along(rows, e.axes, (e.condition,))
        inside = points.from_here()
        values = [self.values(s, inside) for s in e.sources]
        if e.combiner.is_sum:
            total = np.zeros(rows.count, dtype=np.int64)
            np.add.at(total, points.origin, values[0])
            return total % _PRIME if e.dtype.is_float else total
        if any(occurs(REDUCE | DATA, r) for r in e.combiner.results):
            raise Undecided(f"{e.combiner.name} is no fold that is evaluated")
        found = self._steps(e, rows, points, values)
        return found % _PRIME if e.dtype.is_float else found

    def _steps(self, e: Reduce, rows: Rows, points: Rows, values: Sequence[Array]) -> Array:
        """The n-th points of all rows are taken in together, for one n after another."""
        order = np.lexsort((*[points.axes[a] for a in reversed(e.axes)], points.origin))
        origin = points.origin[order]
        step = np.arange(len(origin)) - np.searchsorted(origin, origin)
        last = int(step.max(initial=-1))
        if last > _MOST_STEPS:
            raise Undecided("a fold has many steps")
        state = [_first(c, rows.count) for c in e.combiner.identity]
        for n in range(last + 1):
            now = np.flatnonzero(step == n)
            who, which = origin[now], order[now]
            given: dict[Expr, Array] = dict(
                zip(e.combiner.lhs, [s[who] for s in state], strict=True)
            )
            given.update(zip(e.combiner.rhs, [v[which] for v in values], strict=True))
            inside = Rows(given, len(now))
            for s, new in zip(
                state, [self.values(r, inside) for r in e.combiner.results], strict=True
            ):
                s[who] = new
        return state[e.index]


def _first(c: Const, count: int) -> Array:
    """The begin of a fold; infinities are beyond all numbers of the field."""
    if not c.dtype.is_float:
        return np.full(count, c.value, dtype=bool if c.dtype is BOOL else np.int64)
    number = _residue(c.value) if isfinite(c.value) else 2 * _PRIME if c.value > 0 else -_PRIME
    return np.full(count, number, dtype=np.int64)


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
