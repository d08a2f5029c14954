"""Copies across: elements that are neighbours along one axis are stored along another.

A register of lanes would collect its elements from as many rows. Instead as many copies of the
statement as a register has lanes stand beside each other: then whole rows are loaded and
transposed in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.cost.cache_traffic import bytes_moved
from tensorad.codegen.cost.memory_model import LINE, MAX_STRIDE
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.nest.access import Access, extent_of, fold_accesses
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.target import machine
from tensorad.ir.expr import ONE, Axis, Const
from tensorad.ir.order import reads
from tensorad.ir.visit import free_leaves, postorder

SHORTEST_STRIP: Final = 4
"""Registers of a strip of lanes at least."""
LONGEST_STRIP: Final = 16
"""Registers of a strip at most: as many rows as registers have lanes are read side by side."""
LINES_OF_STRIP: Final = {4: 3}
"""Lines of a strip where each line that is stored is all its own, by the bytes of an element: few
rows are read side by side, which the processor follows. Measured on a Zen 4: 48 rows of four
bytes are followed and 64 are not, of eight bytes 16 were faster than 24. Another machine may
lose speed by it and nothing else: any width stores the same elements."""
FEWEST_LINES: Final = 2
"""The same for other elements: single lines are stored at half of the pace."""
BUFFERED_STRIP: Final = 8
"""Registers of a strip whose rows are stored by way of a buffer (`misaligned_tiles`)."""
FEWEST_STRIPS: Final = 8
"""Strips that threads share."""
EXCHANGED: Final = 5.0
"""Cost of one register's worth of a read across, transposed in registers; a load is 1."""
MOST_NODES: Final = 60
"""Expression nodes per element from which copies cost more than they save."""


def tile_lanes(nest: Nest) -> int:
    """Lanes of one register, as the code generator will have them."""
    read = [e.tensor for e in reads(*nest.values, *nest.indices)]
    return lanes_for([*nest.tensors, *read])


def crossing_axis(
    nest: Nest, vector: Axis | None, accesses: Sequence[Access], choices: Choices
) -> Axis | None:
    """The axis along which reads are contiguous whose lanes are far apart."""
    if choices.across is False:
        return None
    stores, beside = accesses[: len(nest.tensors)], accesses[len(nest.tensors) :]
    if vector is None or any(x.stride(vector) != 1 for x in stores):
        return None
    far = [x for x in beside if _is_far(x.stride(vector))]
    if not far or extent_of(vector) < (lanes := tile_lanes(nest)):
        return None
    if len(postorder(*nest.values, *nest.indices)) > MOST_NODES:
        return None
    bounds = free_leaves(*[b for a in nest.axes for b in (a.lower, a.upper, a.step)])
    for a in nest.axes:
        able = a is not vector and a.step is ONE and a not in bounds
        if able and extent_of(a) >= lanes // 2 and any(x.stride(a) == 1 for x in far):
            return a
    return None


def strip_width(
    nest: Nest, across: Axis, vector: Axis, accesses: Sequence[Access], choices: Choices
) -> int:
    """Lanes that the tiles along `across` take at a time, 0: all.

    Strips of rows are read together from end to end, so that what is fetched of a row is near;
    each tile stores whole lines of rows.
    """
    lanes = tile_lanes(nest)
    constant = all(isinstance(b, Const) for a in (across, vector) for b in (a.lower, a.upper))
    if not constant or extent_of(across) < lanes:
        return 0
    if choices.across:
        return 2 * lanes
    width = min(LONGEST_STRIP * lanes, extent_of(vector) // (FEWEST_STRIPS * lanes) * lanes)
    if width < SHORTEST_STRIP * lanes:
        return 0
    stores, reads = accesses[: len(nest.tensors)], accesses[len(nest.tensors) :]
    beyond = bytes_moved(nest) > machine.current().l3
    if beyond and are_followed([x.stride(vector) for x in reads]):
        least = min([x.tensor.dtype.size_bytes for x in stores])
        alike = all(_in_whole_lines(x, across) for x in stores)
        width = min(width, short_strip(least, lanes) if alike else BUFFERED_STRIP * lanes)
    return width


def short_strip(size_bytes: int, lanes: int) -> int:
    """Lanes of a strip of rows that begin alike, for elements of so many bytes."""
    return max(lanes, LINES_OF_STRIP.get(size_bytes, FEWEST_LINES) * LINE // size_bytes)


def are_followed(strides: Iterable[int | None]) -> bool:
    """Whether no read lies along the lanes: then few rows are read side by side."""
    return all(_is_far(n) or not n for n in strides)


def _in_whole_lines(x: Access, across: Axis) -> bool:
    """Whether all rows begin at the same place of a line."""
    stride = x.stride(across)
    return stride is not None and stride * x.tensor.dtype.size_bytes % LINE == 0


def _is_far(stride: int | None) -> bool:
    return stride is not None and abs(stride) > MAX_STRIDE


def collected_singly(nest: Nest, plan: Plan, lanes: int) -> Plan:
    """One register at a time where its lanes are collected from afar: more are only more code.

    Sums in other lanes than the reduce axes' keep their order.
    """
    lane = plan.vector
    if lane is None or plan.rows_per_pass or plan.width <= lanes or not among(lane, nest.axes):
        return plan
    strides = [x.stride(lane) for x in fold_accesses(nest)]
    far = any(n is None or abs(n) > MAX_STRIDE for n in strides)
    return replace(plan, width=lanes) if far else plan
