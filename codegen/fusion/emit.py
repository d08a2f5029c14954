"""The loops of a group: one loop over rows around what each member does in its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.codegen.caches.cache_hints import is_large
from tensorad.codegen.contraction.emit.pack import Emitted
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.fusion.contractions_in_rows import emit_rows, plan_rows
from tensorad.codegen.fusion.row_groups import Group
from tensorad.codegen.fusion.steps import Step
from tensorad.codegen.fusion.tile import Inner, Tile, is_private, units_in_order
from tensorad.codegen.loops.collapse import long_shared
from tensorad.codegen.loops.index_ranges import among, substitutor
from tensorad.codegen.loops.ir import For, Kernel, LoopKind, Stmt
from tensorad.codegen.loops.relocate import Place, moved
from tensorad.codegen.nest.ir import Nest, map_nest
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.flatten import flattened
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.ir.expr import Axis, Expr, add, axis, int_const, mul
from tensorad.ir.tensor import Dim, Placeholder, Tensor, outputs
from tensorad.ir.visit import free_leaves


@dataclass(frozen=True, eq=False)
class _Run:
    """Where the loops of a tile are: the value of each of its rows.

    Attributes:
        at: one per row.
        inner: the axis within the block of the last row; None where it takes single values.
        base: where the block begins.
    """

    tile: Tile
    at: tuple[Expr, ...]
    inner: Axis | None
    base: Expr | None


@dataclass(frozen=True, eq=False)
class _Home:
    """The scratch of a temporary: the elements of one run of all tiles around it."""

    step: Step
    tiles: tuple[Tile, ...]
    tensor: Tensor


Chain = tuple[_Run, ...]
Written = tuple[tuple[Stmt, ...], tuple[Stmt, ...]]
"""What may stand before the innermost loop around, and what stands in it."""


class _Writer:
    """One group with its tile and the scratch of its temporaries."""

    def __init__(self, group: Group, tile: Tile, outside: Mapping[Tensor, None]) -> None:
        self.group = group
        self.tile = tile
        self.outside = outside
        self.panels: list[Tensor] = []
        again = {t: None for s in group.steps for t in s.reads if is_large(t)}
        self.homes = {
            t: self.home(t, s)
            for s in group.steps
            for t in s.writes
            if t not in outside or t in again  # a row is read again, its stores pass the cache
        }

    def home(self, t: Tensor, s: Step) -> _Home:
        """The scratch of a temporary: within the loops of all that use it."""
        tiles: tuple[Tile, ...] = (self.tile,)
        if is_private(t, self.tile, self.group, {}):
            tiles += tuple([i.tile for i in self.tile.inner if any(s is x for x in i.steps)])
        shape: list[Dim] = [t.shape[d] for d in _kept(s, tiles)]
        for tile in tiles:
            d = _blocked(s, tile)
            if d is not None:
                shape[_kept(s, tiles).index(d)] = tile.block
        return _Home(s, tiles, outputs(Placeholder(t.name, tuple(shape), t.dtype))[0])

    def kernel(self) -> Kernel:
        """All loops."""
        units = units_in_order(self.group, self.tile.inner)
        assert units is not None  # the tile was made for it
        body = self.loops(self.tile, units, ())
        made = [t for s in self.group.steps for t in s.writes if t in self.outside]
        read = dict.fromkeys(t for s in self.group.steps for t in s.reads if t not in self.homes)
        scratch = (*[home.tensor for home in self.homes.values()], *self.panels)
        return Kernel(made[-1].name, body, tuple(made), tuple(read), scratch)

    def loops(self, tile: Tile, units: Sequence[Step | Inner], chain: Chain) -> tuple[Stmt, ...]:
        """The loops of a tile: over values of all rows but the last, then over blocks of it."""
        first = units[0].steps[0] if isinstance(units[0], Inner) else units[0]
        loops = [axis(row[first].name, 0, row[first].upper) for row in tile.rows]
        before, body = self.blocks(tile, loops, units, chain)
        if tile.parallel and len(loops) == 1:
            assert not before  # scratch of a thread lives in an iteration
        elif before and len(loops) == 1 and not chain:
            body = (For(axis(loops[0].name, 0, 1), (*before, *body)),)
        else:
            body = (*before, *body)
        for a in reversed(loops[:-1]):
            body = (For(a, body, "parallel" if a is loops[0] and tile.parallel else "serial"),)
        return long_shared(body, loops)

    def blocks(
        self, tile: Tile, loops: list[Axis], units: Sequence[Step | Inner], chain: Chain
    ) -> Written:
        """The last loop: over values, or over whole blocks and then the rest."""
        last, block, around = loops[-1], tile.block, tuple(loops[:-1])
        shared = tile.parallel and len(loops) == 1
        kind: LoopKind = "parallel" if shared else "serial"
        if block == 1:
            run = _Run(tile, (*around, last), None, None)
            return _within(last, self.members(units, (*chain, run)), kind)
        assert last.extent is not None  # only such rows have blocks
        whole, rest = divmod(last.extent, block)
        before: tuple[Stmt, ...] = ()
        body: tuple[Stmt, ...] = ()
        runs: list[tuple[Axis, Expr, int, LoopKind]] = []
        if whole:
            number = axis(last.name, 0, whole)
            runs.append((number, mul(int_const(block), number), block, kind))
        if rest:  # no part of a loop: scratch lives in a statement of its own
            runs.append((axis(last.name, 0, 1), int_const(whole * block), rest, "serial"))
        for number, base, size, each in runs:
            inner = axis(f"{last.name}i", 0, size)
            start = int_const(0) if number.extent == 1 and not rest else base
            run = _Run(tile, (*around, add(start, inner)), inner, start)
            first, second = _within(number, self.members(units, (*chain, run)), each)
            before, body = (*before, *first), (*body, *second)
        return before, body

    def members(self, units: Sequence[Step | Inner], chain: Chain) -> Written:
        """What every member does in one run."""
        before: list[Stmt] = []
        body: list[Stmt] = []
        for steps in _together(units, chain[-1].tile):
            if isinstance(steps, Inner):
                body.extend(self.loops(steps.tile, steps.steps, chain))
                continue
            run, inner = chain[-1], chain[-1].inner
            if len(steps) > 1 and inner is not None and run.base is not None:
                a = axis(inner.name, inner.lower, inner.upper)
                single = replace(run, at=(*run.at[:-1], add(run.base, a)), inner=None)
                rows = [self.placed(s, (*chain[:-1], single))[1] for s in steps]
                body.append(For(a, tuple([x for made in rows for x in made])))
                continue
            for s in steps:
                first, second = self.placed(s, chain)
                before.extend(first)
                body.extend(second)
        return tuple(before), tuple(body)

    def placed(self, s: Step, chain: Chain) -> Written:
        """What a member does in one run."""
        first, second = self.member(s, chain)
        places = self.places(s, chain)
        return moved(first, places), moved(second, places)

    def member(self, s: Step, chain: Chain) -> Written:
        """What a member does in one run, as if all its temporaries were in memory."""
        rows: dict[Expr, Expr] = {}
        left: dict[Expr, Axis | None] = {}
        for run in chain:
            rows.update({row[s]: e for row, e in zip(run.tile.rows, run.at, strict=True)})
            left[run.tile.rows[-1][s]] = run.inner
        if s.blocking is None:
            choices = OPEN if s.item is None else s.item.choices
            made = [
                x for nest, plan in s.planned for x in _in_rows(nest, plan, rows, left, choices)
            ]
            return (), tuple(made)
        assert s.item is not None  # it is a contraction
        blocking = plan_rows(s.item, s.blocking.contraction, rows, left)
        emitted = emit_rows(s.item, blocking)
        self.panels.extend(emitted.scratch)
        return self.hoisted_packing(chain[-1], emitted, free_leaves(blocking.lanes.value))

    def hoisted_packing(self, run: _Run, made: Emitted, used: Mapping[Expr, None]) -> Written:
        """What is packed stands before the last loop where it is the same in all its runs."""
        shared = run.tile.parallel and len(run.tile.rows) == 1
        if shared or any(e in used for e in free_leaves(run.at[-1])):
            return (), (*made.before, *made.body)
        return made.before, made.body

    def places(self, s: Step, chain: Chain) -> dict[Tensor, Place]:
        """Where a member finds the temporaries it uses."""
        found = {}
        for t in (*s.reads, *s.writes):
            home = self.homes.get(t)
            if home is not None:
                kept = self.origins(home, chain)
                found[t] = Place(home.tensor, kept, t in self.outside)
        return found

    def origins(self, home: _Home, chain: Chain) -> tuple[tuple[int, Expr | None], ...]:
        """The kept dimensions, each with where its block begins."""
        bases = {_blocked(home.step, run.tile): run.base for run in chain[: len(home.tiles)]}
        return tuple([(d, bases.get(d)) for d in _kept(home.step, home.tiles)])


def _together(units: Sequence[Step | Inner], tile: Tile) -> list[tuple[Step, ...] | Inner]:
    """The units; neighbours that lose nothing by single rows of a block share a loop over them."""
    found: list[tuple[Step, ...] | Inner] = []
    single = False
    for unit in units:
        if isinstance(unit, Inner):
            found.append(unit)
            single = False
            continue
        before = found[-1] if single else None
        single = _takes_single_rows(unit, tile.rows[-1][unit])
        if single and isinstance(before, tuple):
            found[-1] = (*before, unit)
        else:
            found.append((unit,))
    return found


def _takes_single_rows(s: Step, row: Axis) -> bool:
    """Whether no lanes and no register tile run along the row."""
    plans = [plan for _, plan in s.planned]
    return s.blocking is None and not any(row is p.vector or row in p.jam for p in plans)


def _within(a: Axis, made: Written, kind: LoopKind) -> Written:
    """The loop around what stands in it."""
    return made[0], (For(a, made[1], kind),)


def _kept(s: Step, tiles: Sequence[Tile]) -> list[int]:
    """The dimensions of a member's tensors that are no rows, and those with blocks."""
    assert s.item is not None  # it has rows
    blocked = [_blocked(s, t) for t in tiles]
    rows = [row[s] for t in tiles for row in t.rows]
    return [d for d, a in enumerate(s.item.axes) if d in blocked or not among(a, rows)]


