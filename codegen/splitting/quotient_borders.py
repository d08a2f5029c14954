"""Cuts where quotients settle bounds: x // 2 in min(2, x // 2) matters near a border only.

Between the borders the division is gone, and neighbours in memory stay neighbours in a loop;
splitting the axis into quotient and remainder first would take every second of them.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Final

from tensorad.codegen.loops.index_ranges import among, comparison
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.splitting.cut_points import Cut
from tensorad.codegen.splitting.index_sets import cut_parts, cut_repeatedly, most_pieces, switches
from tensorad.ir.expr import Axis, Call, Const, Expr, int_const
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.linear import linear_form

_DIVISIONS: Final = ("floordiv", "mod")
_SHARE: Final = 2
"""At least one part in so many of the points has to do without the divisions."""


def cut_quotients(nest: Nest) -> list[Nest]:
    """The nest cut along output axes, where most of it is without their divisions then.

    Requires and ensures: simplified nests; the pieces cover the points once, in order.
    """
    return cut_repeatedly(nest, most_pieces(nest), _parts)


def _parts(nest: Nest) -> list[Nest] | None:
    for a in dict.fromkeys([a for e in _divisions(nest) for a in free_leaves(e)]):
        if not isinstance(a, Axis) or not among(a, nest.axes):
            continue
        points = _thresholds(nest, a)
        if points:
            cut = Cut(a, tuple(map(int_const, points)), None, (None,) * (len(points) + 1))
            parts = cut_parts(nest, cut)
            free = [p for p in parts if not _divides(p, a.name)]
            if _SHARE * sum(map(_size, free)) >= _size(nest):
                return parts
    return None


def _divisions(nest: Nest) -> list[Call]:
    return [e for e in switches(nest) if e.op in _DIVISIONS]


def _divides(nest: Nest, name: str) -> bool:
    """Whether an axis of the name, which cuts keep, is divided."""
    found = free_leaves(*_divisions(nest))
    return any(isinstance(a, Axis) and a.name == name for a in found)


def _size(nest: Nest) -> int:
    return prod([a.extent or 0 for a in nest.axes])


def _thresholds(nest: Nest, a: Axis) -> list[int]:
    """Inside of an axis: where a quotient of it crosses what it is compared with."""
    if a.extent is None or not isinstance(a.lower, Const) or not isinstance(a.step, Const):
        return []
    low = int(a.lower.value)
    high = low + a.extent
    found = [_crossing(e, a) for e in switches(nest) if e.op not in _DIVISIONS]
    nearest = [min(p, key=lambda n: min(n - low, high - n)) for p in found if p]
    return sorted({n for n in nearest if low < n < high})


def _crossing(e: Call, a: Axis) -> tuple[int, ...]:
    """Where k * ((a + c) // d) + r changes its sign, if that is what decides the switch.

    The greater of two, and the less, may be either where they are equal: one place or the next.
    """
    if e.op in ("maximum", "minimum"):
        form = linear_form(e.args[0]).plus(linear_form(e.args[1]), -1)
    else:
        found = comparison(e)
        if found is None:
            return ()
        form = found[1]
    if len(form.terms) != 1:
        return ()
    ((quotient, k),) = form.terms.items()
    d = _divisor(quotient)
    if d is None or not isinstance(quotient, Call):
        return ()
    inner = linear_form(quotient.args[0])
    if len(inner.terms) != 1 or inner.terms.get(a) != 1:
        return ()
    levels = [ceil(-form.constant / k) if k > 0 else form.constant // -k + 1]
    if e.op in ("maximum", "minimum") and form.constant % k == 0:
        levels = [-form.constant // k, -form.constant // k + 1]
    return tuple([d * n - inner.constant for n in levels])


def _divisor(e: Expr) -> int | None:
    if isinstance(e, Call) and e.op == "floordiv" and isinstance(e.args[1], Const):
        return int(e.args[1].value) if e.args[1].value > 0 else None
    return None
