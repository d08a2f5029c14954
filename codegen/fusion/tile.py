"""Whether a group pays, over which rows and blocks its loop runs: `best_tile` decides.

All numbers are estimates from index sets and sizes: bytes that no longer move between kernels,
against lanes, register tiles and caches that a loop over rows would spoil.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, lcm, prod

from tensorad.codegen.contraction.cost import cycles_on
from tensorad.codegen.contraction.register_tiles import MOST_SHARED
from tensorad.codegen.cost.memory_model import BYTES_PER_CYCLE
from tensorad.codegen.cost.parallel_work import PARALLEL_COST, SHARED_COST
from tensorad.codegen.fusion.row_groups import Group, Row
from tensorad.codegen.fusion.steps import Part, Step
from tensorad.codegen.loops.index_ranges import Ranges, among
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import Access, extent_of
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.plan import lanes_of_nest
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import assumed_bytes, bytes_text
from tensorad.ir.expr import Axis, LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Constant, Tensor
from tensorad.ir.visit import free_leaves

NEAR = 0.75
"""The part of a core's own cache that a block of rows may fill."""
SMALL_BYTES = 1 << 15
"""Programs that keep less than this in temporaries have nothing to save."""
FEW_POINTS = 256
"""Points that one run of the body should visit at least."""
MANY_POINTS = 2048
"""Blocks are enlarged until they visit about this many points."""
LARGEST_BLOCK = 256
FEW_BLOCKS = 16
"""Blocks that several threads should find."""
MINOR = 16
"""A member of at most this part of the points may lose its lanes."""
CONTRACTED_ROWS = 64
"""Rows that a contraction is given at once: several register tiles share what is packed."""


@dataclass(frozen=True, eq=False)
class Tile:
    """The loop nest around a group.

    Attributes:
        rows: outermost first; the last may run in blocks.
        block: values of the last row per run.
        parallel: whether the outermost loop is worth several threads.
        inner: members that share more rows: their loops stand inside of these.
    """

    rows: tuple[Row, ...]
    block: int
    parallel: bool
    inner: tuple[Inner, ...] = ()


def may_pay(first: Group, second: Group) -> bool:
    """Whether two groups may be worth a loop over rows by their bytes, or are wanted in one."""
    if first.moved + second.moved >= SMALL_BYTES:
        return True
    return _is_forced((*first.steps, *second.steps))


def may_save(steps: Sequence[Step], outside: Mapping[Tensor, None]) -> bool:
    """Whether steps in one loop over rows would move less, or are wanted in one: what can be said
    before their rows are known."""
    return _is_forced(steps) or _saved(steps, outside) >= SMALL_BYTES


def _is_forced(steps: Sequence[Step]) -> bool:
    return all(s.item is not None and s.item.choices.fuse for s in steps)


@dataclass(frozen=True, eq=False)
class Inner:
    """Members of a group that share a loop of their own, over the rest of their rows."""

    steps: tuple[Step, ...]
    tile: Tile


def best_tile(
    group: Group, outside: Mapping[Tensor, None], before: Sequence[tuple[Group, Tile | None]] = ()
) -> Tile | None:
    """The loop over the rows of a group that may save something; None where it does not pay.

    Args:
        outside: tensors of the group that stay in memory.
        before: the groups it is joined from, which may keep their loops inside.
    """
    members = [m for s in group.steps for m in s.parts]
    found = [t for depth in range(len(group.rows), 0, -1) for t in _tiles(group, depth, members)]
    if _is_forced(group.steps):
        return found[-1] if found else Tile(group.rows[:1], 1, _parallel(group, 0))
    found += [t for d in range(len(group.rows), 0, -1) for t in _nested(group, d, before)]
    found = [t for t in found if _has_known_scratch(t, group)]
    if not found:
        return None
    saved = _saved(group.steps, outside)
    tries = [(t, NEAR * machine.current().l2) for t in found]
    if any(m.contraction is not None for m in members):
        tries += [(t, _reach()) for t in sorted(found, key=lambda t: not t.inner)]
    enough = saved / BYTES_PER_CYCLE
    for t, most in tries:
        if _keeps(t, group, outside, most, saved) and _repacking(t, group) < enough:
            return replace(t, parallel=True) if _shared_awake(t, group) else t
    return None


