"""Row tiles that threads share, all lanes inside: packed once, or read where they lie."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import digits, points
from tensorad.codegen.contraction.emit.emitter import Emitter
from tensorad.codegen.contraction.operand_layout import in_place
from tensorad.codegen.contraction.register_tiles import first_row, row_tiles
from tensorad.codegen.loops.ir import For, Stmt
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.target import machine
from tensorad.ir.expr import (
    ZERO,
    Const,
    Expr,
    Read,
    add,
    axis,
    floordiv,
    int_const,
    mod,
    mul,
    sub,
)

FEW: Final = 16
"""The part of the rows that may read the lanes in place: it is slower."""


def shared_rows(e: Emitter) -> tuple[Stmt, ...]:
    """Row tiles shared by threads, all panels inside.

    The last rows come by themselves, without packed lanes, where these would fill a cache: until
    then they may lie in the memory of those rows (`alias_temporaries`).
    """
    b, count = e.b, points(e.b.rows.axes)
    if b.mode != "panel":
        return _tiles(e, ZERO, count)
    body = e.pack({}, ZERO, b.flat, ZERO)
    last = _rows_beneath(b, e.nest)
    if not last or not isinstance(count, Const):
        return (*body, *_tiles(e, ZERO, count))
    main = sub(count, int_const(last))
    beside = Emitter(replace(b, mode="place", sliver=0, strip=0), e.nest)
    beside.rows_value, beside.lanes_value = e.rows_value, e.lanes_value
    return (*body, *_tiles(e, ZERO, main), *_tiles(beside, main, int_const(last)))


def _rows_beneath(b: Blocking, nest: Nest) -> int:
    """Rows of results, whole tiles, that take as much memory as the packed lanes; 0 where these
    stay in the second cache or the rows would be many."""
    count = points(b.rows.axes)
    readable = isinstance(b.lanes.value, Read) and in_place(b.lanes, b.group)
    if not isinstance(count, Const) or not readable or b.outer or len(nest.tensors) > 1:
        return 0
    slivers = ceil(b.flat / b.sliver) * b.sliver if b.sliver else b.flat
    size_bytes = slivers * b.depth * b.lanes.value.dtype.size_bytes
    if size_bytes <= machine.current().l2:
        return 0
    row_bytes = b.flat * nest.tensors[0].dtype.size_bytes
    most = min(t.rows for t in b.tiles(b.flat))
    rows = ceil(ceil((size_bytes + ALIGNMENT) / row_bytes) / most) * most
    return rows if rows * FEW <= int(count.value) else 0


def _tiles(e: Emitter, first: Expr, rows: Expr) -> tuple[Stmt, ...]:
    """Row tiles of so many rows from the first one on."""
    b = e.b
    tiles = b.tiles(b.flat)
    most = min(t.rows for t in tiles)
    copies = points(b.outer)
    body: list[Stmt] = []
    for part in row_tiles(rows, most, b.alike, b.spare, b.registers):
        if b.strip:
            body.extend(e.by_reduce_strips(tiles, {}, ZERO, part, rows))
            continue
        start, stop, step = part
        count = floordiv(sub(stop, start), int_const(step))
        q = axis("q", 0, mul(count, copies))
        outer = digits(floordiv(q, count), b.outer) if b.outer else {}
        number = mod(q, count) if b.outer else q
        row = add(first_row(add(mul(number, int_const(step)), start), part, rows), first)
        body.append(For(q, e.one_row(tiles, outer, ZERO, row, step, None), "parallel"))
    return tuple(body)
