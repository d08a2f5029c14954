"""Vectorises scans over rows, a few elements of every row at a time.

Rows whose elements lie together are read and stored in pieces, one row per lane: blocks that are
transposed in registers on the way in and out. A step of cheap operations takes one instruction for
as many rows as a register has lanes; every row computes what it computed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.codegen.cost.memory_model import MAX_STRIDE
from tensorad.codegen.directives import Choices, may_vectorise
from tensorad.codegen.loops.ir import Assign, Fold, For, LoopKind, Stmt, Store
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.nest.access import FAR, access, strides
from tensorad.codegen.scan.parts import ScanParts, scan_parts
from tensorad.codegen.scan.scatter import free_loops, wants_threads
from tensorad.codegen.scan.vector_rows import can_vectorise_rows
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Axis,
    Const,
    Expr,
    Param,
    Read,
    add,
    axis,
    floordiv,
    int_const,
    mul,
    param,
    sub,
)
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import free_leaves, op_expressions, postorder, reads

ROWS: Final = 8
"""Rows in a register. Streamed blocks of twice as many take longer to be stored than processors
look ahead, and then memory rests while the next rows are computed."""
PIECE: Final = 4
"""Elements of a row that are read and stored at a time."""
CROWDED: Final = 4096
"""Bytes between rows, or a multiple, from which they all share the same places of a first cache."""
SIZES: Final = (4, 8)
"""Bytes of an element for which pieces are neither too short to be loaded nor too long."""


def takes_blocks(op: Scan, live: tuple[Tensor, ...], choices: Choices) -> bool:
    """Whether the rows of a scan may be vectorised so, their elements lying together."""
    parts = scan_parts(op, live)
    if not op.axes or len(parts.steps) != 1 or choices.tile is not None:
        return False
    row, along = op.axes[-1], parts.steps[0]
    enough = row.extent is None or row.extent >= ROWS
    if not may_vectorise(choices, row) or not enough or along.step is not ONE:
        return False
    if not along.extent or not isinstance(along.lower, Const):
        return False
    every = postorder(*op.sources, *op.start, *op.combiner.lhs, *op.combiner.results)
    if any(e.dtype.size_bytes not in SIZES for e in every if isinstance(e, (Read, Param))):
        return False
    if parts.condition is not TRUE or parts.outer is not TRUE or row.step is not ONE:
        return False
    if occurs(REDUCE, *op_expressions(op)) or not can_vectorise_rows(op, parts, row):
        return False
    if any(isinstance(e, Axis) for e in free_leaves(row.lower, row.upper)):
        return False
    return _in_rows(parts, row, along)


def _in_rows(parts: ScanParts, row: Axis, along: Axis) -> bool:
    """Whether every step reads and stores the next element of each row; nothing by data."""
    found: list[tuple[Tensor, tuple[Expr, ...]]] = []
    for s in parts.step:
        if not isinstance(s, (Fold, Store)):
            return False
        if isinstance(s, Store):
            found += [(t, s.indices) for t in s.tensors]
        found += [(e.tensor, e.indices) for e in reads(*s.values)]
    moving = [(t, i) for t, i in found if along in free_leaves(*i)]
    stored = [t for s in parts.step if isinstance(s, Store) for t in s.tensors]
    if not stored or any(occurs(READ, *i) for _, i in found):
        return False
    for t, indices in moving:
        x = access(t, indices)
        apart = x.stride(row)
        if x.stride(along) not in (1, -1) or apart is None or abs(apart) <= MAX_STRIDE:
            return False
        if FAR in strides(t.shape) or apart * t.dtype.size_bytes % CROWDED == 0:
            return False
    return True


def block_loops(
    op: Scan, live: tuple[Tensor, ...], rest: tuple[Stmt, ...], points: float, choices: Choices
) -> tuple[Stmt, ...]:
    """The loops over whole registers of rows, then those over the rows that are left.

    Args:
        rest: what is done with the rows that are left, over `rest_rows`.
    """
    *outer, row = op.axes
    tile = axis(f"{row.name}o", 0, floordiv(sub(row.upper, row.lower), int_const(ROWS)))
    lane = axis(row.name, 0, ROWS)
    place = add(row.lower, add(mul(int_const(ROWS), tile), lane))
    body = placed(_row(op, live), {row: place})
    alone = not outer and wants_threads(points, choices.parallel)
    kind: LoopKind = "parallel" if alone else "serial"
    loops: tuple[Stmt, ...] = (For(tile, (For(lane, body, "vector", ROWS, lanes=ROWS),), kind),)
    note(
        Decision(
            live, f"{ROWS} rows in lanes", "blocks of their elements are transposed in registers"
        )
    )
    return free_loops(outer, points, (*loops, *rest), choices.parallel)


def rest_rows(op: Scan) -> Axis:
    """The last rows, which fill no register."""
    row, width = op.axes[-1], int_const(ROWS)
    whole = mul(floordiv(sub(row.upper, row.lower), width), width)
    return axis(row.name, add(row.lower, whole), row.upper)


def _row(op: Scan, live: tuple[Tensor, ...]) -> tuple[Stmt, ...]:
    """A row from its start to its end, some steps at a time."""
    parts = scan_parts(op, live)
    (along,) = parts.steps
    whole = (along.extent or 0) // PIECE
    piece = axis(f"{along.name}o", 0, whole)
    first = add(along.lower, mul(int_const(PIECE), piece))
    blocks = For(piece, _steps(parts, along, [add(first, int_const(c)) for c in range(PIECE)]))
    left = [add(along.lower, int_const(n)) for n in range(whole * PIECE, along.extent or 0)]
    return (parts.begin, *[blocks][: bool(whole)], *_steps(parts, along, left), *parts.end)


def _steps(parts: ScanParts, along: Axis, where: Sequence[Expr]) -> tuple[Stmt, ...]:
    """Some steps one after the other, what they store together at the end."""
    made: list[Stmt] = []
    stores: dict[Tensor, list[Store]] = {}
    for place in where:
        for s in placed(parts.step, {along: place}):
            if not isinstance(s, Store):
                made.append(s)
                continue
            for t, value in zip(s.tensors, s.values, strict=True):
                kept = param(t.name, t.dtype)
                made.append(Assign((kept,), (value,)))
                stores.setdefault(t, []).append(Store((t,), s.indices, (kept,)))
    return (*made, *[s for same in stores.values() for s in same])
