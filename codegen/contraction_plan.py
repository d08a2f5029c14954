"""Chooses how a contraction runs: which operand lies in lanes, register tile, packing, blocks.

None of it changes a bit of the result: every element is one sum in the order of its reduce axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Final, Literal

from tensorad.codegen import machine
from tensorad.codegen.affine import among
from tensorad.codegen.choices import OPEN, Choices
from tensorad.codegen.contraction import Contraction, Part, is_symbolic, size
from tensorad.codegen.contraction_gaps import pitches, slab, steps_of_panel, stretched
from tensorad.codegen.contraction_layout import are_same, can_relayout, in_place, tap_groups
from tensorad.codegen.contraction_tiles import (
    Tile,
    enough,
    even_rows,
    lane_tiles,
    panel_lanes,
    rows_by_registers,
    scale_of,
)
from tensorad.codegen.machine import Machine
from tensorad.ir.expr import Axis, Read

MODEL: Final = Machine("model", l2=1 << 20, l3=16 << 20, vector_bytes=64, registers=32, cores=4)
"""Decides whether a nest is run as a contraction, which must not depend on the machine."""
LEAST_WORK: Final = 4096
"""Multiply-adds below which a nest is left to the ordinary plan."""
LITTLE_WORK: Final = 1 << 23
MUCH_WORK: Final = 1 << 27
"""Points up to which equal tiles may be much smaller than the largest, and a little smaller."""
THREADS_FROM: Final = 200_000
"""Steps of registers from which loops are made for several threads."""
AWAKE_FROM: Final = 60_000
"""Steps from which threads that are awake share the loops there are."""
LONG_ROWS: Final = 1280
"""Lanes from which a row is longer than a page."""
FEW_SLIVERS: Final = 16
"""Of a panel in the second cache: with more, results are stored in long rows instead."""
LEAST_DEPTH: Final = 128
"""Steps of a block from which keeping its sums in memory costs little."""
PAGE: Final = 4096
"""Bytes after which the first cache uses the same places again, of which it has `WAYS`."""
WAYS: Final = 8
WORST: Final = 2.6
"""Times the cycles of full registers that a contraction may cost."""

Mode = Literal["place", "panel", "relayout", "gaps"]


@dataclass(frozen=True, eq=False)
class Blocking:
    """How a contraction is run.

    Attributes:
        rows, lanes: the operands that are broadcast and that lie in vectors.
        group: the own axes of `lanes` that are flattened into lanes, in order.
        width: elements of one register.
        panel: lanes that one iteration handles.
        registers: registers of lanes of a full tile.
        most: rows of a tile at most, by its registers.
        scale: the machine's registers in one of ours.
        mode: vectors loaded from the operand itself, from a packed panel in the thread's
            scratch memory, or from a copy of the tensor with the lanes innermost; "gaps": from
            the operand or its window as it lies, and lanes between its rows are of no use.
        rows_mode: the same for the broadcast operand ("panel" is a copy of all its points).
        split, block: reduce axes before number `split` and blocks of that one are outer loops.
        by_rows: several threads share the row tiles; otherwise panels and batches.
        together: panels that take a block of the reduce axes before any takes the next.
        inside: it runs in loops around it: copies are scratch, and threads share nothing.
        pitch: elements between neighbours along each axis of `group`, if there are gaps.
        sliver: lanes that lie side by side in a packed panel; 0: all of them.
        row_block: rows that meet all slivers before the next rows do; 0: all of them.
    """

    contraction: Contraction
    rows: Part
    lanes: Part
    group: tuple[Axis, ...]
    width: int
    panel: int
    registers: int
    most: tuple[int, ...]
    scale: int
    mode: Mode
    rows_mode: Mode
    split: int
    block: int
    by_rows: bool
    parallel: bool
    together: int = 1
    inside: bool = False
    pitch: tuple[int, ...] = ()
    sliver: int = 0
    row_block: int = 0

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Output axes around the panels: the batch, and those of the lanes not flattened."""
        left = [a for a in self.lanes.axes if not among(a, self.group)]
        return (*self.contraction.batch, *left)

    @property
    def flat(self) -> int:
        """Lanes in all."""
        return prod(size(a) for a in self.group)

    @property
    def whole(self) -> bool:
        """Whether one block has all points of the reduce axes, whatever their sizes."""
        reduced = self.contraction.reduced
        if not is_symbolic(reduced):
            return self.blocks == 1
        return self.mode != "panel" and self.split == 0 and self.block >= size(reduced[0])

    @property
    def blocks(self) -> int:
        """How many blocks the reduce axes are cut into, about if they are symbolic."""
        reduced = self.contraction.reduced
        parts = ceil(size(reduced[self.split]) / self.block)
        return prod(size(a) for a in reduced[: self.split]) * parts

    @property
    def depth(self) -> int:
        """Points of the reduce axes in one block, at most."""
        reduced = self.contraction.reduced
        return self.block * prod(size(a) for a in reduced[self.split + 1 :])

    @property
    def tile_rows(self) -> int:
        """Row tiles over all rows, at least."""
        return ceil(self.rows.extent / self.most[self.registers])

    @property
    def alike(self) -> float:
        """The part of a tile's rows that equal tiles have at least: less code, a little slower."""
        points = self.contraction.depth * prod(size(a) for a in self.contraction.nest.axes)
        return 0.6 if points < LITTLE_WORK else 0.8 if points < MUCH_WORK else 1.0

    def tiles(self, lanes: int) -> list[Tile]:
        """The register tiles of a panel of so many lanes."""
        most = self.most
        if self.mode == "gaps":  # one loop over the rows for all of them
            lanes = stretched(self.group, self.pitch, lanes)
            most = (most[self.registers],) * len(most)
        return lane_tiles(lanes, self.width, self.registers, self.rows.extent, most)


