"""Where one comparison, max, min or division cuts one axis into parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from tensorad.codegen.loops.index_ranges import Ranges, among, comparison
from tensorad.ir.expr import FALSE, ONE, TRUE, Axis, Call, Const, Expr, Size, call, int_const
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.linear import Linear, linear_form

FEW_PERIODS = 2
"""Multiples of a divisor that a long axis is cut at."""
SHORT = 4
"""A mixed border of at most this many values is cut into single values."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Where an axis is cut, and what a switch becomes in each of the parts."""

    axis: Axis
    points: tuple[Expr, ...]
    switch: Call | None
    images: tuple[Expr | None, ...]
    """One per part; None where the switch stays."""


def find_cut(e: Call, axes: Iterable[Axis], ranges: Ranges) -> Cut | None:
    for a in axes:
        if a.step is not ONE or a.extent == 1:
            continue
        divides = e.op in ("floordiv", "mod")
        cut = _cut_division(e, a) if divides else _cut_order(e, a, ranges)
        if cut is not None:
            return cut
    return None


def _cut_division(e: Call, a: Axis) -> Cut | None:
    """(a + r) // d switches where a + r passes a multiple of d: cut a short axis there, or one
    that passes few of them."""
    form = linear_form(e.args[0])
    if not isinstance(e.args[1], Const) or a not in form.terms or a.extent is None:
        return None
    if not isinstance(a.lower, Const):
        return None
    d, c, k = int(e.args[1].value), form.terms[a], form.constant
    rest = [t for t, n in form.terms.items() if t is not a and n % d]
    if d <= 0 or rest:
        return None
    low = int(a.lower.value)
    first, last = (c * low + k) // d, (c * (low + a.extent - 1) + k) // d
    if first == last or (a.extent > 2 * SHORT and abs(last - first) > FEW_PERIODS):
        return None
    if c > 0:  # where the quotient becomes m
        found = [-((k - m * d) // c) for m in range(first + 1, last + 1)]
    else:  # where it becomes less than m
        found = [-((m * d - k - 1) // -c) for m in range(first, last, -1)]
    points = sorted(dict.fromkeys(found))
    return Cut(a, tuple(map(int_const, points)), e, (None,) * (len(points) + 1))


def _cut_order(e: Call, a: Axis, ranges: Ranges) -> Cut | None:
    """Cut where the sign of the difference of the operands switches."""
    form, holds, fails = _condition(e)
    c = form.terms.get(a, 0)
    if not c:
        return None
    sizes: dict[Expr, int] = {t: k for t, k in form.terms.items() if isinstance(t, Size)}
    rest = Linear(
        {t: k for t, k in form.terms.items() if t is not a and t not in sizes}, form.constant
    )
    low, high = ranges.of_linear(rest)
    if low == -inf or high == inf or any(among(a, free_leaves(t)) for t in rest.terms):
        return None
    low_, high_ = int(low), int(high)
    if sizes or a.extent is None:
        return _symbolic_cut(e, a, c, Linear(sizes, 0), low_, high_, (holds, fails))
    assert isinstance(a.lower, Const)  # it has an extent
    start = int(a.lower.value)
    true_at, false_at = _thresholds(c, low_, high_)
    stop = start + a.extent
    first, last = sorted((true_at, false_at))
    points = sorted({p for p in (first, last) if start < p < stop})
    mixed = min(last, stop) - max(first, start)
    if not points:
        if a.extent > SHORT or mixed <= 0:
            return None
        points = list(range(start + 1, stop))
    elif 2 * mixed > a.extent and mixed > SHORT:
        return None
    images: tuple[Expr | None, ...] = (None,) * (len(points) + 1)
    return Cut(a, tuple(map(int_const, points)), e, images)


def _thresholds(c: int, low: int, high: int) -> tuple[int, int]:
    """Where c*a + [low, high] >= 0 starts (c > 0) or stops to hold surely, and possibly."""
    if c > 0:
        return -(low // c), -(high // c)
    return low // -c + 1, high // -c + 1


def _symbolic_cut(
    e: Call, a: Axis, c: int, sizes: Linear, low: int, high: int, images: tuple[Expr, Expr]
) -> Cut | None:
    """The same at thresholds that are expressions of sizes; only for unit coefficients."""
    if abs(c) != 1 or e.op in ("eq", "ne") or high - low > SHORT:
        return None

    def at(value: int) -> Expr:
        threshold = sizes.plus(Linear({}, value)).scaled(-c)
        shift = 0 if c > 0 else 1
        point = threshold.plus(Linear({}, shift)).to_expr()
        return call("maximum", a.lower, call("minimum", a.upper, point))

    sure, possible = at(low), at(high)
    holds, fails = images
    if low == high:
        parts = (fails, holds) if c > 0 else (holds, fails)
        return Cut(a, (sure,), e, parts)
    if c > 0:
        return Cut(a, (possible, sure), e, (fails, None, holds))
    return Cut(a, (sure, possible), e, (holds, None, fails))


def _condition(e: Call) -> tuple[Linear, Expr, Expr]:
    """(d, image where d >= 0, image where d < 0) of a comparison, max or min."""
    if e.op in ("maximum", "minimum"):
        x, y = e.args
        d = linear_form(x).plus(linear_form(y), -1)
        images = (x, y) if e.op == "maximum" else (y, x)
        if isinstance(images[1], Const):  # where both are equal the constant is simpler
            d = d.plus(Linear({}, -1))
        return (d, *images)
    found = comparison(e)
    assert found is not None  # a switch over int64
    return found[1], TRUE, FALSE
