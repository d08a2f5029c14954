"""How an operand of a contraction lies in memory, and how a copy of it could."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.contraction.recognise import Contraction, Operand, is_affine, size
from tensorad.codegen.loops.index_ranges import among
from tensorad.ir.expr import Axis, Read
from tensorad.ir.visit import postorder
from tensorad.simplify.index.linear import linear_form


def in_place(part: Operand, group: Sequence[Axis]) -> bool:
    """Whether the flattened axes are neighbours in memory."""
    if part.padded or not isinstance(part.value, Read) or len(part.accesses) > 1:
        return False
    uses = part.accesses[0].uses
    stride = 1
    for a in reversed(group):
        if uses.get(a, 0) != stride:
            return False
        stride *= size(a)
    return True


def can_relayout(part: Operand, lane: Axis | None, c: Contraction) -> bool:
    """Whether the tensor can be copied with zeros around it and the lane axis innermost.

    The batch may share its dimension: groups of channels follow one another.
    """
    value = part.value
    if not isinstance(value, Read):
        return False
    for n, index in zip(value.tensor.shape, value.indices, strict=True):
        if not isinstance(n, int) and not (isinstance(index, Axis) and index.upper is n):
            return False
    axes = (*part.axes, *c.batch, *c.reduced)
    if not all(is_affine(i, axes) for i in value.indices):
        return False
    using = [i for i in value.indices if lane is not None and among(lane, postorder(i))]
    if lane is None or len(using) != 1:
        return lane is None
    terms = dict(linear_form(using[0]).terms)
    return terms.pop(lane, 0) == 1 and all(among(a, c.batch) for a in terms)


def tap_groups(lanes: Operand, c: Contraction) -> list[tuple[Axis, ...]]:
    """(tap, channel): neighbours in a copy with the channels innermost, next to what taps move."""
    value = lanes.value
    if not isinstance(value, Read) or len(lanes.axes) < 2:
        return []
    found: list[tuple[Axis, ...]] = []
    for index in reversed(value.indices):
        terms = linear_form(index).terms
        taps = [a for a in lanes.axes if terms.get(a) == 1]
        if len(taps) == 1 and any(a in terms for a in c.reduced):
            channels = [a for a in lanes.axes if any(i is a for i in value.indices)]
            found.extend([(taps[0], a) for a in channels if can_relayout(lanes, a, c)])
    return found


def are_same(one: Sequence[Axis], other: Sequence[Axis]) -> bool:
    """Whether two sequences have the same axes."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