def _has_known_scratch(tile: Tile, group: Group) -> bool:
    """Whether rows have their size when a call begins: scratch is there before any loop runs."""
    for s in group.steps:
        rows = [row[s] for row in tile.rows]
        rest = [a for a in (s.item.axes if s.item is not None else ()) if not among(a, rows)]
        if any(isinstance(n, LocalSize) for a in rest for n in sizes_in(a.lower, a.upper)):
            return False
    return True


def _shared_awake(tile: Tile, group: Group) -> bool:
    """Whether threads that are awake may share loops that were made for one."""
    members = [m for s in group.steps for m in s.parts]
    work = sum(m.cost for m in members)
    if tile.parallel or work < SHARED_COST or work >= PARALLEL_COST:
        return False
    if any(s.item is not None and s.item.choices.parallel is not None for s in group.steps):
        return False
    first = _extent(group, tile.rows[0])
    runs = first if len(tile.rows) > 1 else ceil(first / tile.block)
    if any(m.contraction is not None for m in members):
        return runs >= MOST_SHARED and all(_packs_its_own(s, tile) for s in group.steps)
    return runs >= FEW_BLOCKS


def _packs_its_own(s: Step, tile: Tile) -> bool:
    """Whether nothing that a contraction packs is the same in all runs of the last row."""
    if s.blocking is None:
        return True
    return tile.rows[-1][s] in free_leaves(s.blocking.lanes.value)


def reason(group: Group, tile: Tile, outside: Mapping[Tensor, None]) -> tuple[str, str]:
    """What was chosen, in words, and why."""
    names = ", ".join([row[group.steps[0]].name for row in tile.rows])
    blocks = f" in blocks of {tile.block}" if tile.block > 1 else ""
    saved = bytes_text(int(_saved(group.steps, outside)))
    for i in tile.inner:
        rows = ", ".join([row[i.steps[0]].name for row in i.tile.rows])
        blocks += f", {len(i.steps)} of them inside over {rows}"
        blocks += f" in blocks of {i.tile.block}" if i.tile.block > 1 else ""
    return (
        f"{len(group.steps)} computes in one loop over {names}{blocks}",
        f"they read each other at their own rows; {saved} need not move",
    )


def _tiles(group: Group, depth: int, members: Sequence[Part]) -> Iterator[Tile]:
    """The tile over the first `depth` rows, where lanes and register tiles allow it."""
    rows = group.rows[:depth]
    last = rows[-1]
    work = sum(m.cost for m in members)
    lost = [m for m in members if any(_spoils(m, row) for row in rows[:-1])]
    if sum(m.cost for m in lost) * MINOR > work:
        return
    block = max(
        [1, *[ceil(CONTRACTED_ROWS / n) for n in [m.own(last[m.step]) for m in members] if n]]
    )
    for m in members:
        block = lcm(block, m.plan.jam.get(last[m.step], 1))
    lanes = [m for m in members if last[m.step] is m.plan.vector]
    if sum(m.cost for m in (*lost, *lanes)) * MINOR > work:
        block = max([block, *[max(m.plan.width, lanes_of_nest(m.nest, MODEL)) for m in lanes]])
    size = last[group.steps[0]].extent
    parallel = _parallel(group, work)
    if size is None:
        if block == 1:
            yield Tile(rows, 1, parallel)
        return
    extents = [_extent(group, row) for row in rows]
    block = min(block, size, LARGEST_BLOCK)
    while _enlarge(block, size, extents, sum(m.points for m in members), parallel):
        block *= 2
    if 2 * block > size:
        block = size
    yield Tile(rows, _even(block, size), parallel and prod(extents) > 1)