def plan_contraction(c: Contraction, width: int, choices: Choices = OPEN) -> Blocking | None:
    """The cheapest way to run a contraction; None where the ordinary plan is as good.

    Whether it is run depends on the formula and its sizes alone, or is decided by hand.
    """
    points = c.depth * prod(size(a) for a in c.nest.axes)
    if choices.contract is None:
        if points < LEAST_WORK or c.depth < 4:
            return None
        model = _cheapest(c, width, MODEL, OPEN)
        if model is None or _cost(model, MODEL) > WORST * points / width:
            return None
    return _cheapest(c, width, machine.current(), choices)


def plan_inside(c: Contraction, width: int, choices: Choices) -> Blocking | None:
    """The cheapest way to run a contraction by one thread, in the loops that others share."""
    alone = replace(choices, parallel=False)
    return _cheapest(c, width, machine.current(), alone, inside=True)


def _cheapest(
    c: Contraction, width: int, target: Machine, choices: Choices, inside: bool = False
) -> Blocking | None:
    best: tuple[float, Blocking] | None = None
    for found in _blockings(c, width, target, choices):
        if inside and (found.mode == "gaps" or "relayout" in (found.mode, found.rows_mode)):
            continue
        cost = _cost(found, target)
        if choices.pack is not None and found.mode != choices.pack:
            cost *= 1e6  # as asked where it exists
        if best is None or cost < best[0] * 0.99:
            best = cost, found
    if best is None:
        return None
    b = replace(best[1], inside=inside)
    light = c.depth * prod(size(a) for a in c.nest.axes) >= AWAKE_FROM * width
    shared = prod(size(a) for a in b.outer) * ceil(b.flat / b.panel) > 1
    awake = light and shared and not inside and choices.parallel is None
    return replace(b, parallel=True) if awake else b


