"""Estimates the cycles that a contraction takes, so that the cheapest way is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking, store_stride
from tensorad.codegen.contraction.emit.reduce_strips import column_of
from tensorad.codegen.contraction.gapped_lanes import stretched
from tensorad.codegen.contraction.operand_layout import in_place
from tensorad.codegen.contraction.recognise import Operand, size
from tensorad.codegen.contraction.register_tiles import enough, even_rows, step_cycles
from tensorad.codegen.loops.index_ranges import Ranges, among
from tensorad.codegen.model import PAGE, WAYS, Processor
from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.expr import Axis, Expr, Read, axis
from tensorad.ir.visit import substitute
from tensorad.simplify.index.linear import Linear, linear_form

LONG_ROWS: Final = 1280
"""Lanes from which a row is longer than a page."""
NEAR_COPY: Final = 0.5
FAR_COPY: Final = 1.3
"""Cycles for an element of a copy in the second cache, and of one that leaves it."""
SHORT_PIECE: Final = 20.0
"""Cycles at least that a vector of a short piece of a long row waits for memory."""
LONG_PIECE: Final = 512
"""Bytes of a piece from which it comes as fast as a stream."""
PER_ROW: Final = 6.0
PER_PANEL: Final = 50.0
"""Cycles of loops around a short row that is copied, and around a panel."""


def from_memory(b: Blocking, target: Processor) -> bool:
    """Whether the vectors come from memory, in long rows."""
    rows = in_place(b.lanes, b.group) and b.flat >= LONG_ROWS
    batch = prod(size(a) for a in b.contraction.batch)
    points = b.lanes.extent * batch * b.contraction.depth
    return rows and points * b.lanes.value.dtype.size_bytes > target.l3


def tile_cost(b: Blocking, lanes: int) -> float:
    """Cycles of one reduce step over a panel: multiply-adds, loads, and waiting for sums."""
    total, collide = 0.0, rows_collide(b)
    for t in b.split_tiles(lanes):
        groups = ceil((t.stop - t.start) / (t.registers * b.width))
        registers = t.registers * b.scale
        for start, stop, step in even_rows(b.rows.extent, t.rows):
            busy = step_cycles(step, registers, b.units)
            if collide and step > WAYS:
                busy += 1.3 * step
            total += groups * ((stop - start) // step) * (busy + 20.0 / b.depth)
    return total / b.issue_cycles


def _relaid(value: Read, target: Processor) -> float:
    """Cycles of a copy of a tensor with other innermost lanes."""
    points = assumed_elements(value.tensor.shape)
    return points * (NEAR_COPY if points * value.dtype.size_bytes <= target.l2 else FAR_COPY)


def copies_by_blocks(b: Blocking, target: Processor) -> bool:
    """Whether panels that take blocks together had better copy what each block reads.

    Each group of panels copies all blocks then, beside other groups; a copy made before is shared,
    but leaves the second cache.
    """
    value, c = b.lanes.value, b.contraction
    if b.mode != "relayout" or not isinstance(value, Read):
        return False
    split, *inner = c.reduced[b.split :]
    own = axis(split.name, 0, b.block)
    part = _places([substitute(i, {split: own}) for i in value.indices], (own, *inner), b.lanes)
    whole = _places(value.indices, (*c.batch, *c.reduced), b.lanes)
    rounds = ceil(b.shared / target.cores)
    near = part * value.dtype.size_bytes <= target.l2 // 3
    return near and NEAR_COPY * part * b.blocks * rounds <= FAR_COPY * whole / target.cores


def _places(indices: Sequence[Expr], reduced: Sequence[Axis], part: Operand) -> int:
    """Elements of the box that an operand reads, whatever axes beside these are."""
    axes = (*reduced, *part.axes)
    ranges, found = Ranges(axes), 1
    for index in indices:
        terms = {a: n for a, n in linear_form(index).terms.items() if among(a, axes)}
        low, high = ranges.of_linear(Linear(terms, 0))
        found *= int(high) - int(low) + 1
    return found


def rows_collide(b: Blocking) -> bool:
    """Whether elements of neighbouring rows fall into the same few places of the first cache."""
    if b.rows_mode != "place" or len(b.rows.axes) != 1:
        return False
    stride = b.rows.accesses[0].uses.get(b.rows.axes[0]) or 1
    return stride * b.rows.value.dtype.size_bytes % PAGE == 0


def gaps_cost(b: Blocking, steps: int, read: int) -> float:
    """Cycles of a panel with gaps, `steps` along its first lane axis: sums, and what is copied.

    Args:
        read: elements of the window.
    """
    inner = steps * prod(size(a) for a in b.group[1:-1])
    lanes = b.gapped(inner * size(b.group[-1]))
    registers = ceil(lanes / b.width)
    loads = b.tile_rows * registers + b.rows.extent * ceil(registers / b.registers)
    cycles = b.contraction.depth * (b.rows.extent * registers + 0.1 * loads)
    if lanes != inner * size(b.group[-1]):
        cycles += _copied(b.rows.extent * inner, size(b.group[-1]), b.width)
    if b.lanes.padded:
        cycles += _copied(ceil(read / b.pitch[-2]), b.pitch[-2], b.width)
    return cycles + PER_PANEL


def _copied(rows: int, lanes: int, width: int) -> float:
    return rows * (PER_ROW + 2.0 * ceil(lanes / width))


def cycles_on(b: Blocking, target: Processor) -> float:
    """Cycles, about."""
    flat, panel = b.flat, b.panel
    outer = prod(size(a) for a in b.outer)
    per_step = tile_cost(b, panel) * (flat // panel)
    if flat % panel:
        per_step += tile_cost(b, flat % panel)
    sums = outer * b.contraction.depth * per_step
    cost = max(sums, _columns(b, target)) + _around_tiles(b, target)
    shared = outer * ceil(flat / panel) * (b.tile_rows if b.by_rows else 1)
    return cost * (1.0 + 1.0 / shared**2) if b.parallel and shared < enough(target) else cost


def least_cycles(draft: Blocking, target: Processor) -> float:
    """No more than `cycles_on` a blocking that a draft becomes: its best tile for all lanes."""
    depth, rows = draft.contraction.depth, draft.rows.extent
    tiles = [(min(rows, draft.most[n]), n * draft.scale) for n in range(1, draft.registers + 1)]
    steps = [(step_cycles(n, m, draft.units) + 20.0 / depth, n * m) for n, m in tiles]
    each = [cycles / sums * draft.scale / draft.issue_cycles for cycles, sums in steps]
    registers, full = draft.flat / draft.width, 0
    if draft.mode != "gaps" and (draft.mode != "panel" or in_place(draft.lanes, draft.group)):
        full = draft.flat // (draft.registers * draft.width) * draft.registers  # in any panels
    least = full * each[-1] + (registers - full) * min(each)
    outer = prod(size(a) for a in draft.outer)
    sums = outer * depth * rows * least
    return max(sums, _columns(draft, target)) + _around_tiles(draft, target)


def _around_tiles(b: Blocking, target: Processor) -> float:
    """Cycles of copies, of waiting for memory, and of stores; a draft's are the least."""
    c, flat = b.contraction, b.flat
    outer = prod(size(a) for a in b.outer)
    vectors = outer * flat * c.depth / b.width
    element, cost = b.lanes.value.dtype.size_bytes, 0.0
    packing = 2.0 if _unit_stride(b.lanes, b.group, b.width) else 0.5 * b.width
    if b.mode == "panel" and len(b.group) > 1 and not in_place(b.lanes, b.group):
        packing += 2.0 + 0.4 * b.tile_rows  # parts of rows, and panels that fill a cache
    if b.mode == "panel":
        cost += vectors * packing
    elif b.mode == "gaps":
        dense = not b.pitch or stretched(b.group, b.pitch, b.panel) == b.panel
        cost += (1.0 if dense else 3.0) * outer * flat * b.rows.extent / b.width
    elif b.mode == "relayout":
        copied = vectors * packing
        if isinstance(b.lanes.value, Read):
            copied = _relaid(b.lanes.value, target)
        cost += copied + 0.25 * vectors
    elif b.flat * c.depth * element > target.l2 // 4 and b.tile_rows > 4:
        cost += 0.5 * vectors * b.tile_rows  # rows far apart, read again for every tile
    if (b.mode != "relayout" or target.by_lines) and from_memory(b, target):
        cost += vectors * _per_vector(b, target)
    if b.rows_mode != "place":
        cost += 3.0 * b.rows.extent * c.depth * prod(size(a) for a in c.batch)
    stores = prod(size(a) for a in c.nest.axes)
    cost += stores / b.width * b.blocks if store_stride(b) == 1 else stores * 1.5
    return cost