def _nested(
    group: Group, depth: int, before: Sequence[tuple[Group, Tile | None]]
) -> Iterator[Tile]:
    """The tile over the first `depth` rows around the loops that there were."""
    rows = group.rows[:depth]
    inner: list[Inner] = []
    for g, tile in before:
        found = () if tile is None else _inside(g, tile, rows)
        if found is None:
            return
        inner.extend(found)
    around = outside_of(inner, group)
    work = sum(m.cost for s in group.steps for m in s.parts)
    lost = [m for s in around for m in s.parts if any(_spoils(m, row) for row in rows)]
    if not inner or sum(m.cost for m in lost) * MINOR > work:
        return
    if units_in_order(group, inner) is not None:
        extents = [_extent(group, row) for row in rows]
        yield Tile(rows, 1, _parallel(group, work) and prod(extents) > 1, tuple(inner))


def _inside(group: Group, tile: Tile, rows: Sequence[Row]) -> tuple[Inner, ...] | None:
    """What the loops of a group become inside of others over its first rows; None: no loops."""
    if len(tile.rows) < len(rows):
        return None
    if any(t[s] is not r[s] for t, r in zip(tile.rows, rows, strict=False) for s in group.steps):
        return None
    rest = tile.rows[len(rows) :]
    if not rest:
        return tile.inner if tile.block == 1 else None
    return None if tile.inner else (Inner(group.steps, Tile(rest, tile.block, False)),)


def outside_of(inner: Sequence[Inner], group: Group) -> list[Step]:
    """The members in no loop of their own."""
    within = {s for i in inner for s in i.steps}
    return [s for s in group.steps if s not in within]


def units_in_order(group: Group, inner: Sequence[Inner]) -> list[Step | Inner] | None:
    """Members and loops inside in an order that may run; None without any."""
    left: list[Step | Inner] = [*inner, *outside_of(inner, group)]
    members = {u: u.steps if isinstance(u, Inner) else (u,) for u in left}
    writes = {u: {t for s in members[u] for t in s.writes} for u in left}
    reads = {u: {t for s in members[u] for t in s.reads} for u in left}
    after = {u: {a for s in members[u] for a in s.after} for u in left}
    done: list[Step | Inner] = []
    while left:
        free = [
            u
            for u in left
            if not any(
                v is not u and (reads[u] & writes[v] or after[u] & {*members[v]}) for v in left
            )
        ]
        if not free:
            return None
        done.append(free[0])
        left.remove(free[0])
    return done


def _parallel(group: Group, work: float) -> bool:
    """Whether the loop runs on several threads: by choice or by its work."""
    made = [s.item.choices.parallel for s in group.steps if s.item is not None]
    return all(made) if any(m is not None for m in made) else work >= PARALLEL_COST


def _spoils(m: Part, row: Row) -> bool:
    """Whether a loop over single values of the row takes a member's lanes or register tile."""
    if 0 < m.own(row[m.step]) < CONTRACTED_ROWS:
        return True
    return row[m.step] is m.plan.vector or row[m.step] in m.plan.jam


def _extent(group: Group, row: Row) -> int:
    return extent_of(row[group.steps[0]])


def _enlarge(block: int, size: int, extents: Sequence[int], total: float, parallel: bool) -> bool:
    """Whether the body would do too little in one block."""
    each = total / prod(extents)
    blocks = prod(extents[:-1]) * ceil(size / (2 * block))
    enough = block * each >= MANY_POINTS or 2 * block > min(size, LARGEST_BLOCK)
    return not enough and not (parallel and blocks < FEW_BLOCKS)