def _blocked(s: Step, tile: Tile) -> int | None:
    """The dimension that runs in blocks."""
    assert s.item is not None  # it has rows
    if tile.block == 1:
        return None
    return [a is tile.rows[-1][s] for a in s.item.axes].index(True)


def write_group(group: Group, tile: Tile, outside: Mapping[Tensor, None]) -> Kernel:
    """The kernel of a group."""
    return _Writer(group, tile, outside).kernel()


def _in_rows(
    nest: Nest,
    plan: Plan,
    rows: Mapping[Expr, Expr],
    left: Mapping[Expr, Axis | None],
    choices: Choices,
) -> tuple[Stmt, ...]:
    """A piece for given rows, by its plan without their loops: its sums keep their order."""
    axes: dict[Expr, Axis | None] = dict.fromkeys(rows)
    axes.update(left)
    kept = [axes.get(a, a) for a in nest.axes]
    image = substitutor(rows)
    placed = map_nest(nest, image, [a for a in kept if a is not None])
    flat = flattened(placed, choices)
    if flat is not placed:
        return emit_nest(flat, replace(plan_nest(flat, choices), parallel=False))
    if plan.vector is not None and among(plan.vector, rows):  # no fold is vectorised
        other = plan_nest(placed, choices)
        if other.vector is None or among(other.vector, placed.axes):
            return emit_nest(placed, replace(other, parallel=False))
    for f, g in zip(nest.folds, placed.folds, strict=True):
        axes.update(zip(f.axes, g.axes, strict=True))
    return emit_nest(placed, _placed_plan(plan, lambda a: axes.get(a, a)))


def _placed_plan(plan: Plan, image: Callable[[Axis], Axis | None]) -> Plan:
    """The plan over the axes that are left."""
    order = [image(a) for a in plan.order]
    jam = {image(a): f for a, f in plan.jam.items()}
    unroll = [image(a) for a in plan.unroll]
    return replace(
        plan,
        order=tuple([a for a in order if a is not None]),
        vector=None if plan.vector is None else image(plan.vector),
        jam={a: f for a, f in jam.items() if a is not None},
        unroll=frozenset([a for a in unroll if a is not None]),
        parallel=False,
    )
