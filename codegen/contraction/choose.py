"""Decides how a contraction runs: the vectorised operand, register tile, packing, blocks.

None of it changes a bit of the result: every element is one sum in the order of its reduce axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, gcd, prod
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking, Mode, store_stride
from tensorad.codegen.contraction.cost import (
    LONG_PIECE,
    copies_by_blocks,
    cycles_on,
    few_rows,
    from_memory,
    gaps_cost,
    least_cycles,
    rows_collide,
)
from tensorad.codegen.contraction.emit.reduce_strips import with_reduce_strips
from tensorad.codegen.contraction.gapped_lanes import pitches, slab, steps_of_panel
from tensorad.codegen.contraction.operand_layout import are_same, can_relayout, in_place, tap_groups
from tensorad.codegen.contraction.recognise import Contraction, Operand, is_symbolic, size
from tensorad.codegen.contraction.register_tiles import (
    LEAST_DEPTH,
    block_depth,
    enough,
    even_lanes,
    panel_lanes,
    rows_by_registers,
    scale_of,
)
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.model import MODEL, WAYS, Model, Processor
from tensorad.codegen.target import machine
from tensorad.ir.expr import Axis, Read

LEAST_WORK: Final = 4096
"""Multiply-adds below which a nest is left to the ordinary plan."""
THREADS_FROM: Final = 200_000
"""Steps of registers from which loops are made for several threads."""
AWAKE_FROM: Final = 15_000
"""Steps from which threads that are awake share the loops there are."""
FEW_SLIVERS: Final = 16
"""Of a panel in the second cache: with more, results are stored in long rows instead."""
LONG_SLIVER: Final = 1 << 16
"""Bytes of a sliver from which a large second cache holds them, too, in place of long rows."""
BESIDE_KEPT: Final = 1 << 20
"""What stays in a second cache takes three quarters of it up to so many bytes, then half."""
WORST: Final = 2.6
"""Times the cycles of full registers that a contraction may cost."""
FAR: Final = 0.75
"""The part of them below which one way settles that: threads make the cheapest a quarter dearer."""


def plan_contraction(c: Contraction, width: int, choices: Choices = OPEN) -> Blocking | None:
    """The cheapest way to run a contraction; None where the ordinary plan is as good.

    Whether it is run depends on the formula and its sizes alone, or is decided by hand.
    """
    points = c.depth * prod(size(a) for a in c.nest.axes)
    if choices.contract is None:
        if points < LEAST_WORK or c.depth < 4:
            return None
        if not _pays(c, width, WORST * points / width, MODEL):
            return None
    return _cheapest(c, width, machine.current(), choices)


def _pays(c: Contraction, width: int, most: float, model: Model) -> bool:
    """Whether the cheapest way takes at most so many cycles: it may not depend on the machine."""
    for draft in _drafts(c, width, model, OPEN):
        if least_cycles(draft, model) >= FAR * most:
            continue
        if cycles_on(_completed(draft, model, OPEN), model) < FAR * most:
            return True  # nor is the cheapest one dearer
    found = _cheapest(c, width, model, OPEN)
    return found is not None and cycles_on(found, model) <= most


def plan_inside(c: Contraction, width: int, choices: Choices) -> Blocking | None:
    """The cheapest way to run a contraction by one thread, in the loops that others share."""
    alone = replace(choices, parallel=False)
    return _cheapest(c, width, machine.current(), alone, inside=True)


def _cheapest(
    c: Contraction, width: int, target: Processor, choices: Choices, inside: bool = False
) -> Blocking | None:
    best: tuple[float, Blocking] | None = None
    for draft in _drafts(c, width, target, choices):
        if inside and (draft.mode == "gaps" or "relayout" in (draft.mode, draft.rows_mode)):
            continue
        if best is not None and least_cycles(draft, target) >= best[0] * 0.99:
            continue
        found = _completed(draft, target, choices)
        cost = cycles_on(found, target)
        if choices.pack is not None and found.mode != choices.pack:
            cost *= 1e6  # as asked where it exists
        if best is None or cost < best[0] * 0.99:
            best = cost, found
    if best is None:
        return None
    b = _alike(replace(best[1], inside=inside))
    if b.parallel and choices.block is None and _is_narrow(b, target):
        b = replace(b, split=0, block=size(c.reduced[0]), by_rows=True)
    light = c.depth * prod(size(a) for a in c.nest.axes) >= AWAKE_FROM * width
    if light and not inside and choices.parallel is None:
        if prod(size(a) for a in b.outer) * ceil(b.flat / b.panel) > 1:
            return replace(b, parallel=True)
        b = replace(b, rows_awake=_may_share_rows(b))
    return b if choices.block is not None else with_reduce_strips(b, target)


def _may_share_rows(b: Blocking) -> bool:
    """Whether the row tiles of the only panel are loops of their own, and store lines of theirs."""
    ready = b.mode != "gaps" and not b.lanes.padded and not b.by_rows
    return b.whole and ready and store_stride(b) == 1


def _alike(b: Blocking) -> Blocking:
    """With panels of which the last may be moved back, so that the others' code serves it."""
    unit = b.registers * b.width
    if b.flat % b.panel == 0 or b.together > 1 or b.mode == "gaps":
        return b
    for units in range(b.panel // unit, max(0, (b.panel // unit - 1) // 2), -1):
        made = replace(b, panel=units * unit)
        if made.covering:
            return made
    return b


def _drafts(c: Contraction, width: int, target: Processor, choices: Choices) -> Iterator[Blocking]:
    """The sensible ways to run a contraction, without panels and blocks."""
    for rows, lanes in ((c.left, c.right), (c.right, c.left)):
        if not rows.axes or not lanes.axes:
            continue
        if is_symbolic(rows.axes[1:]) or (rows.padded and not can_relayout(rows, None, c)):
            continue
        rows_mode = _rows_mode(c, rows)
        element = lanes.value.dtype.size_bytes
        most = rows_by_registers(width, element, target)
        wanted: tuple[int, ...] = (4, 3, 2, 1, 6, 5)
        if choices.tile is not None:  # smaller where registers are few: it stays a contraction
            most = tuple([min(m, choices.tile[0]) for m in most])
            wanted = (min(choices.tile[1], len(most) - 1),)
        fewer = tuple([min(m, WAYS) for m in most])
        groups = [lanes.axes[-n:] for n in range(1, len(lanes.axes) + 1)]
        groups += [(a,) for a in lanes.axes[:-1]] + tap_groups(lanes, c)
        for group in groups:
            if is_symbolic(group):
                continue
            flat = prod(size(a) for a in group)
            modes = _modes(c, lanes, group)
            for registers in dict.fromkeys([min(n, max(1, flat // width)) for n in wanted]):
                if registers >= len(most):
                    continue
                for mode in modes:
                    draft = Blocking(
                        c, rows, lanes, group, width, flat, registers, most,
                        scale_of(width, element, target), target.multiply_adds, mode, rows_mode, 0,
                        size(c.reduced[0]), False, False,
                    )  # fmt: skip
                    yield draft
                    if mode != "gaps" and most[registers] > WAYS and rows_collide(draft):
                        yield replace(draft, most=fewer)


def _modes(c: Contraction, lanes: Operand, group: tuple[Axis, ...]) -> list[Mode]:
    """Where vectors may come from."""
    modes: list[Mode] = ["place", "panel"] if in_place(lanes, group) else ["panel"]
    alone = len(group) == 1 or any(are_same(group, g) for g in tap_groups(lanes, c))
    if not isinstance(lanes.value, Read) or (alone and can_relayout(lanes, group[-1], c)):
        modes.append("relayout")
    if modes[0] != "place" and pitches(lanes, group, c) is not None:
        modes.append("gaps")
    return modes


def _rows_mode(c: Contraction, rows: Operand) -> Mode:
    """The broadcast operand is read where it lies if its address is affine in the loops."""
    value = rows.value
    if not isinstance(value, Read):
        return "panel"
    uses = rows.accesses[-1].uses  # the value itself comes after what it reads
    if rows.padded or any(uses.get(a, 0) is None for a in c.reduced):
        return "relayout" if can_relayout(rows, None, c) else "panel"
    return "place"


def _completed(draft: Blocking, target: Processor, choices: Choices) -> Blocking:
    made = _with_gaps if draft.mode == "gaps" else _blocked
    return made(draft, target, choices)


def _blocked(b: Blocking, target: Processor, choices: Choices) -> Blocking:
    """The draft with blocks for the caches, panels, and loops for threads."""
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    unit = b.registers * b.width
    least = min(target.l2 // FEW_SLIVERS, LONG_SLIVER)
    sliced = _is_sliced(b) and c.depth * unit * element > least
    budget = kept(target) if sliced else target.l2 // 2
    split, block = _cut(b, sliced, budget, choices)
    row_bytes = block * prod(size(a) for a in c.reduced[split + 1 :]) * element
    packs = b.mode == "panel" and not in_place(b.lanes, b.group)
    step = prod(size(a) for a in b.group[1:]) if packs else 1
    lanes = max(unit, budget // row_bytes)
    outer = prod(size(a) for a in b.outer)
    rows = b.rows.extent * row_bytes
    whole = outer > 1 and b.flat <= lanes and rows <= target.l2 // 4  # the next one is prefetched
    if sliced and few_rows(b, row_bytes // element, target) and not whole:
        lanes = unit  # all rows and a sliver stay in the second cache
        if from_memory(b, target):  # long pieces; what they are packed from passes that cache, too
            lanes = ceil(2 * LONG_PIECE / (unit * element)) * unit
            if choices.block is None:
                split, block = _split(c, kept(target) // (2 * lanes * element))
    points = c.depth * prod(size(a) for a in c.nest.axes)
    parallel = points >= THREADS_FROM * b.width if choices.parallel is None else choices.parallel
    if sliced:
        lanes = even_lanes(b.flat, unit, lanes, outer, target.cores if parallel else 1)
    b = replace(
        b, panel=panel_lanes(b.flat, step, unit, lanes), split=split, block=block,
        parallel=parallel, sliver=unit if sliced else b.sliver,
    )  # fmt: skip
    if parallel:
        b = _shared(b, sliced, step, target, choices)
    return b if sliced or b.by_rows else _together(b, target, choices)


def _cut(b: Blocking, sliced: bool, budget: int, choices: Choices) -> tuple[int, int]:
    """(axis, block): how much of the depth runs at once, with so many bytes for its lanes."""
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    unit = b.registers * b.width
    if choices.block is not None:
        return _split(c, choices.block)
    if sliced:
        return _split(c, block_depth(c.depth, b.flat, unit, budget // element))
    if c.depth * unit * element > 2 * budget or (b.mode == "panel" and is_symbolic(c.reduced)):
        return _split(c, max(1, budget // (unit * element)))
    return 0, size(c.reduced[0])


def _shared(b: Blocking, sliced: bool, step: int, target: Processor, choices: Choices) -> Blocking:
    """The draft with blocks and enough loops for threads: row tiles, or smaller panels."""
    c, unit = b.contraction, b.registers * b.width
    undivided = (0, size(c.reduced[0]))
    if choices.block is None and not sliced and _is_shallow(b, target):
        split, block = undivided
        return replace(b, panel=b.flat, split=split, block=block, sliver=unit, by_rows=True)
    outer, loops = prod(size(a) for a in b.outer), enough(target)
    count = outer * ceil(b.flat / b.panel)
    if count >= loops:
        return b
    if b.mode != "panel" and b.tile_rows >= 2 * count:
        split, block = undivided if choices.block is None else (b.split, b.block)
        whole = block >= size(c.reduced[split])
        return replace(b, panel=b.flat, split=split, block=block, by_rows=whole)
    most = b.flat * outer // loops
    most = ceil(most / unit) * unit if sliced else max(unit, most)
    return replace(b, panel=panel_lanes(b.flat, step, unit, most))


def _with_gaps(b: Blocking, target: Processor, choices: Choices) -> Blocking:
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
    b = replace(b, pitch=pitch, parallel=parallel)
    steps = steps_of_panel(count, most, lambda n: gaps_cost(b, n, first + (n - 1) * further))
    return replace(b, panel=steps * prod(size(a) for a in b.group[1:]))


def _is_sliced(b: Blocking) -> bool:
    """Whether the lanes of a panel are packed register tile by register tile."""
    neighbours = len(b.group) == 1 or in_place(b.lanes, b.group)
    return b.mode == "panel" and neighbours and not b.lanes.padded


def _is_shallow(b: Blocking, target: Processor) -> bool:
    """Whether all lanes are packed once, for threads that share row tiles.

    Their results are whole rows then: short pieces of rows keep memory waiting, where the results
    leave the second cache.
    """
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    if b.outer or is_symbolic(c.reduced) or not _is_sliced(b):
        return False
    shared = c.depth * b.flat * element <= target.l3 // 4
    results = prod(size(a) for a in c.nest.axes) * element
    return shared and results > target.l2 and b.tile_rows >= 2 * enough(target)


def _is_narrow(b: Blocking, target: Processor) -> bool:
    """Whether blocks of one sliver may be one panel a little beyond the second cache, packed once.

    Long rows from memory are then read from end to end, and no sums wait for a block. With one
    register of lanes there is no time to bring rows from memory and a panel from the last cache.
    """
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    if b.whole or b.outer or b.flat > b.sliver or b.registers < 2:
        return False
    if b.rows_mode != "place" or b.rows.accesses[-1].uses.get(c.reduced[-1]) != 1:
        return False
    if is_symbolic((*c.reduced, *b.rows.axes)) or b.tile_rows < 2 * enough(target):
        return False
    packed, rows = (n * c.depth * element for n in (b.flat, b.rows.extent))
    return packed <= min(2 * target.l2, target.l3 // 4) and rows > target.l3


def _together(b: Blocking, target: Processor, choices: Choices) -> Blocking:
    """Panels of the same rows side by side, where their blocks would come from the last cache.

    Taps of a window read nearly the same lanes, and all panels read the same rows.
    """
    c, element = b.contraction, b.lanes.value.dtype.size_bytes
    if b.mode == "panel" or is_symbolic((*b.outer, *b.rows.axes, *c.reduced)):
        return b
    width = b.rows.extent + b.panel
    if c.depth * width * element <= kept(target):
        return b
    room = target.l2 // (4 * b.rows.extent * b.panel * element)
    groups = target.cores // gcd(target.cores, prod(size(a) for a in c.batch))
    together = min(room, ceil(b.beside / groups))
    depth = target.l2 // (3 * width * element)
    if together < 2 or depth < LEAST_DEPTH:
        return b
    split, block = (b.split, b.block) if choices.block is not None else _split(c, depth)
    b = replace(b, together=together, split=split, block=block)
    return replace(b, by_blocks=copies_by_blocks(b, target))


def kept(target: Processor) -> int:
    """Bytes that stay in the second cache while rows and results pass it."""
    return min(3 * target.l2 // 4, max(BESIDE_KEPT, target.l2 // 2))


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
