"""Extremes of index expressions over all axes and data, as expressions of sizes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final

from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    LocalSize,
    Select,
    Size,
    axis,
    call,
    int_const,
)
from tensorad.ir.order import sizes_in
from tensorad.ir.visit import children, substitute
from tensorad.simplify.index.algebra import simplify
from tensorad.simplify.index.intervals import interval, intervals, parts_first
from tensorad.simplify.index.quasi_affine import widens

FAR: Final = (1 << 31) - 1
"""No bound: as far as the dtype of data reaches."""


@dataclass(frozen=True)
class Extremes:
    """lo <= x <= hi, expressions of sizes and numbers alone; None is "no bound"."""

    lo: Expr | None
    hi: Expr | None


_OPEN: Final = Extremes(None, None)


def extremes(root: Expr) -> Extremes:
    """Bounds of an index expression wherever the axes it depends on have values.

    An expression of sizes alone is its own extremes.
    """
    numbers = intervals((root,))
    memo: dict[Expr, Extremes] = {}
    for e in parts_first((root,), memo):
        found = _extremes(e, memo)
        lo, hi = _near(numbers[e].lo), _near(numbers[e].hi)
        memo[e] = Extremes(_first(found.lo, lo), _first(found.hi, hi))
    return memo[root]


def extremes_in_loops(root: Expr, known: Container[Expr] = ()) -> Extremes:
    """Bounds of an index expression wherever the counters of loops have values, too.

    Counters whose end only a run tells stay, but for ends made of `known` sizes.
    """
    ranges: dict[Expr, Expr] = {}
    seen: dict[Expr, None] = {}
    for e in parts_first((root,), seen):
        seen[e] = None
        if isinstance(e, LocalSize) and e.extent is not None:
            end = substitute(e.extent, ranges)
            if all(s in known for s in sizes_in(end) if isinstance(s, LocalSize)):
                ranges[e] = axis(e.label, ZERO, end)
    return extremes(substitute(root, ranges))


def _near(number: int | None) -> Expr | None:
    return None if number is None or abs(number) >= FAR else int_const(number)


def _first(a: Expr | None, b: Expr | None) -> Expr | None:
    return b if a is None else a


def _extremes(e: Expr, memo: Mapping[Expr, Extremes]) -> Extremes:
    match e:
        case Axis():
            return Extremes(memo[e.lower].lo, _of("sub", memo[e.upper].hi, ONE))
        case Const() | Size():
            return Extremes(e, e)
        case Call() | Select() | Cast() if all(memo[c].lo is c for c in children(e)):
            return Extremes(e, e)
        case Select():
            then, orelse = memo[e.then], memo[e.orelse]
            lo, hi = _of("minimum", then.lo, orelse.lo), _of("maximum", then.hi, orelse.hi)
            return Extremes(lo, hi)
        case Cast(value=v) if v.dtype.is_integer and widens(v, e):
            return memo[v]
        case Call(op=op, args=args) if op in _RULES and e.dtype is INT64:
            return _RULES[op](*[memo[a] for a in args])
    return _OPEN


def _of(op: str, *operands: Expr | None) -> Expr | None:
    """An operation of what has a bound."""
    known = [e for e in operands if e is not None]
    return simplify(call(op, *known)) if len(known) == len(operands) else None


def _natural(x: Extremes) -> bool:
    least = None if x.lo is None else interval(x.lo).lo
    return least is not None and least >= 0


def _mul(a: Extremes, b: Extremes) -> Extremes:
    """Of natural numbers, or by one value whose sign is known."""
    if _natural(a) and _natural(b):
        return Extremes(_of("mul", a.lo, b.lo), _of("mul", a.hi, b.hi))
    for x, c in ((a, b), (b, a)):
        if c.lo is c.hi and _natural(c):
            return Extremes(_of("mul", x.lo, c.lo), _of("mul", x.hi, c.lo))
        if c.lo is c.hi and _natural(_neg(c)):
            return Extremes(_of("mul", x.hi, c.lo), _of("mul", x.lo, c.lo))
    return _OPEN


def _neg(a: Extremes) -> Extremes:
    return Extremes(_of("neg", a.hi), _of("neg", a.lo))


def _floordiv(a: Extremes, b: Extremes) -> Extremes:
    """Monotone in `a` for one divisor that is natural (by 0 it is 0)."""
    if b.lo is b.hi and _natural(b):
        return Extremes(_of("floordiv", a.lo, b.lo), _of("floordiv", a.hi, b.lo))
    return Extremes(ZERO, a.hi) if _natural(a) and _natural(b) else _OPEN


def _mod(a: Extremes, b: Extremes) -> Extremes:
    if not _natural(b):
        return _OPEN
    below = _of("maximum", ZERO, _of("sub", b.hi, ONE))
    return Extremes(ZERO, _either("minimum", below, a.hi) if _natural(a) else below)


def _either(op: str, a: Expr | None, b: Expr | None) -> Expr | None:
    """The extreme of two bounds, or the one there is."""
    return _first(_of(op, a, b), _first(a, b))


_RULES: Final[dict[str, Callable[..., Extremes]]] = {
    "add": lambda a, b: Extremes(_of("add", a.lo, b.lo), _of("add", a.hi, b.hi)),
    "sub": lambda a, b: Extremes(_of("sub", a.lo, b.hi), _of("sub", a.hi, b.lo)),
    "neg": _neg,
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "minimum": lambda a, b: Extremes(_of("minimum", a.lo, b.lo), _either("minimum", a.hi, b.hi)),
    "maximum": lambda a, b: Extremes(_either("maximum", a.lo, b.lo), _of("maximum", a.hi, b.hi)),
}
