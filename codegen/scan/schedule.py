"""Scans: rows are free, so several of them are walked side by side.

One row waits for itself at every step; four rows in one loop do not. Where a row's elements lie
apart in memory and those of its neighbours side by side, rows are vectorised instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.directives import Choices, may_vectorise
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Assign, Fold, For, Kernel, LoopKind, Stmt
from tensorad.codegen.loops.relocate import Place, moved
from tensorad.codegen.loops.rewrite import Around, Block, rewrite, rewrite_blocks, serial
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.visit import inside
from tensorad.codegen.scan.parts import ScanParts, scan_parts
from tensorad.codegen.scan.scatter import STRIP, free_loops, wants_threads
from tensorad.codegen.scan.vector_blocks import block_loops, rest_rows, takes_blocks
from tensorad.codegen.scan.vector_rows import (
    Chain,
    can_vectorise_rows,
    schedule_row_tiles,
    steps_of_rows,
)
from tensorad.codegen.schedule.emit import strips
from tensorad.codegen.schedule.plan import WRITTEN_NODES
from tensorad.ir.expr import (
    Axis,
    Expr,
    Param,
    add,
    axis,
    floordiv,
    int_const,
    mul,
    param,
    sub,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import (
    free_leaves,
    op_expressions,
    op_inputs,
    postorder,
    substitute,
    substitute_all,
)

LANES: Final = 64
"""Vectorised rows at a time: whole lines of memory, several registers."""
ROWS: Final = 4
"""Rows side by side: a step comes back after about as many cycles, and more streams of memory are
harder to foresee."""
STATES: Final = 16
"""Scalars that the rows side by side may carry together."""

Copy = dict[Expr, Expr]
"""What stands for the row and its scalars."""


def schedule_scan(op: Scan, live: tuple[Tensor, ...], choices: Choices) -> Kernel:
    """Lanes along the last axis unless the scan runs there; rows on several threads."""
    parts = scan_parts(op, live)
    if op.cell is not None:
        begin, *steps = steps_of_rows(parts)
        loops = (*serial(op.axes, (begin,)), *steps)
        return Kernel(op.name, loops, parts.writes, tuple(op_inputs(op)))
    points = extent_product([*op.axes, *op.along])
    others = list(op.axes)
    if others and _rows_are_vectorisable(op, parts) and may_vectorise(choices, op.axes[-1]):
        row = others.pop()
        if others or not wants_threads(points, choices.parallel):
            body: tuple[Stmt, ...] = (For(row, steps_of_rows(parts), "vector", LANES),)
            loops = free_loops(others, points, body, choices.parallel)
        else:
            outer, lane = strips(row, STRIP)
            inner = scan_parts(over_rows(op, (lane,)), live)
            body = (For(lane, steps_of_rows(inner), "vector", LANES),)
            loops = (For(outer, body, "parallel"),)
    else:
        found = schedule_row_tiles(Chain(((op, live),), ()), choices)
        if found is not None:
            return found
        rows = Rows((steps_of_rows(parts),), rows_together(op, parts, choices))
        if takes_blocks(op, live, choices):
            left = over_rows(op, (*op.axes[:-1], rest_rows(op)))
            rows = replace(rows, bodies=(steps_of_rows(scan_parts(left, live)),))
            rest = tiled(left.axes[-1:], rows, 0, choices)
            loops = block_loops(op, live, rest, points, choices)
        else:
            loops = tiled(op.axes, rows, points, choices)
    return Kernel(op.name, loops, live, tuple(op_inputs(op)))


def schedule_chain(chain: Chain, choices: Choices) -> Kernel | None:
    """Scans over the same rows in one loop, what only they read in scratch; None if vectorised."""
    found = schedule_row_tiles(chain, choices)
    if found is not None:
        return found
    axes = chain.scans[0][0].axes
    bodies: list[tuple[Stmt, ...]] = []
    together, points = ROWS, 0.0
    for op, live in chain.scans:
        op = over_rows(op, axes)
        parts = scan_parts(op, live)
        if _rows_are_vectorisable(op, parts):
            return None
        bodies.append(steps_of_rows(parts))
        together = min(together, rows_together(op, parts, choices))
        points += extent_product([*axes, *op.along])
    homes = {t: _home(t, len(axes), together) for t in chain.inside}
    rows = Rows(tuple(bodies), together, homes)
    every = [t for _, live in chain.scans for t in live]
    made = tuple([t for t in every if t not in homes])
    read = dict.fromkeys([t for op, _ in chain.scans for t in op_inputs(op)])
    name, loops = chain.scans[-1][0].name, tiled(axes, rows, points, choices)
    left = tuple([t for t in read if t not in dict.fromkeys(every)])
    return Kernel(name, loops, made, left, tuple(homes.values()))


def _home(t: Tensor, rows: int, together: int) -> Tensor:
    """The scratch of some rows of a tensor."""
    shape = (together, *t.shape[rows:])
    return buffer(t.name, shape, t.dtype)


def over_rows(op: Scan, axes: tuple[Axis, ...]) -> Scan:
    """The scan with its rows along other axes of equal extents."""
    place: Copy = dict(zip(op.axes, axes, strict=True))
    mapping: Copy = dict(place)
    along: list[Axis] = []
    for a in op.along:
        bounds = substitute_all((a.lower, a.upper, a.step), mapping)
        along.append(axis(a.name, *bounds))
        mapping[a] = along[-1]
    return replace(
        op,
        axes=axes,
        along=tuple(along),
        sources=substitute_all(op.sources, mapping),
        start=substitute_all(op.start, mapping),
        indices=substitute_all(op.indices, mapping),
        condition=substitute(op.condition, mapping),
    )


def _rows_are_vectorisable(op: Scan, parts: ScanParts) -> bool:
    """Whether the last row axis is the fastest in memory, and its lanes take the same steps."""
    lane = op.axes[-1]
    if not op.indices or op.indices[-1] is not lane:
        return False
    return can_vectorise_rows(op, parts, lane)


def rows_together(op: Scan, parts: ScanParts, choices: Choices) -> int:
    """How many rows may be walked side by side: as many as take the very same steps."""
    if not op.axes or occurs(REDUCE, *op_expressions(op)):
        return 1
    row = op.axes[-1]
    bounds = [b for a in (*parts.steps, row) for b in (a.lower, a.upper, a.step)]
    used = free_leaves(parts.outer, *bounds)
    if row in used or any(isinstance(e, Axis) for e in free_leaves(row.lower, row.upper)):
        return 1
    wanted = ROWS if choices.tile is None else choices.tile[0]
    nodes = len(postorder(*op_expressions(op), *op.combiner.results))
    most = min(STATES // op.combiner.arity, WRITTEN_NODES // nodes, row.extent or wanted)
    return max(1, min(wanted, most))


@dataclass(frozen=True, eq=False)
class Rows:
    """What is done in each row, in turn, and how many rows stand side by side."""

    bodies: tuple[tuple[Stmt, ...], ...]
    together: int
    homes: Mapping[Tensor, Tensor] = field(default_factory=dict)
    """Scratch for tensors of which only these rows are needed."""


def tiled(axes: Sequence[Axis], rows: Rows, points: float, choices: Choices) -> tuple[Stmt, ...]:
    """The loops over rows, the last axis in tiles; what is left of it row by row."""
    if not axes:
        return tuple([s for b in rows.bodies for s in b])
    *outer, row = axes
    alone = not outer and wants_threads(points, choices.parallel)
    kind: LoopKind = "parallel" if alone else "serial"
    size = int_const(rows.together)
    middle = add(row.lower, mul(floordiv(sub(row.upper, row.lower), size), size))
    tile, rest = axis(row.name, row.lower, middle, rows.together), axis(row.name, middle, row.upper)
    loops: tuple[Stmt, ...] = ()
    if rows.together == 1:
        loops = (For(row, _at(rows, axes, [row]), kind),)
    else:
        if tile.extent != 0:
            where = [add(tile, int_const(n)) for n in range(rows.together)]
            loops = (For(tile, _at(rows, axes, where), kind),)
        if rest.extent != 0:
            loops += (For(rest, _at(rows, axes, [rest])),)
    return free_loops(outer, points, loops, choices.parallel)


def _at(rows: Rows, axes: Sequence[Axis], where: Sequence[Expr]) -> tuple[Stmt, ...]:
    """What is done in the rows at some values of the last axis."""
    made: list[Stmt] = []
    for body in rows.bodies:
        states = [p for s in body if isinstance(s, Assign) for p in s.targets]
        copies: list[Copy] = []
        for place in where:
            copies.append({axes[-1]: place, **{p: param(p.name, p.dtype) for p in states}})
        made.extend(side_by_side(body, copies))
    places = {}
    for t, home in rows.homes.items():
        kept = [(d, None) for d in range(len(axes), len(t.shape))]
        places[t] = Place(home, ((len(axes) - 1, where[0]), *kept))
    return moved(tuple(made), places)


def side_by_side(body: Sequence[Stmt], copies: Sequence[Copy]) -> Block:
    """Every statement for all copies in turn, inside of the loops they share."""

    def repeated(block: Block, around: Around) -> list[Stmt]:
        result: list[Stmt] = []
        for s in block:
            if isinstance(s, For) or any(isinstance(x, For) for x in inside(s)):
                result.append(around.inside(s))  # no row decides it
            else:
                result.extend([made for c in copies for made in copied(s, c)])
        return result

    return rewrite_blocks(body, repeated)


def copied(s: Stmt, copy: Copy) -> tuple[Stmt, ...]:
    """A statement without loops for one copy."""

    def scalars(c: Stmt) -> Stmt | None:
        if not isinstance(c, (Assign, Fold)):
            return None
        found = [copy.get(p, p) for p in c.targets]
        return replace(c, targets=tuple([p for p in found if isinstance(p, Param)]))

    return rewrite((s,), scalars, substitutor(copy))
