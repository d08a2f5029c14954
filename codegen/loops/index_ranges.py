"""Index arithmetic of the schedules: linear forms, ranges, and folding by ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import gcd, inf
from operator import is_

from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Size,
    add,
    floordiv,
    int_const,
    mod,
    mul,
)
from tensorad.ir.order import INDEX, PARAM, READ
from tensorad.ir.visit import children, common_kinds, postorder, rewrite
from tensorad.simplify.index.linear import Linear, linear_form, linear_parts

Range = tuple[float, float]
"""Smallest and largest value, both inclusive; infinite where unknown; (1, 0)-like if empty."""
ANY: Range = (-inf, inf)
_LINEAR = ("add", "sub", "mul", "neg")
_VALUES = READ | PARAM
"""Nodes that stand for data."""
COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")


def among(a: object, axes: Iterable[Expr]) -> bool:
    """Whether `a` is one of the axes (`in` would build comparisons)."""
    return any(map(is_, repeat(a), axes))


def substitutor(mapping: Mapping[Expr, Expr]) -> Callable[[Expr], Expr]:
    """`substitute` by one mapping, sharing its work between calls."""
    memo: dict[Expr, Expr] = dict(mapping)
    kinds = common_kinds(mapping)

    def image(e: Expr) -> Expr:
        found = memo.get(e)
        return rewrite(e, lambda _: None, memo, kinds) if found is None else found

    return image


class Ranges:
    """Numeric ranges of axes, and of expressions over them."""

    def __init__(self, axes: Iterable[Axis] = (), known: Mapping[Expr, Range] | None = None):
        self.memo: dict[Expr, Range] = dict(known or {})
        for a in axes:
            self.enter(a)

    def enter(self, a: Axis) -> None:
        """Add an axis whose bounds use axes already entered."""
        self.memo[a] = (self.of(a.lower)[0], self.of(a.upper)[1] - 1)

    def of(self, e: Expr) -> Range:
        """The range of an integer expression."""
        found = self.memo.get(e)
        if found is not None:
            return found
        for node in postorder(e) if e.below else (e,):
            if node not in self.memo:
                self.memo[node] = self._range(node)
        return self.memo[e]

    def of_linear(self, form: Linear) -> Range:
        """The range of a linear form; tighter than that of its expression."""
        low: float = form.constant
        high: float = form.constant
        for leaf, c in form.terms.items():
            a, b = self.of(leaf)
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return (low, high)

    def _range(self, e: Expr) -> Range:
        if isinstance(e, Const):
            value = e.value
            return (value, value) if isinstance(value, int) else ANY
        if isinstance(e, Size):
            return (0, inf)
        if not isinstance(e, Call) or e.dtype is not INT64:
            return ANY
        linear = e.op in ("add", "sub", "neg") or linear_parts(e)
        if linear:
            found = self.of_linear(linear_form(e))
        else:
            found = _call_range(e.op, [self.memo[a] for a in e.args])
        if (linear or e.op == "mul") and _may_wrap(e, found):
            return ANY
        return found


def joined_digits(form: Linear) -> Linear:
    """s*(e % c) + s*c*(e // c) -> s*e, and s*(e % c) + s*c*(e // c % d) -> s*(e % (c*d))."""
    changed = any(type(t) is Call and t.op == "mod" for t in form.terms)
    while changed:
        changed = False
        for low, s in form.terms.items():
            joined = _join(form, low, s) if type(low) is Call and low.op == "mod" else None
            if joined is not None:
                form, changed = joined, True
                break
    return form


def _join(form: Linear, low: Call, s: int) -> Linear | None:
    """The sum with a remainder and the next digit of the same number as one term."""
    number, divisor = low.args
    if not isinstance(divisor, Const):
        return None
    above = floordiv(number, divisor)
    c = int(divisor.value)
    for high, factor in form.terms.items():
        if factor != s * c or type(high) is not Call:
            continue
        others = {t: k for t, k in form.terms.items() if t is not low and t is not high}
        rest = Linear(others, form.constant)
        if high is above:
            return rest.plus(linear_form(number), s)
        if high.op == "mod" and high.args[0] is above and isinstance(high.args[1], Const):
            whole = mod(number, int_const(c * int(high.args[1].value)))
            return rest.plus(Linear({whole: s}, 0))
    return None


def unravelled(number: Expr, extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """The row-major indices of the point of this number; the first may be beyond its extent.

    An extent of 0, which no number has, divides as 1.
    """
    found: list[Expr] = []
    inner: Expr = ONE
    for n in extents[:0:-1]:
        divisor = int_const(max(1, int(n.value))) if isinstance(n, Const) else n
        found.append(mod(floordiv(number, inner), divisor))
        inner = mul(inner, divisor)
    return (floordiv(number, inner), *reversed(found)) if extents else ()


def _call_range(op: str, parts: list[Range]) -> Range:
    match op:
        case "maximum":
            return (max(p[0] for p in parts), max(p[1] for p in parts))
        case "minimum":
            return (min(p[0] for p in parts), min(p[1] for p in parts))
        case "floordiv" if parts[1][0] == parts[1][1] > 0:
            (low, high), d = parts[0], parts[1][0]
            return (low // d if low > -inf else low, high // d if high < inf else high)
        case "mod" if parts[1][0] == parts[1][1] > 0:
            (low, high), d = parts[0], parts[1][0]
            return (low, high) if 0 <= low and high < d else (0, d - 1)
        case "mul" if all(p[0] >= 0 and p[1] < inf for p in parts):
            return (parts[0][0] * parts[1][0], parts[0][1] * parts[1][1])
        case "mul" if all(p[0] >= 0 for p in parts):
            return (0, inf)
    return ANY


def comparison(e: Expr) -> tuple[str, Linear] | None:
    """(op, d) of an int64 comparison `d >= 0` ("ge"), `d == 0` ("eq") or `d != 0` ("ne")."""
    if not isinstance(e, Call) or e.op not in COMPARES or e.args[0].dtype is not INT64:
        return None
    d = linear_form(e.args[0]).plus(linear_form(e.args[1]), -1)
    match e.op:
        case "ge" | "eq" | "ne":
            return e.op, d
        case "gt":
            return "ge", d.plus(Linear({}, -1))
        case "le":
            return "ge", d.scaled(-1)
    return "ge", d.scaled(-1).plus(Linear({}, -1))


def wraps(form: Linear, ranges: Ranges) -> bool:
    """Whether the sum holds data and may leave int64: its arithmetic is modulo 2**64."""
    if not any(leaf.kinds & _VALUES for leaf in form.terms):
        return False
    low, high = ranges.of_linear(form)
    return low < -(2**63) or high >= 2**63


def _may_wrap(e: Expr, found: Range) -> bool:
    """Whether a result leaves int64; what axes and sizes alone give does not where it is unbounded.

    max(x, 0) is never negative, but max(x, 0) * 3 is where it exceeds 2**63.
    """
    if not e.kinds & _VALUES and (found[0] == -inf or found[1] == inf):
        return False
    return found[0] < -(2**63) or found[1] >= 2**63


def decide(e: Expr, ranges: Ranges) -> Expr | None:
    """TRUE or FALSE for a comparison that the ranges settle."""
    found = comparison(e)
    if found is None:
        return None
    op, d = found
    if any(wraps(linear_form(a), ranges) for a in children(e)):
        return None
    low, high = ranges.of_linear(d)
    if op == "ge":
        return TRUE if low >= 0 else FALSE if high < 0 else None
    if low > 0 or high < 0:
        return FALSE if op == "eq" else TRUE
    if low == high == 0:
        return TRUE if op == "eq" else FALSE
    return None


def folder(ranges: Ranges, images: Mapping[Expr, Expr] | None = None) -> Callable[[Expr], Expr]:
    """`fold_by_ranges`, sharing its work between calls.

    Args:
        images: what is put in for nodes, in the same pass; an image may hold nodes before its own.
    """
    memo: dict[Expr, Expr] = {}
    kinds = 0 if images else INDEX
    for e, other in (images or {}).items():
        memo[e] = _folded(other, ranges, memo, kinds)
    return lambda e: _folded(e, ranges, memo, kinds)


def fold_by_ranges(root: Expr, ranges: Ranges, memo: dict[Expr, Expr]) -> Expr:
    """Comparisons, max, min, // and % that the ranges settle are replaced."""
    return _folded(root, ranges, memo, INDEX)


def _folded(root: Expr, ranges: Ranges, memo: dict[Expr, Expr], kinds: int) -> Expr:
    def fold(e: Expr) -> Expr | None:
        if type(e) is not Call:
            return None
        if e.op in COMPARES:
            return decide(e, ranges)
        if e.dtype is not INT64:
            return None
        if e.op in ("maximum", "minimum"):
            return _fold_extremum(e, ranges)
        if e.op in ("floordiv", "mod"):
            return fold_division(e, ranges)
        if e.op == "mul" and any(type(a) is Call and a.op in _LINEAR for a in e.args):
            return linear_form(e).to_expr()
        return None

    found = memo.get(root)
    return rewrite(root, fold, memo, kinds) if found is None else found


def _fold_extremum(e: Call, ranges: Ranges) -> Expr | None:
    """max(a, b) -> a where a >= b always"""
    a, b = e.args
    d = linear_form(a).plus(linear_form(b), -1)
    if wraps(linear_form(a), ranges) or wraps(linear_form(b), ranges):
        return None
    low, high = ranges.of_linear(d)
    if low >= 0:
        return a if e.op == "maximum" else b
    if high <= 0:
        return b if e.op == "maximum" else a
    return None


def fold_division(e: Call, ranges: Ranges) -> Expr | None:
    """(d*q + r) // d -> q and (d*q + r) % d -> r where 0 <= r < d; d may share a factor only."""
    if not isinstance(e.args[1], Const) or int(e.args[1].value) <= 0:
        return None
    divisor = int(e.args[1].value)
    form = linear_form(e.args[0])
    if wraps(form, ranges):
        return None
    whole = divisor
    for factor in sorted({gcd(divisor, c) for c in form.terms.values()} | {divisor})[::-1]:
        rest = Linear({t: c for t, c in form.terms.items() if c % factor}, form.constant % factor)
        low, high = ranges.of_linear(rest)
        shift = (low // factor) * factor if low > -inf else 0
        if factor > 1 and 0 <= low - shift and high - shift < factor and shift > -inf:
            rest = rest.plus(Linear({}, -int(shift)))
            whole = factor
            break
    else:
        return None
    quotient = form.plus(rest, -1)
    scaled = Linear({t: c // whole for t, c in quotient.terms.items()}, quotient.constant // whole)
    above = divisor // whole
    if e.op == "floordiv":
        return floordiv(scaled.to_expr(), int_const(above))
    if above == 1:
        return rest.to_expr()
    upper = mul(int_const(whole), mod(scaled.to_expr(), int_const(above)))
    return add(upper, rest.to_expr())
