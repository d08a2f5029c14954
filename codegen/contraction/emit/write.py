"""Writes a contraction as it was planned; here, too, the lanes that have gaps between rows."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import Mapping, digits, points
from tensorad.codegen.contraction.emit.emitter import Emitter, Sums
from tensorad.codegen.contraction.emit.pack import Emitted, PaddedWindow, fill
from tensorad.codegen.contraction.emit.prefetch_gapped import (
    panel_at,
    panel_prefetches,
    result_prefetches,
)
from tensorad.codegen.contraction.emit.shared_rows import shared_rows
from tensorad.codegen.contraction.gapped_lanes import flat_read, shared_columns, stretched
from tensorad.codegen.contraction.recognise import size
from tensorad.codegen.contraction.register_tiles import RowTiles, first_row, row_tiles
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import For, Stmt, Store
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Expr,
    Read,
    add,
    axis,
    floordiv,
    int_const,
    mod,
    mul,
    param,
    read,
    sub,
)

PLACE: Final = param("place", INT64)
"""Of a lane in the last dimensions of the operand."""


def emit_contraction(b: Blocking, nest: Nest) -> Emitted:
    """The loops of a contraction that store what `nest` says: copies first, then the tiles."""
    emitter = _InGaps(b, nest) if b.mode == "gaps" else Emitter(b, nest)
    before = emitter.copies()
    body = shared_rows(emitter) if b.by_rows else emitter.by_panels()
    if b.inside:
        return Emitted((*before, *body), (), (*emitter.made, *emitter.scratch), emitter.before)
    return Emitted((*before, *body), tuple(emitter.made), tuple(emitter.scratch))


class _InGaps(Emitter):
    """Sums of a few rows over all lanes of a panel go to scratch, and from there to the result."""

    def __init__(self, b: Blocking, nest: Nest) -> None:
        super().__init__(b, nest)
        lanes = b.gapped(b.panel)
        rows = max(step for *_, step in self.row_tiles())
        self.found = buffer("sums", (rows, lanes), self.acc.dtype)
        self.is_dense = lanes == b.panel
        """Whether zeros of a window fill no lanes at all."""
        if not self.is_dense:
            self.scratch.append(self.found)
        self.registers = b.registers
        self.here: Mapping = {}
        """Where the panel starts."""

    def row_tiles(self) -> list[RowTiles]:
        """The rows that are taken together; all lanes of a panel before the next ones."""
        b = self.b
        return row_tiles(points(b.rows.axes), b.most[b.registers], b.alike, b.spare, b.registers)

    def block(self, outer: Mapping, base: Expr, lanes: int, number: Expr) -> tuple[Stmt, ...]:
        """One panel: its window, then for each tile of rows the sums and the results."""
        b = self.b
        inner_lanes = prod(size(a) for a in b.group[1:])
        start, steps = floordiv(base, int_const(inner_lanes)), lanes // inner_lanes
        self.here = panel_at(outer, b.group, start)
        body = list(self.window(outer, start, steps))
        for rows in self.row_tiles():
            first, stop, step = rows
            row: Expr = first
            if sub(stop, first) is not int_const(step):
                row = axis("r", first, stop, step)
            place = first_row(row, rows, points(b.rows.axes))
            inner: list[Stmt] = []
            for t in b.tiles(lanes):
                self.registers = t.registers
                s, part = self.covered(t)
                found = self.tile(part, outer, base, place, step, None)
                inner.extend([For(s, found)] if isinstance(s, Axis) else found)
            if not self.is_dense:
                inner.extend(self.results(outer, start, steps, place, step))
            body.extend([For(row, tuple(inner))] if isinstance(row, Axis) else inner)
        return tuple(body)

    def window(self, outer: Mapping, start: Expr, steps: int) -> tuple[Stmt, ...]:
        """Decide what lanes read: the operand, or a window of it that is filled first."""
        b, group = self.b, self.b.group
        value = b.lanes.value
        assert isinstance(value, Read)
        if not b.lanes.padded:
            place = add(PLACE, mul(start, int_const(b.pitch[0])))
            self.lanes_value = flat_read(value, group, place)
            return ()
        first = axis(group[0].name, 0, steps)
        moved = substitutor({**outer, group[0]: add(start, first)})(value)
        assert isinstance(moved, Read)
        local: dict[Expr, Axis] = {a: a for a in (first, *group[1:], *self.c.reduced)}
        shared = shared_columns(b.lanes, group, self.c)
        lanes = steps * prod(size(a) for a in group[1:])
        beyond = b.gapped(lanes) - stretched(group, b.pitch, lanes)
        beyond -= b.pitch[-2] - shared if shared else 0  # zeros after the last row
        longer = (ceil(max(0, beyond) / b.pitch[0]), *[0 for _ in group[1:]])
        window = PaddedWindow(moved, local, self.ranges, shared, longer)
        self.scratch.append(window.tensor)
        self.lanes_value = flat_read(window.read(), (first, *group[1:]), PLACE)
        return window.fill()

    def folds(self, sums: Sums, lane: Expr, number: Expr, first_row: Expr) -> tuple[Stmt, ...]:
        """The reduce loops of a tile; the outermost prefetches what is stored and read later."""
        found = super().folds(sums, lane, number, first_row)
        (loop, *rest) = found
        if not isinstance(loop, For) or loop.axis.extent != size(self.c.reduced[0]):
            return found
        b, where = self.b, (loop.axis, first_row, len(sums.accs), lane, self.registers)
        prefetches = result_prefetches(b, self.nest, self.here, *where)
        if self.at is not None:
            panels = int_const(ceil(b.flat / b.panel))
            outer = digits(floordiv(add(self.at, ONE), panels), b.outer)
            steps = b.panel // prod(size(a) for a in b.group[1:])
            start = mul(mod(add(self.at, ONE), panels), int_const(steps))
            prefetches += panel_prefetches(b, panel_at(outer, b.group, start), *where)
        return (replace(loop, body=(*prefetches, *loop.body)), *rest)

    def lane_places(self, base: Expr, lane: Expr) -> Mapping:
        """Lanes are places of what is read; where there are no gaps, of the result, too."""
        found: Mapping = {PLACE: lane}
        return found | super().lane_places(base, lane) if self.is_dense else found

    def stores(self, sums: Sums, slot: Expr, lane: Expr, number: Expr | None) -> tuple[Stmt, ...]:
        """All sums, those of no use too."""
        if self.is_dense:
            return super().stores(sums, slot, lane, number)
        rows = enumerate(sums.accs)
        return tuple([Store((self.found,), (int_const(n), lane), (a,)) for n, a in rows])

    def results(
        self, outer: Mapping, start: Expr, steps: int, row: Expr, rows: int
    ) -> tuple[Stmt, ...]:
        """What is stored for the sums of use."""
        b, nest = self.b, self.nest
        n = axis("n", 0, rows)
        first = axis(b.group[0].name, 0, steps)
        others = [axis(a.name, 0, size(a)) for a in b.group[1:]]
        place: Expr = ZERO
        for a, pitch in zip((first, *others), b.pitch, strict=True):
            place = add(place, mul(a, int_const(pitch)))
        mapping = {**outer, **digits(add(row, n), b.rows.axes), b.group[0]: add(start, first)}
        mapping.update(zip(b.group[1:], others, strict=True))
        image = substitutor({**mapping, self.acc: read(self.found, (n, place))})
        where = tuple([image(i) for i in nest.indices])
        values = tuple([image(v) for v in nest.values])
        axes = (n, first, *others)
        return fill(Nest(axes, (), nest.tensors, where, values), threads=False)
