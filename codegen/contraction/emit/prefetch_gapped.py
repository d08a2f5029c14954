"""Prefetches, a line or two at a time, what a panel with gaps stores and the next one reads.

Sums wait in scratch and a window is copied before its panel: neither leaves the processor work to
do while memory answers. So the reduce loops of the panel before prefetch those lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from tensorad.codegen.contraction.blocking import Blocking, store_stride
from tensorad.codegen.contraction.digits import Mapping, digits
from tensorad.codegen.contraction.recognise import size
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Prefetch
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Expr,
    Read,
    add,
    floordiv,
    int_const,
    mod,
    mul,
    sub,
)
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.linear import linear_form


def _is_beyond_l2(t: Tensor) -> bool:
    """Whether a tensor would hardly stay in the second cache."""
    least = machine.current().l2 // 4
    return (fixed_bytes(t) or least) >= least


def result_prefetches(
    b: Blocking, nest: Nest, panel: Mapping, step: Axis, row: Expr, rows: int, lane: Expr, many: int
) -> list[Prefetch]:
    """The lines of `many` registers of results in some rows, a part in each reduce step."""
    if store_stride(b) != 1 or not any(_is_beyond_l2(t) for t in nest.tensors):
        return []
    line = machine.current().line // nest.tensors[0].dtype.size_bytes
    each = ceil(many * b.width / line)
    found: list[Prefetch] = []
    part = ceil(rows * each / size(step))
    for n in range(part):
        place = add(mul(step, int_const(part)), int_const(n))
        mapping = {**panel, **digits(add(row, floordiv(place, int_const(each))), b.rows.axes)}
        mapping[b.group[-1]] = add(lane, mul(mod(place, int_const(each)), int_const(line)))
        image = substitutor(mapping)
        indices = tuple([image(i) for i in nest.indices])
        found.extend([Prefetch(t, indices, 1) for t in nest.tensors])
    return found


def panel_prefetches(
    b: Blocking, panel: Mapping, step: Axis, row: Expr, rows: int, lane: Expr, many: int
) -> list[Prefetch]:
    """The lines that `many` registers of another panel read last, shared by the row tiles.

    Those they read first, the panel before it has read, unless a batch begins.
    """
    value = b.lanes.value
    assert isinstance(value, Read)
    outermost, *others = b.contraction.reduced
    across = linear_form(value.indices[-len(b.group)]).terms
    leading = free_leaves(*value.indices[: -len(b.group)])
    if not _is_beyond_l2(value.tensor) or any(a in leading for a in others):
        return []
    line = machine.current().line // value.dtype.size_bytes
    each = ceil(many * b.width / line)
    part = ceil(each / b.tile_rows)
    mapping: Mapping = {**panel, outermost: step}
    mapping.update({a: sub(a.upper, ONE) if across.get(a, 0) > 0 else ZERO for a in others})
    tile = mul(floordiv(row, int_const(rows)), int_const(part))
    found: list[Prefetch] = []
    for n in range(part):
        place = mod(add(tile, int_const(n)), int_const(each))
        mapping[b.group[-1]] = add(lane, mul(place, int_const(line)))
        image = substitutor(dict(mapping))
        found.append(Prefetch(value.tensor, tuple([image(i) for i in value.indices]), 1))
    return found


def panel_at(outer: Mapping, group: Sequence[Axis], start: Expr) -> Mapping:
    """The axes of a panel where it starts."""
    return {**outer, **dict.fromkeys(group, ZERO), group[0]: start}