def _blockings(c: Contraction, width: int, target: Machine, choices: Choices) -> Iterator[Blocking]:
    """The sensible ways to run a contraction."""
    for rows, lanes in ((c.left, c.right), (c.right, c.left)):
        if not rows.axes or not lanes.axes:
            continue
        if is_symbolic(rows.axes[1:]) or (rows.padded and not can_relayout(rows, None, c)):
            continue
        rows_mode = _rows_mode(c, rows)
        groups = [lanes.axes[-n:] for n in range(1, len(lanes.axes) + 1)]
        groups += [(a,) for a in lanes.axes[:-1]] + tap_groups(lanes, c)
        for group in groups:
            if is_symbolic(group):
                continue
            flat = prod(size(a) for a in group)
            wanted = (4, 3, 2, 1, 6, 5) if choices.tile is None else (choices.tile[1],)
            modes = _modes(c, lanes, group)
            for registers in dict.fromkeys([min(n, max(1, flat // width)) for n in wanted]):
                element = lanes.value.dtype.size_bytes
                most = rows_by_registers(width, element, target)
                if registers >= len(most):
                    continue
                if choices.tile is not None:
                    most = tuple([min(m, choices.tile[0]) for m in most])
                for mode in modes:
                    draft = Blocking(
                        c, rows, lanes, group, width, flat, registers, most,
                        scale_of(width, element, target), mode, rows_mode, 0,
                        size(c.reduced[0]), False, False,
                    )  # fmt: skip
                    if mode == "gaps":
                        yield _with_gaps(draft, target, choices)
                    else:
                        yield _blocked(draft, target, choices)


def _modes(c: Contraction, lanes: Part, group: tuple[Axis, ...]) -> list[Mode]:
    """Where vectors may come from."""
    modes: list[Mode] = ["place", "panel"] if in_place(lanes, group) else ["panel"]
    alone = len(group) == 1 or any(are_same(group, g) for g in tap_groups(lanes, c))
    if not isinstance(lanes.value, Read) or (alone and can_relayout(lanes, group[-1], c)):
        modes.append("relayout")
    if modes[0] != "place" and pitches(lanes, group, c) is not None:
        modes.append("gaps")
    return modes


def _rows_mode(c: Contraction, rows: Part) -> Mode:
    """The broadcast operand is read where it lies if its address is affine in the loops."""
    value = rows.value
    if not isinstance(value, Read):
        return "panel"
    uses = rows.accesses[-1].uses  # the value itself comes after what it reads
    if rows.padded or any(uses.get(a, 0) is None for a in c.reduced):
        return "relayout" if can_relayout(rows, None, c) else "panel"
    return "place"


def _is_streamed(b: Blocking, target: Machine) -> bool:
    """Whether the vectors come from memory, in long rows."""
    rows = in_place(b.lanes, b.group) and b.flat >= LONG_ROWS
    batch = prod(size(a) for a in b.contraction.batch)
    points = b.lanes.extent * batch * b.contraction.depth
    return rows and points * b.lanes.value.dtype.size_bytes > target.l3


def _blocked(b: Blocking, target: Machine, choices: Choices) -> Blocking:
    """The draft with blocks for the caches, panels, and loops for threads."""
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    unit = b.registers * b.width
    sliced = _is_sliced(b) and c.depth * unit * element > target.l2 // FEW_SLIVERS
    budget = target.l2 // 4 if sliced else target.l2 // 2
    split, block = 0, size(c.reduced[0])
    if choices.block is not None:
        split, block = _split(c, choices.block)
    elif c.depth * unit * element > 2 * budget or (b.mode == "panel" and is_symbolic(c.reduced)):
        split, block = _split(c, max(1, budget // (unit * element)))
    row_bytes = block * prod(size(a) for a in c.reduced[split + 1 :]) * element
    packs = b.mode == "panel" and not in_place(b.lanes, b.group)
    step = prod(size(a) for a in b.group[1:]) if packs else 1
    rows, room = budget // row_bytes, target.l2 // 2
    if sliced and b.rows.extent > rows:
        b, room = replace(b, row_block=max(1, rows)), target.l3 // (4 * target.cores)
    panel = panel_lanes(b.flat, step, unit, max(unit, room // row_bytes))
    outer = prod(size(a) for a in b.outer)
    points = c.depth * prod(size(a) for a in c.nest.axes)
    parallel = choices.parallel
    if parallel is None:
        parallel = points >= THREADS_FROM * b.width
    by_rows = False
    count = outer * ceil(b.flat / panel)
    least = enough(target)
    if parallel and count < least:
        if b.mode != "panel" and b.tile_rows >= 2 * count:
            by_rows, panel = True, b.flat
            if choices.block is None:
                split, block = 0, size(c.reduced[0])
        else:
            most = b.flat * outer // least
            most = ceil(most / unit) * unit if sliced else max(unit, most)
            panel = panel_lanes(b.flat, step, unit, most)
    if by_rows and block < size(c.reduced[split]):
        by_rows = False
    b = replace(b, panel=panel, split=split, block=block, by_rows=by_rows, parallel=parallel)
    if sliced:
        return replace(b, sliver=unit)
    return b if by_rows else _together(b, target, choices)


def _with_gaps(b: Blocking, target: Machine, choices: Choices) -> Blocking:
    """The draft with panels whose windows fit the second cache, and loops for threads."""
    c = b.contraction
    pitch = pitches(b.lanes, b.group, c)
    assert pitch is not None
    parallel = choices.parallel
    if parallel is None:
        parallel = c.depth * prod(size(a) for a in c.nest.axes) >= THREADS_FROM * b.width
    first, further = slab(b.lanes.value, b.group, c)
    room = target.l2 // (3 * b.lanes.value.dtype.size_bytes)
    most = 1 + max(0, room - first) // further
    count = size(b.group[0])
    outer = prod(size(a) for a in b.outer)
    if parallel and outer * ceil(count / most) < enough(target):
        most = max(1, count * outer // enough(target))
    steps = steps_of_panel(b.group, pitch, b.width, most)
    panel = steps * prod(size(a) for a in b.group[1:])
    return replace(b, pitch=pitch, panel=panel, parallel=parallel)


def _is_sliced(b: Blocking) -> bool:
    """Whether the lanes of a panel are packed register tile by register tile."""
    neighbours = len(b.group) == 1 or in_place(b.lanes, b.group)
    return b.mode == "panel" and neighbours and not b.lanes.padded


def _together(b: Blocking, target: Machine, choices: Choices) -> Blocking:
    """Panels of the same rows side by side, where their blocks would come from the last cache.

    Taps of a window read nearly the same lanes, and all panels read the same rows.
    """
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    if b.mode == "panel" or c.batch or is_symbolic((*b.outer, *b.rows.axes, *c.reduced)):
        return b
    width = b.rows.extent + b.panel
    if c.depth * width * element <= target.l2:
        return b
    count = prod(size(a) for a in b.outer) * ceil(b.flat / b.panel)
    room = target.l2 // (4 * b.rows.extent * b.panel * element)
    together = min(room, ceil(count / target.cores))
    depth = target.l2 // (3 * width * element)
    if together < 2 or depth < LEAST_DEPTH:
        return b
    split, block = (b.split, b.block) if choices.block is not None else _split(c, depth)
    return replace(b, together=together, split=split, block=block)


def _split(c: Contraction, most: int) -> tuple[int, int]:
    """(axis, block) so that a block has at most `most` points, or one step of the last axis.

    Inside a block all extents are known.
    """
    inner = c.depth
    for number, a in enumerate(c.reduced):
        inner //= size(a)
        if inner <= most and not is_symbolic(c.reduced[number + 1 :]):
            block = max(1, most // inner)
            return number, ceil(size(a) / ceil(size(a) / block))
    return len(c.reduced) - 1, 1


def tile_cost(b: Blocking, lanes: int) -> float:
    """Cycles of one reduce step over a panel: multiply-adds, loads, and waiting for sums."""
    total, collide = 0.0, _rows_collide(b)
    for t in b.tiles(lanes):
        groups = ceil((t.stop - t.start) / (t.registers * b.width))
        registers = t.registers * b.scale
        for start, stop, step in even_rows(b.rows.extent, t.rows):
            loads = step + registers
            busy = max(step * registers, 0.55 * loads, 4.0) + 0.1 * loads
            if collide and step > WAYS:
                busy += 1.3 * step
            total += groups * ((stop - start) // step) * (busy + 20.0 / b.depth)
    return total / b.scale


def _rows_collide(b: Blocking) -> bool:
    """Whether elements of neighbouring rows fall into the same few places of the first cache."""
    if b.rows_mode != "place" or len(b.rows.axes) != 1:
        return False
    stride = b.rows.accesses[0].uses.get(b.rows.axes[0]) or 1
    return stride * b.rows.value.dtype.size_bytes % PAGE == 0


def cycles(b: Blocking) -> float:
    """What a contraction takes, about."""
    return _cost(b, machine.current())


def _cost(b: Blocking, target: Machine) -> float:
    """Cycles, about."""
    c, flat, panel = b.contraction, b.flat, b.panel
    outer = prod(size(a) for a in b.outer)
    per_step = tile_cost(b, panel) * (flat // panel)
    if flat % panel:
        per_step += tile_cost(b, flat % panel)
    cost = outer * c.depth * per_step
    vectors = outer * flat * c.depth / b.width
    element = b.lanes.value.dtype.size_bytes
    packing = 2.0 if _unit_stride(b.lanes, b.group, b.width) else 0.5 * b.width
    if b.mode == "panel" and len(b.group) > 1 and not in_place(b.lanes, b.group):
        packing += 2.0 + 0.4 * b.tile_rows  # parts of rows, and panels that fill a cache
    if b.mode == "panel":
        cost += vectors * packing
    elif b.mode == "gaps":
        dense = stretched(b.group, b.pitch, panel) == panel
        cost += (1.0 if dense else 3.0) * outer * flat * b.rows.extent / b.width
    elif b.mode == "relayout":
        copied = vectors * packing
        if isinstance(b.lanes.value, Read):
            copied = 0.5 * prod(n for n in b.lanes.value.tensor.shape if isinstance(n, int))
        cost += copied + 0.25 * vectors
    elif b.flat * c.depth * element > target.l2 // 2 and b.tile_rows > 4:
        cost += 0.5 * vectors * b.tile_rows  # rows far apart, read again for every tile
    if b.mode != "relayout" and _is_streamed(b, target):
        cost += 20.0 * vectors  # short pieces of long rows: memory waits
    if b.rows_mode != "place":
        cost += 3.0 * b.rows.extent * c.depth * prod(size(a) for a in c.batch)
    stores = prod(size(a) for a in c.nest.axes)
    cost += stores / b.width * b.blocks if store_stride(b) == 1 else stores * 1.5
    shared = outer * ceil(flat / panel) * (b.tile_rows if b.by_rows else 1)
    return cost * (1.0 + 1.0 / shared**2) if b.parallel and shared < enough(target) else cost


def _unit_stride(part: Part, group: Sequence[Axis], width: int) -> bool:
    """Whether the innermost lane axis is contiguous in every read that uses it."""
    if size(group[-1]) < width // 2 and len(group) > 1:
        return False
    strides = [x.uses.get(group[-1], 0) for x in part.accesses]
    return all(s in (0, 1, 2) for s in strides)


def store_stride(b: Blocking) -> int | None:
    """Elements between neighbouring lanes of the result; None where that varies."""
    uses = b.contraction.stored.uses
    last = uses.get(b.group[-1], 0)
    stride = last
    for a in reversed(b.group):
        if stride is None or uses.get(a, 0) != stride:
            return None
        stride *= size(a)
    return last
