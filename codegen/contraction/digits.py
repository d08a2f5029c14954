"""Axes in terms of one position among their points, whose number may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.contraction.recognise import size
from tensorad.codegen.loops.index_ranges import unravelled
from tensorad.codegen.nest.access import access
from tensorad.ir.expr import ONE, ZERO, Axis, Const, Expr, Read, add, mul
from tensorad.ir.tensor import Dim

Mapping = dict[Expr, Expr]


def digits(flat: Expr, axes: Sequence[Axis]) -> Mapping:
    """Each axis in terms of the position in their row-major order."""
    return dict(zip(axes, unravelled(flat, [a.upper for a in axes]), strict=True))


def dim(count: Expr) -> Dim:
    """A count as an extent of a tensor."""
    return int(count.value) if isinstance(count, Const) else count


def points(axes: Sequence[Axis]) -> Expr:
    """How many points the axes have."""
    found: Expr = ONE
    for a in axes:
        found = mul(found, a.upper)
    return found


def position(axes: Sequence[Axis]) -> Expr:
    """The number of a point in the row-major order of axes from 0."""
    flat: Expr = ZERO
    for a in axes:
        flat = add(mul(flat, a.upper), a)
    return flat


def merged(
    local: Sequence[Axis], reduced: Sequence[Axis], operands: Sequence[Expr]
) -> list[list[Axis]]:
    """Neighbouring reduce axes that every operand walks as one.

    Args:
        local: the axes inside of a block that stand for `reduced`.
    """
    uses = [access(e.tensor, e.indices).uses for e in operands if isinstance(e, Read)]
    groups: list[list[Axis]] = [[local[0]]]
    for n in range(1, len(local)):
        steps = [(u.get(reduced[n - 1], 0), u.get(reduced[n], 0)) for u in uses]
        if local[n].extent is not None and all(
            x is not None and y is not None and x == y * size(local[n]) for x, y in steps
        ):
            groups[-1].append(local[n])
        else:
            groups.append([local[n]])
    return groups