def _even(block: int, size: int) -> int:
    """A block near this one that leaves no rest, if there is one."""
    for b in range(block, max(1, block * 3 // 4) - 1, -1):
        if size % b == 0:
            return b
    return block


def _saved(steps: Sequence[Step], outside: Mapping[Tensor, None]) -> float:
    """Bytes that need not move: temporaries, and repeated reads of the same rows."""
    total = 0.0
    read: dict[Tensor, int] = {}
    for s in steps:
        for t in s.reads:
            read[t] = read.get(t, 0) + 1
    for t, times in read.items():
        made = any(among(t, s.writes) for s in steps)  # type: ignore[arg-type]
        if isinstance(t.op, Constant):
            continue
        total += assumed_bytes(t) * (times - 1 + (made and 1) + (made and t not in outside))
    return total


def _chain(tile: Tile, step: Step) -> tuple[Tile, ...]:
    """The tiles around a step, outermost first."""
    return (tile, *[i.tile for i in tile.inner if any(s is step for s in i.steps)])


def _fixed(tiles: Sequence[Tile], step: Step) -> dict[Axis, int]:
    """How many values the rows of a step have in one run."""
    fixed: dict[Axis, int] = {}
    for t in tiles:
        fixed.update({row[step]: 1 for row in t.rows})
        fixed[t.rows[-1][step]] = t.block
    return fixed


def _keeps(
    tile: Tile, group: Group, outside: Mapping[Tensor, None], most: float, saved: float
) -> bool:
    """Whether a run of the body is large enough, fits the cache, and moves less than before."""
    members = [m for s in group.steps for m in s.parts]
    runs = 1.0
    for row in tile.rows:
        runs *= extent_of(row[members[0].step])
    runs = max(1.0, runs / tile.block)
    points = sum(m.points for m in members)
    if points / runs < FEW_POINTS:
        return False
    if tile.parallel and runs < FEW_BLOCKS:
        return False
    held: dict[Tensor, float] = {}
    again: dict[Tensor, float] = {}
    made = {t for m in members for t in m.step.writes}
    used: dict[Tensor, dict[Step, None]] = {}
    for m in members:
        chain = _chain(tile, m.step)
        for x in m.accesses:
            fixed = _fixed(chain if is_private(x.tensor, tile, group, outside) else (tile,), m.step)
            size = _touched(x, m.nest, fixed)
            used.setdefault(x.tensor, {})[m.step] = None
            held[x.tensor] = max(held.get(x.tensor, 0.0), size)
            if any(a not in x.uses for a in fixed) and x.tensor not in made:
                again[x.tensor] = max(again.get(x.tensor, 0.0), size)
    shared = sum(size for t, size in held.items() if len(used[t]) > 1)
    if shared > most:
        return False
    far = NEAR * machine.current().l2 / 2
    moved = sum(size * (runs - 1) for size in again.values() if size > far)
    return moved < saved


def _reach() -> float:
    """Bytes that groups with contractions may hold: they work on what they read for so long that
    it may come from a thread's part of the last cache."""
    target = machine.current()
    return max(NEAR * target.l2, NEAR * target.l3 / max(1, target.cores))


def is_private(t: Tensor, tile: Tile, group: Group, outside: Mapping[Tensor, None]) -> bool:
    """Whether a tensor is made and read in one loop inside alone."""
    if t in outside:
        return False
    users = [s for s in group.steps if among(t, s.reads) or among(t, s.writes)]  # type: ignore[arg-type]
    made = any(among(t, s.writes) for s in users)  # type: ignore[arg-type]
    return made and any(all(among(s, i.steps) for s in users) for i in tile.inner)  # type: ignore[arg-type]


def _repacking(tile: Tile, group: Group) -> float:
    """Cycles that contractions lose where they are given some rows at a time."""
    lost, target = 0.0, machine.current()
    for s in group.steps:
        if s.blocking is None:
            continue
        chain = _chain(tile, s)
        runs = prod(float(extent_of(row[s])) for t in chain for row in t.rows)
        runs /= prod(t.block for t in chain)
        blocked = {t.rows[-1][s]: t.block for t in chain if t.block > 1}
        rows = tuple([row[s] for t in chain for row in t.rows])
        lost += runs * cycles_on(s.in_rows(rows, blocked), target) - cycles_on(s.blocking, target)
    return lost


def _touched(x: Access, nest: Nest, fixed: Mapping[Axis, int]) -> float:
    """Bytes of an access while the fixed axes run over that many values.

    Windows overlap: it is not more than the fixed rows' share of the tensor.
    """
    axes = dict.fromkeys([*nest.axes, *[a for f in nest.folds for a in f.axes]])
    ranges = Ranges(axes)
    count, share = 1.0, float(assumed_bytes(x.tensor))
    for a in axes:
        if a in x.uses:
            extent = extent_of(a, ranges)
            count *= fixed.get(a, extent)
            share *= fixed.get(a, extent) / max(1, extent)
    return min(count * x.tensor.dtype.size_bytes, share)
