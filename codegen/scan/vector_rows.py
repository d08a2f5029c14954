"""Vectorises scans over rows whose elements lie apart in memory: tiles of rows are transposed.

What the steps of a tile read is copied to scratch first, neighbouring rows side by side; what
they keep goes the other way afterwards. Copies across cost little beside steps that take
functions, and one register then walks as many rows as it has lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.cost.operation_costs import operations
from tensorad.codegen.directives import OPEN, Choices, may_vectorise
from tensorad.codegen.loops.ir import For, If, Kernel, Stmt
from tensorad.codegen.loops.relocate import Place, moved
from tensorad.codegen.loops.rewrite import serial
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import access, guarded_unsafe
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.scan.parts import ScanParts, scan_parts
from tensorad.codegen.scan.scatter import free_loops, wants_threads
from tensorad.codegen.schedule.emit import emit_nest, strips
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import assumed_bytes
from tensorad.ir.expr import ONE, TRUE, Axis, Expr, Read, axis, read, sub
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import (
    free_leaves,
    op_expressions,
    op_inputs,
    reads,
    substitute,
    substitute_all,
)

REGISTERS: Final = 4
"""Registers of rows side by side: a function's operations wait for each other."""
LONG: Final = 32
"""Rows side by side where each lane reads its own elements."""
TILE_ROWS: Final = (64, 32, 16)
"""Rows whose elements are in scratch at a time."""
MOST_BYTES: Final = 1 << 18
"""Scratch of one tile."""
MOST_STATES: Final = 1 << 21
"""Scratch of one tile of long rows: the states between two scans of a chain."""
LEAST_WORK: Final = 12
"""Operations of a step from which copies across pay; fewer do where states stay in scratch, since
a store for each element of each scan costs as much as the copies."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Scans that read each other's states in their own rows only.

    Attributes:
        scans: in order, each with the tensors of it that are used.
        inside: tensors that only later scans of the chain read.
    """

    scans: tuple[tuple[Scan, tuple[Tensor, ...]], ...]
    inside: tuple[Tensor, ...]


def steps_of_rows(parts: ScanParts) -> tuple[Stmt, ...]:
    """A row from its start to its end."""
    step = parts.step if parts.condition is TRUE else (If(parts.condition, parts.step),)
    loops = serial(parts.steps, step)
    inner = loops if parts.outer is TRUE else (If(parts.outer, loops),)
    return (parts.begin, *inner, *parts.end)


def can_vectorise_rows(op: Scan, parts: ScanParts, lane: Axis) -> bool:
    """Whether rows along an axis take the same steps, with reads that are safe in each lane."""
    bounds = [b for a in parts.steps for b in (a.lower, a.upper, a.step)]
    if lane in free_leaves(parts.outer, parts.condition, *bounds):
        return False
    inner = (*op.axes, *op.along)
    guarded = op.condition is not TRUE
    return not (
        guarded_unsafe(op.sources, inner, guarded=guarded)
        or guarded_unsafe((op.condition, *op.start), inner, guarded=False)
    )


def schedule_row_tiles(chain: Chain, choices: Choices) -> Kernel | None:
    """The scans of a chain with vectorised rows; None where that cannot be or does not pay."""
    axes = chain.scans[0][0].axes
    if not axes or not may_vectorise(choices, axes[-1]) or choices.tile is not None:
        return None
    if not all(_fits(op, live) for op, live in chain.scans):
        return None
    heavy = all(_work(op) >= LEAST_WORK for op, _ in chain.scans)
    if not heavy and not (chain.inside and all(_is_long(op) for op, _ in chain.scans)):
        return None
    rows = axes[-1].extent
    for width in TILE_ROWS if heavy else TILE_ROWS[-1:]:
        made = _RowTiles(chain, width)
        if made.fits(MOST_BYTES) and (rows is None or rows >= width):
            return made.kernel(choices)
    made = _RowTiles(chain, LONG, across=False)
    if heavy and made.fits(MOST_STATES) and (rows is None or rows >= LONG):
        return made.kernel(choices)
    return None


