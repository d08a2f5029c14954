"""Where a formula over (outer, own) axes can be nonzero: for each outer point, a small box.

A Jacobian dT[o, t] that is zero unless t lies in a window around a place that o decides needs
only the window's elements: B[o, s] = dT[o, start(o) + s], s < width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import Axis, Call, Cast, Expr, Reduce, Size, logical_and, logical_or
from tensorad.ir.order import sizes_in
from tensorad.simplify.domain.convex_loops import complexity
from tensorad.simplify.index.quasi_affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine, Space, budget
from tensorad.simplify.zeros.lift import is_index_condition, lift, split_condition, summands

_WORTH = 2
"""A band is stored if it has this many times fewer elements than the whole."""


@dataclass(frozen=True, eq=False)
class BandWindow:
    """start <= own axis < start + width holds wherever the formula can be nonzero."""

    axis: Axis
    start: Expr
    width: int


def band(outer: Sequence[Axis], own: Sequence[Axis], body: Expr) -> list[BandWindow] | None:
    """A window for each own axis; None if the whole is about as small.

    The starts are expressions of the outer axes and sizes.
    """
    support = _support(body)
    if support is None:
        return None
    axes, condition = support
    try:
        with budget():
            windows = _windows(outer, own, axes, condition)
    except (NotAffine, BudgetExceeded):
        return None
    whole = [a.extent for a in own]
    if all(n is not None for n in whole):
        full = prod(n for n in whole if n is not None)
        return windows if windows and prod(w.width for w in windows) * _WORTH <= full else None
    return windows


def _support(body: Expr) -> tuple[list[Axis], Expr] | None:
    """(further axes, a condition) such that the body is zero where no values of these axes
    meet the condition; None if it may be nonzero everywhere."""
    axes: list[Axis] = []
    terms: list[Expr] = []
    for _, term in summands(body):
        condition, value = lift(term)
        for e in _factors(value):
            bounds = logical_and(*[axis_conditions(a) for a in e.axes])
            inner, _ = split_condition(e.condition)
            condition = logical_and(condition, bounds, inner)
            axes += e.axes
        if not is_index_condition(condition):
            return None
        terms.append(condition)
    return axes, logical_or(*terms)


def _factors(root: Expr) -> list[Reduce]:
    """The sums that a product is made of: where one has no points, the product is zero."""
    found: list[Reduce] = []
    stack = [root]
    while stack:
        e = stack.pop()
        match e:
            case Reduce() if e.combiner.is_sum:
                found.append(e)
            case Call(op="mul"):
                stack += e.args
            case Call(op="neg" | "div"):
                stack.append(e.args[0])
            case Cast(value=v):
                stack.append(v)
    return found


def _windows(
    outer: Sequence[Axis], own: Sequence[Axis], axes: Sequence[Axis], condition: Expr
) -> list[BandWindow] | None:
    dims = [*own, *axes]
    used = [e for e in free_parameters([*outer, *dims], condition) if isinstance(e, Size)]
    facts = [f for f in facts_about(used) if is_affine(f, ())]
    sizes = dict.fromkeys([*used, *sizes_in(*facts)])
    space = Space([*sizes, *outer], dims)
    known = [*[s >= 0 for s in sizes], *facts, *[axis_conditions(a) for a in (*outer, *own)]]
    points = IntegerSet.of(space, *known, condition).simplify()
    if points.is_empty():
        return None
    found: list[BandWindow] = []
    for a in own:
        window = _window(points.restrict_to([a]), a)
        if window is None:
            return None
        found.append(window)
    return found


def _window(points: IntegerSet, a: Axis) -> BandWindow | None:
    """The narrowest window from a lower bound; the whole axis if it is no wider."""
    lowers, _ = points.simplify().bounds(a)
    whole = a.extent
    found = [] if whole is None else [BandWindow(a, a.lower, whole)]
    for low in lowers:
        most = points.largest(a - low)
        if most is not None:
            found.append(BandWindow(a, low, most + 1))
    return min(found, key=lambda w: (w.width, complexity(w.start)), default=None)
