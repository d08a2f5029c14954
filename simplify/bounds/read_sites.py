"""Read sites: inside which loops, under which guard each read of a formula is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    Reduce,
    logical_and,
)
from tensorad.ir.order import READ, occurs, outside_reductions
from tensorad.ir.visit import needs


@dataclass(frozen=True, eq=False)
class ReadSite:
    """A read that is evaluated at the points of `axes` (outermost first) where `guard` holds."""

    read: Read
    axes: tuple[Axis, ...]
    guard: Expr


def read_sites(
    axes: Sequence[Axis], roots: Sequence[Expr], guard: Expr = TRUE
) -> Iterator[ReadSite]:
    """The reads under the roots, once for each nest of loops they stand in.

    Bounds of loops are read whatever guards what is inside of them.
    """
    todo = [(tuple(axes), tuple(roots), guard), *_bounds((), axes)]
    while todo:
        around, level, outside = todo.pop()
        order = outside_reductions(level)
        need = needs(level, order, logical_and)
        for e in order:
            here = logical_and(outside, need[e])
            if isinstance(e, Read):
                yield ReadSite(e, around, here)
            elif isinstance(e, Reduce):
                inner = (*around, *e.axes)
                todo.append((inner, (e.condition,), here))
                todo.append((inner, e.sources, logical_and(here, e.condition)))
                todo.extend(_bounds(around, e.axes))


def _bounds(
    around: Sequence[Axis], axes: Sequence[Axis]
) -> Iterator[tuple[tuple[Axis, ...], tuple[Expr, ...], Expr]]:
    """The bounds of a nest that read tensors, each with the loops outside of it."""
    for n, a in enumerate(axes):
        bounds = (a.lower, a.upper, a.step)
        if occurs(READ, *bounds):
            yield (*around, *axes[:n]), bounds, TRUE