def _per_vector(b: Blocking, target: Processor) -> float:
    """Cycles for a vector of lanes that come from memory, until all row tiles have read it."""
    element = b.lanes.value.dtype.size_bytes
    in_stream = b.width * element / target.pace
    if b.mode != "panel" or not target.by_lines or b.panel * element < LONG_PIECE:
        return max(SHORT_PIECE, target.by_lines * in_stream)
    again = b.tile_rows - 1 if b.sliver and few_rows(b, b.depth, target) else 0
    return in_stream + again


def few_rows(b: Blocking, steps: int, target: Processor) -> bool:
    """Whether so many steps of all rows stay in the second cache."""
    return b.rows.extent * steps * b.lanes.value.dtype.size_bytes <= target.l2 // 2


def _columns(b: Blocking, target: Processor) -> float:
    """Cycles in which columns of a matrix come from memory, a line at a time, beside the sums."""
    if not target.by_lines or column_of(b, target) is None:
        return 0.0
    panels = prod(size(a) for a in b.outer) * ceil(b.flat / b.panel)
    read = b.rows.extent * b.contraction.depth * b.rows.value.dtype.size_bytes
    batch = prod(size(a) for a in b.contraction.batch)
    return target.by_lines * panels * read / target.pace if batch * read > target.l3 else 0.0


def _unit_stride(part: Operand, group: Sequence[Axis], width: int) -> bool:
    """Whether the innermost lane axis is contiguous in every read that uses it."""
    if size(group[-1]) < width // 2 and len(group) > 1:
        return False
    strides = [x.uses.get(group[-1], 0) for x in part.accesses]
    return all(s in (0, 1, 2) for s in strides)