def _fits(op: Scan, live: tuple[Tensor, ...]) -> bool:
    lane = op.axes[-1]
    if occurs(REDUCE, *op_expressions(op)):
        return False
    if any(isinstance(e, Axis) for e in free_leaves(lane.lower, lane.upper)):
        return False
    return op.condition is TRUE and can_vectorise_rows(op, scan_parts(op, live), lane)


def _work(op: Scan) -> int:
    """Operations of a step."""
    return operations((*op.sources, *op.combiner.results))


def _is_long(op: Scan) -> bool:
    """Whether a row has as many elements along every axis as are moved across at a time."""
    return all((a.extent or 0) >= TILE_ROWS[-1] for a in op.along)


@dataclass(eq=False)
class _RowTiles:
    """The loops of one tile of rows under construction.

    `across`: elements that lie apart are copied; otherwise each lane reads and writes its own.
    """

    chain: Chain
    width: int
    across: bool = True
    staged: dict[tuple[object, ...], Tensor] = field(default_factory=dict)
    places: dict[Tensor, Place] = field(default_factory=dict)
    before: list[Nest] = field(default_factory=list)
    after: list[Nest] = field(default_factory=list)
    shared: dict[tuple[Expr, ...], Axis] = field(default_factory=dict)
    """Axes that stand for those of all scans with equal bounds."""
    known: bool = True
    """Whether all sizes of scratch are numbers."""

    def __post_init__(self) -> None:
        self.axes = self.chain.scans[0][0].axes
        self.outer, self.lane = strips(self.axes[-1], self.width)
        self.rows = (*self.axes[:-1], self.lane)
        body: list[Stmt] = []
        for op, live in self.chain.scans:
            op = self._over_shared(op)
            for t in live:
                self._place(op, t)
            op = replace(op, sources=self._sources(op))
            body.extend(steps_of_rows(scan_parts(op, live)))
        self.body = tuple(body)

    def fits(self, most: int) -> bool:
        """Whether the tile's scratch is known and takes at most so many bytes."""
        return self.known and sum(map(assumed_bytes, self._scratch())) <= most

    def _scratch(self) -> list[Tensor]:
        return [*self.staged.values(), *[p.tensor for p in self.places.values()]]

    def _over_shared(self, op: Scan) -> Scan:
        mapping: dict[Expr, Expr] = dict(zip(op.axes, self.rows, strict=True))
        along: list[Axis] = []
        for n, a in enumerate(op.along):
            bounds = substitute_all((a.lower, a.upper, a.step), mapping)
            key = (*bounds, *along)
            along.append(self.shared.setdefault(key, axis(a.name, *bounds)))
            mapping[a] = along[n]
        return replace(
            op,
            axes=self.rows,
            along=tuple(along),
            sources=substitute_all(op.sources, mapping),
            start=substitute_all(op.start, mapping),
            indices=substitute_all(op.indices, mapping),
            condition=substitute(op.condition, mapping),
        )

    def _place(self, op: Scan, t: Tensor) -> None:
        """Scratch for the states that a scan keeps, rows last; copied out if others read them."""
        inside = t in dict.fromkeys(self.chain.inside)
        where = self._where(op, t)
        if where is None or not (inside or (self.across and not self._is_near(t, where))):
            self.known = self.known and not (inside and where is None)
            return
        lane = next(d for d, i in enumerate(where) if i is self.lane)
        kept = [d for d, i in enumerate(where) if not any(i is a for a in self.rows)]
        shape = (*[t.shape[d] for d in kept], self.width)
        home = buffer(t.name, shape, t.dtype)
        self.places[t] = Place(home, (*[(d, None) for d in kept], (lane, self.lane.lower)))
        if inside:
            return
        row, steps = self._row(), {d: axis(f"j{d}", 0, t.shape[d]) for d in kept}
        images: dict[Expr, Expr] = {self.lane: row}
        target = [steps[d] if d in steps else images.get(i, i) for d, i in enumerate(where)]
        source = (*steps.values(), sub(row, row.lower))
        self.after.append(
            Nest((row, *steps.values()), (), (t,), tuple(target), (read(home, source),))
        )

    def _where(self, op: Scan, t: Tensor) -> tuple[Expr, ...] | None:
        """Where states are kept, if every index is a row or none of the rows decides it."""
        where = op.indices
        if len(t.shape) != len(where):
            return None
        rows = dict.fromkeys(self.rows)
        found = [i for i in where if i in rows]
        steps = [(i, n) for i, n in zip(where, t.shape, strict=True) if i not in rows]
        mixed = any(a in rows for i, _ in steps for a in free_leaves(i))
        closed = all(isinstance(n, int) for _, n in steps)
        return where if closed and not mixed and len(found) == len(rows) else None

    def _is_near(self, t: Tensor, where: tuple[Expr, ...]) -> bool:
        return access(t, where).stride(self.lane) in (0, 1, -1)

    def _row(self) -> Axis:
        return axis(self.lane.name, self.lane.lower, self.lane.upper)

    def _sources(self, op: Scan) -> tuple[Expr, ...]:
        """What the steps read, from scratch where rows lie apart."""
        images: dict[Expr, Expr] = {}
        for e in reads(*op.sources):
            moving = free_leaves(e)
            if (
                e.tensor in self.places
                or self.lane not in moving
                or self._is_near(e.tensor, e.indices)
            ):
                continue
            steps = [a for a in op.along if a in moving]
            closed = all(a.extent is not None and a.step is ONE for a in steps)
            if steps and closed and self.across and not _by_data(e):
                images[e] = self._stage(steps, e)
        return substitute_all(op.sources, images)

    def _stage(self, steps: Sequence[Axis], e: Read) -> Expr:
        key = (e, *steps)
        if key not in self.staged:
            shape = (*[a.extent or 0 for a in steps], self.width)
            self.staged[key] = buffer(e.tensor.name, shape, e.dtype)
            own = [axis(a.name, a.lower, a.upper) for a in (*steps, self.lane)]
            value = substitute(e, dict(zip((*steps, self.lane), own, strict=True)))
            where = tuple([sub(a, a.lower) for a in own])
            self.before.append(Nest(tuple(own), (), (self.staged[key],), where, (value,)))
        return read(self.staged[key], tuple([sub(a, a.lower) for a in (*steps, self.lane)]))

    def kernel(self, choices: Choices) -> Kernel:
        """All tiles."""
        states = [p for op, _ in self.chain.scans for p in op.combiner.lhs]
        lanes = MODEL.lanes(max([p.dtype.size_bytes for p in states]))
        width = min(self.width, REGISTERS * lanes)
        main = For(self.lane, moved(self.body, self.places), "vector", width)
        body = (*_copies(self.before), main, *_copies(self.after))
        points = sum(extent_product([*self.axes, *op.along]) for op, _ in self.chain.scans)
        *others, _ = self.axes
        wide = not others and wants_threads(points, choices.parallel)
        loops: tuple[Stmt, ...] = (For(self.outer, body, "parallel" if wide else "serial"),)
        loops = free_loops(others, points, loops, choices.parallel)
        every = [t for _, live in self.chain.scans for t in live]
        inside = dict.fromkeys(self.chain.inside)
        made = tuple([t for t in every if t not in inside])
        read_ = dict.fromkeys([t for op, _ in self.chain.scans for t in op_inputs(op)])
        left = tuple([t for t in read_ if t not in dict.fromkeys(every)])
        note(
            Decision(
                made,
                f"{width} rows in lanes",
                "a step takes longer than moving its elements across",
            )
        )
        name = self.chain.scans[-1][0].name
        return Kernel(name, loops, made, left, tuple(self._scratch()))


def _copies(nests: Sequence[Nest]) -> tuple[Stmt, ...]:
    alone = replace(OPEN, parallel=False)
    return tuple([s for n in nests for s in emit_nest(n, plan_nest(n, alone))])


def _by_data(e: Read) -> bool:
    return occurs(READ, *e.indices)
