"""Counts the points of a gradient whose contributions are gathered one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.autodiff.adjoints.contributions import Contribution, by_read
from tensorad.autodiff.counting.cost import listed_points
from tensorad.autodiff.counting.visits import Visits
from tensorad.ir.analysis.points import count_points, depends_on_data, possible
from tensorad.ir.analysis.sizes import elements_at
from tensorad.ir.expr import TRUE, Axis, Expr, logical_or
from tensorad.ir.tensor import Op, Scan, Scatter, Tensor
from tensorad.ir.visit import topological_ops

MOST_POINTS: Final = 1 << 17
"""Loops that need more points listed to be counted are not counted."""

Received = Mapping[Tensor, Sequence[Contribution]]
"""Tensors whose adjoints are stored -> what these are made of."""


def points_per_contribution(
    results: Sequence[Tensor],
    received: Received,
    stored: Sequence[Tensor],
    inner: Mapping[Op, Op],
    given: Sequence[Tensor],
    sizes: Mapping[Expr, int],
    enough: int,
) -> int | None:
    """The points of each contribution, and of the loops that no adjoint is collected in.

    Args:
        results: a gradient, as it came from the sweep.
        stored: the tensors in which it collects adjoints.
        inner: reductions inside of formulas -> the formula, which has their points where both
            are computed.
        given: what is behind these does not count.
        enough: more than this need not be counted.
    Returns:
        None if too many points would have to be listed.
    """
    total = 0
    for t, parts in received.items():
        nests = [_nest(members) for members in by_read(parts)]
        if sum([listed_points(nest, sizes) for nest in nests]) > MOST_POINTS:
            return None
        elements = elements_at(t.shape, sizes)
        points = sum([count_points(nest, sizes) for nest in nests])
        scattered = any(depends_on_data(*c.indices) for c in parts)
        total += elements + points if scattered else max(elements, points)
        if total >= enough:
            return total
    order = dict.fromkeys(topological_ops(results))
    beside = {**_collecting(stored), **{r: None for r, op in inner.items() if op in order}}
    return total + Visits(results, given, beside).count(sizes)


def _collecting(stored: Sequence[Tensor]) -> dict[Op, None]:
    """The operations that collect adjoints: also those whose results others go on adding to."""
    found: dict[Op, None] = {}
    stack = [t.op for t in stored]
    while stack:
        op = stack.pop()
        if op not in found and not isinstance(op, Scan):
            found[op] = None
            if isinstance(op, Scatter) and op.init is not None:
                stack.append(op.init.op)
    return found


def _nest(members: Sequence[Contribution]) -> list[Expr]:
    """The axes of contributions to one element from one point, where some guard may hold."""
    first = members[0]
    axes: list[Axis] = list(first.axes)
    guards = (possible(first.condition), logical_or(*[possible(c.guard) for c in members]))
    return [*axes, *[g for g in guards if g is not TRUE]]
