"""Upper bounds of indices as polynomials of sizes: what a reshape reads is in range.

isl is linear: a product, quotient or remainder of sizes is an unknown to it. Here an axis is
at most its upper bound less one, and a < q*b gives a // b <= q - 1 and a % b <= b - 1. All
bounds speak of points that are visited, so b >= 1 where a < q*b holds for some a >= 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, LocalSize, Size
from tensorad.ir.visit import children
from tensorad.simplify.index.intervals import Interval, intervals

_Bounds = dict[Expr, Polynomial | None]


def stays_below(index: Expr, extent: Expr) -> bool:
    """Whether 0 <= index < extent at all points of the axes, whatever the sizes."""
    order = _order(index, extent)
    if not any(isinstance(e, Size) for e in order):
        return False
    ranges = intervals((index, extent))
    low = ranges[index].lo
    if low is None or low < 0:
        return False
    bounds: _Bounds = {}
    exact: _Bounds = {}
    for e in order:
        exact[e] = _exact(e, exact)
        bounds[e] = exact[e] if exact[e] is not None else _upper(e, bounds, exact, ranges)
    top, above = exact[extent], bounds[index]
    if top is None or above is None:
        return False
    return _never_negative(_least(top - above - 1, exact))


def _order(*roots: Expr) -> list[Expr]:
    """Operands before users, the upper bounds of axes included."""
    done: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack[-1]
        parts = (e.upper,) if isinstance(e, Axis) else children(e)
        if isinstance(e, LocalSize) and e.extent is not None:
            parts = (e.extent,)
        missing = [c for c in parts if c not in done]
        if missing and e not in done:
            stack.extend(missing)
        else:
            done[stack.pop()] = None
    return list(done)


def _least(p: Polynomial, exact: Mapping[Expr, Polynomial | None]) -> Polynomial:
    """The polynomial where each counter has the value that makes it least, inner ones first."""
    for e in reversed(list(exact)):
        extent = exact[e.extent] if isinstance(e, LocalSize) and e.extent is not None else None
        slopes = p.coefficients_of(e)[1:]
        if extent is None or len(slopes) != 1:
            continue
        if _never_negative(slopes[0]):
            p = p.replace(e, Polynomial.constant(0))
        elif _never_negative(-slopes[0]):
            p = p.replace(e, extent - 1)
    return p


def _never_negative(p: Polynomial) -> bool:
    return all(c >= 0 for c in p.terms.values())  # sizes are not negative


def _exact(e: Expr, exact: Mapping[Expr, Polynomial | None]) -> Polynomial | None:
    """The value of an expression of sizes alone."""
    match e:
        case Const() if e.dtype.is_integer:
            return Polynomial.constant(int(e.value))
        case Size():
            return Polynomial.symbol(e)
        case Call(op="add" | "sub" | "mul" as op, args=(a, b)):
            x, y = exact[a], exact[b]
            if x is None or y is None:
                return None
            if op == "mul":
                return x * y
            return x + y if op == "add" else x - y
    return None


def _upper(
    e: Expr, bounds: _Bounds, exact: _Bounds, ranges: Mapping[Expr, Interval]
) -> Polynomial | None:
    """A polynomial that the value does not exceed."""
    match e:
        case Axis():
            above = bounds[e.upper]
            return None if above is None else above - 1
        case Cast(value=v) if v.dtype.is_integer and v.dtype.bits <= e.dtype.bits:
            return bounds[v]
        case Call(op="add", args=(a, b)):
            x, y = bounds[a], bounds[b]
            return None if x is None or y is None else x + y
        case Call(op="sub", args=(a, b)):
            x, low = bounds[a], ranges[b].lo
            if x is None or (exact[b] is None and low is None):
                return None
            least = exact[b]
            return x - (Polynomial.constant(low or 0) if least is None else least)
        case Call(op="mul" | "floordiv" | "mod" as op, args=(a, b)):
            x, y = bounds[a], bounds[b]
            if x is None or y is None or not _both_nonnegative(ranges[a], ranges[b]):
                return None
            return x * y if op == "mul" else _divided(op, x, exact[b])
    return None


def _both_nonnegative(a: Interval, b: Interval) -> bool:
    return a.lo is not None and b.lo is not None and min(a.lo, b.lo) >= 0


def _divided(op: str, above: Polynomial, divisor: Polynomial | None) -> Polynomial:
    """The bound of a // b or a % b from that of a >= 0; neither exceeds a."""
    if divisor is None:
        return above
    times = _quotient(above + 1, divisor)
    if op == "floordiv":
        return above if times is None else times - 1
    return above if times is None and set(divisor.terms) != {()} else divisor - 1


def _quotient(p: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """p / divisor, if the divisor has one term and divides every term of p."""
    if len(divisor.terms) != 1:
        return None
    whole, rest = p.separate(divisor)
    return whole if rest == 0 else None
