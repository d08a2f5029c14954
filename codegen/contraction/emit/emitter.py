"""A contraction and its blocking to loops: packing, register tiles, and what is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from tensorad.codegen.contraction.blocking import Blocking, store_stride
from tensorad.codegen.contraction.digits import Mapping, digits, dim, merged, points, position
from tensorad.codegen.contraction.emit import prefetch
from tensorad.codegen.contraction.emit.pack import PaddedWindow, Relaid, fill
from tensorad.codegen.contraction.emit.panel import Panel
from tensorad.codegen.contraction.emit.reduce_strips import in_strip, strips_of_tiles
from tensorad.codegen.contraction.emit.unroll import Prefetches, Step, are_load_bound, reduce_loops
from tensorad.codegen.contraction.reduce_blocks import blocks, in_block
from tensorad.codegen.contraction.register_tiles import (
    RowTiles,
    Tile,
    first_row,
    lanes_of_tile,
    moved_back,
    row_tiles,
)
from tensorad.codegen.loops.index_ranges import Ranges, substitutor
from tensorad.codegen.loops.ir import Assign, Fold, For, If, LoopKind, Prefetch, Stmt, Store
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.target import machine
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Expr,
    Param,
    Read,
    add,
    axis,
    call,
    floordiv,
    int_const,
    mod,
    mul,
    param,
    read,
    select,
    sub,
)
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, substitute_all


class Sums(NamedTuple):
    """The sums of a tile, a scalar a row; what the axes of rows are in each, and all others."""

    accs: Sequence[Param]
    places: Sequence[Mapping]
    around: Mapping


class Emitter:
    """Writes the loops of one contraction."""

    def __init__(self, b: Blocking, nest: Nest) -> None:
        self.b = b
        self.nest = nest
        self.c = b.contraction
        self.made: list[Tensor] = []
        self.scratch: list[Tensor] = []
        self.rows_value = b.rows.value
        self.lanes_value = b.lanes.value
        self.panel: Panel | None = None
        self.before: tuple[Stmt, ...] = ()
        self.ranges = Ranges()
        """Of the loops around the panels."""
        fold = self.c.fold
        self.acc = fold.accumulators[0]
        self.direct = len(nest.tensors) == 1 and nest.values[0] is self.acc and store_stride(b) == 1
        """Whether sums over some blocks may wait in the result itself."""
        self.sums: Tensor | None = None
        self.next_product: prefetch.ProductPrefetch | None = None
        self.at: Expr | None = None
        """The number of the panel, if there are several."""
        self.place: Expr = ZERO
        """Of the panel among those that take a block together."""
        self.sliver: Expr = ZERO
        """Of the panel, that a tile reads."""
        self.first: Expr = ZERO
        """The lane that a group of a covering tile begins with."""
        self.slot: Expr | None = None
        """Where the sums of a tile's first row wait, if not at that row."""
        if b.strip or not (b.whole or self.direct):
            count = b.strip_rows or dim(points(b.rows.axes))
            self.sums = buffer("sums", (b.together, count, b.panel), self.acc.dtype)
            self.scratch.append(self.sums)

    # Copies made before

    def copies(self) -> tuple[Stmt, ...]:
        """Operands that are copied as a whole."""
        body: tuple[Stmt, ...] = ()
        b, c = self.b, self.c
        if b.mode == "relayout" and not isinstance(self.lanes_value, Read):
            used = free_leaves(self.lanes_value)
            axes = tuple([a for a in (*b.outer, *c.reduced, *b.group) if a in used])
            body += self.copy_values(axes, "lanes")
            self.lanes_value = read(self.made[-1], axes)
        elif b.mode == "relayout" and not b.by_blocks:
            assert isinstance(self.lanes_value, Read)
            axes = (*b.lanes.axes, *c.batch, *c.reduced)
            relaid = Relaid(self.lanes_value, axes, b.group)
            self.lanes_value = relaid.read()
            self.made.append(relaid.tensor)
            body += relaid.fill()
        if b.rows_mode == "relayout":
            assert isinstance(self.rows_value, Read)
            relaid = Relaid(self.rows_value, (*b.rows.axes, *c.batch, *c.reduced))
            self.rows_value = relaid.read()
            self.made.append(relaid.tensor)
            body += relaid.fill()
        elif b.rows_mode == "panel":
            used = free_leaves(self.rows_value)
            axes = tuple([a for a in (*c.batch, *b.rows.axes, *c.reduced) if a in used])
            body += self.copy_values(axes, "rows")
            self.rows_value = read(self.made[-1], axes)
        return body

    def copy_values(self, axes: Sequence[Axis], name: str) -> tuple[Stmt, ...]:
        """All values of an operand, in a new tensor over its axes."""
        value = self.rows_value if name == "rows" else self.lanes_value
        fresh: Mapping = {a: axis(a.name, 0, a.upper) for a in axes}
        made = buffer(name, [dim(a.upper) for a in axes], value.dtype)
        self.made.append(made)
        where = tuple([a for a in fresh.values() if isinstance(a, Axis)])
        values = (substitutor(fresh)(value),)
        return fill(Nest(where, (), (made,), where, values), threads=not self.b.inside)

    # Loops around

    def by_panels(self) -> tuple[Stmt, ...]:
        """Batches and panels shared by threads, all rows inside."""
        b = self.b
        panels = ceil(b.flat / b.panel)
        count = mul(int_const(panels), points(b.outer))
        kind: LoopKind = "parallel" if b.parallel else "serial"
        if b.together > 1:
            return self.together(panels, kind)
        q = axis("q", 0, count)
        self.ranges.enter(q)
        if count is ONE:
            if b.inside and b.whole and b.mode == "panel":
                self.before = self.pack(digits(ZERO, b.outer), ZERO, b.flat, ZERO)
            return self.in_blocks(lambda k: self.one_panel(digits(ZERO, b.outer), ZERO, k))
        self.at = q
        if panels == 1 and b.mode != "gaps":
            results = [read(t, self.nest.indices) for t in self.nest.tensors]
            self.next_product = prefetch.product_prefetch(
                b, (self.rows_value, self.lanes_value), results, add(q, ONE)
            )
        outer, number = digits(floordiv(q, int_const(panels)), b.outer), mod(q, int_const(panels))
        return (For(q, self.in_blocks(lambda k: self.one_panel(outer, number, k)), kind),)

    def together(self, panels: int, kind: LoopKind) -> tuple[Stmt, ...]:
        """Some panels of a product take each block, one after the other, before the next block."""
        b = self.b
        every, together = int_const(b.beside), int_const(b.together)
        groups = int_const(ceil(b.beside / b.together))
        q = axis("q", 0, mul(points(self.c.batch), groups))
        self.ranges.enter(q)
        product = digits(floordiv(q, groups), self.c.batch)
        first = mul(mod(q, groups), together)
        p = axis("p", 0, call("minimum", together, sub(every, first)))
        self.place = p
        at, width = add(first, p), int_const(panels)
        outer = {**product, **digits(floordiv(at, width), b.others)}

        def block(k: Expr) -> tuple[Stmt, ...]:
            copy = self.block_copy(product, k) if b.by_blocks else ()
            return (*copy, For(p, self.one_panel(outer, mod(at, width), k)))

        body = self.in_blocks(block)
        return (For(q, body, kind),)

    def block_copy(self, product: Mapping, number: Expr) -> tuple[Stmt, ...]:
        """What all panels read of the lanes in a block, copied with the lanes innermost."""
        b = self.b
        mapping, (first, *inner) = in_block(self.b, number)
        moved = substitutor({**mapping, **product})(self.lanes_value)
        assert isinstance(moved, Read)
        split, *others = self.c.reduced[b.split :]
        whole = axis(split.name, 0, b.block)
        local: dict[Expr, Axis] = {first: whole, **{a: a for a in b.lanes.axes}}
        local.update(zip(inner, others, strict=True))
        window = PaddedWindow(moved, local, self.ranges, lanes=b.group)
        self.scratch.append(window.tensor)
        self.lanes_value = substitutor({whole: split})(window.read())
        return window.fill()

    def in_blocks(self, body: Callable[[Expr], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """The body for all blocks of the reduce axes."""
        if self.b.whole:
            return body(ZERO)
        k = axis("kb", 0, blocks(self.b))
        self.ranges.enter(k)
        return (For(k, body(k)),)

    def one_panel(self, outer: Mapping, number: Expr, block: Expr) -> tuple[Stmt, ...]:
        """One block of a panel; the last panel may be narrower."""
        b = self.b
        whole, left = divmod(b.flat, b.panel)
        start = mul(number, int_const(b.panel))
        if b.covering:
            return self.block(outer, moved_back(start, b.panel, int_const(b.flat)), b.panel, block)
        body = tail = self.block(outer, int_const(whole * b.panel), left, block) if left else ()
        if whole:
            body = self.block(outer, start, b.panel, block)
        return (If(call("lt", number, int_const(whole)), body, tail),) if whole and left else body

    def block(self, outer: Mapping, base: Expr, lanes: int, number: Expr) -> tuple[Stmt, ...]:
        """One block over one panel: packing, then the tiles, rows outside of lanes."""
        b = self.b
        body: list[Stmt] = []
        if b.mode == "panel" and not self.before:
            body.extend(self.pack(outer, base, lanes, number))
        last = None if b.whole else number
        tiles = b.tiles(lanes)
        for group in [tiles] if b.sliver else [[t] for t in tiles]:
            most = min(t.rows for t in group)
            wide = max(t.registers for t in group)
            for rows in row_tiles(points(b.rows.axes), most, b.alike, b.spare, wide):
                body.extend(self.across(group, outer, base, rows, last))
        return tuple(body)

    def across(
        self, tiles: Sequence[Tile], outer: Mapping, base: Expr, rows: RowTiles, last: Expr | None
    ) -> tuple[Stmt, ...]:
        """Tiles of equal height: each meets all lanes before the next one does."""
        start, stop, step = rows
        if self.b.strip:
            return self.by_reduce_strips(tiles, outer, base, rows, points(self.b.rows.axes))
        row = start
        if sub(stop, start) is not int_const(step):
            row = axis("r", start, stop, step)
        first = first_row(row, rows, points(self.b.rows.axes))
        inner = self.one_row(tiles, outer, base, first, step, last)
        kind: LoopKind = "parallel" if self.b.rows_awake else "serial"
        return (For(row, inner, kind),) if isinstance(row, Axis) else inner

    def by_reduce_strips(
        self, tiles: Sequence[Tile], outer: Mapping, base: Expr, rows: RowTiles, last: Expr
    ) -> tuple[Stmt, ...]:
        """The same, each strip of the sum for several tiles, no row beyond `last`."""

        def one(row: Expr, slot: Expr, strip: Expr) -> tuple[Stmt, ...]:
            self.slot = slot
            return self.one_row(tiles, outer, base, row, rows[2], strip)

        return strips_of_tiles(self.b, rows, last, one)

    def one_row(
        self,
        tiles: Sequence[Tile],
        outer: Mapping,
        base: Expr,
        row: Expr,
        rows: int,
        last: Expr | None,
    ) -> tuple[Stmt, ...]:
        """All lanes of `rows` rows."""
        body: list[Stmt] = []
        for t in tiles:
            s, part = self.within(t) if self.b.sliver else self.covered(t)
            found = self.tile(part, outer, base, row, rows, last)
            body.extend([For(s, found)] if isinstance(s, Axis) else found)
        return tuple(body)

    def within(self, t: Tile) -> tuple[Expr, Tile]:
        """The slivers of a tile, an axis if there are several, and the tile in each of them."""
        b = self.b
        first, number = t.start // b.sliver, (t.stop - t.start) // b.sliver
        place = first * b.sliver
        self.sliver = int_const(first) if number < 2 else axis("s", first, first + number)
        width = b.sliver if number else t.stop - t.start
        return self.sliver, replace(t, start=t.start - place, stop=t.start - place + width)

    def covered(self, t: Tile) -> tuple[Expr, Tile]:
        """The groups of a covering tile, and the tile in each of them."""
        self.first = ZERO
        if not t.covering:
            return ZERO, t
        unit = t.registers * self.b.width
        s = axis("s", 0, ceil(t.stop / unit))
        self.first = moved_back(mul(s, int_const(unit)), unit, int_const(t.stop))
        return s, replace(t, stop=unit)

    def pack(self, outer: Mapping, base: Expr, lanes: int, number: Expr) -> tuple[Stmt, ...]:
        """The lanes of a block from `base` on, brought into a panel."""
        mapping, local = in_block(self.b, number)
        if self.panel is None:
            held = self.made if self.b.for_all else self.scratch
            self.panel = Panel(self.b, self.lanes_value, held)
        return self.panel.fill(mapping | outer, local, base, lanes, self.ranges)

    # Register tiles

    def tile(
        self, t: Tile, outer: Mapping, base: Expr, row: Expr, rows: int, number: Expr | None
    ) -> tuple[Stmt, ...]:
        """`rows` rows from `row` on over the lanes of a tile."""
        b = self.b
        loop = axis("l", t.start, t.stop)
        lane = add(self.first, loop)
        at = add(mul(self.sliver, int_const(b.sliver)), lane)
        around = {**outer, **self.lane_places(base, at)}
        accs = [param(f"acc{n}", self.acc.dtype) for n in range(rows)]
        places = [digits(add(row, int_const(n)), b.rows.axes) for n in range(rows)]
        slot = row if self.slot is None else self.slot
        waiting = [self.waiting({**around, **p}, add(slot, int_const(n)), at)
                   for n, p in enumerate(places)]  # fmt: skip
        statements: list[Stmt] = []
        identity = self.c.fold.combiner.identity[0]
        for a, w in zip(accs, waiting, strict=True):
            start: Expr = identity
            if number is not None:
                start = select(call("eq", number, ZERO), identity, w)
            statements.append(Assign((a,), (start,)))
        block = ZERO if number is None else number
        sums = Sums(accs, places, around)
        statements.extend(self.folds(sums, lane, block, row))
        statements.extend(self.stores(sums, slot, at, number))
        return (For(loop, tuple(statements), "vector", lanes_of_tile(t, b.width)),)

    def lane_places(self, base: Expr, lane: Expr) -> Mapping:
        """What the axes in lanes are, `lane` lanes from the base on."""
        return digits(add(base, lane), self.b.group)

    def waiting(self, mapping: Mapping, row: Expr, lane: Expr) -> Expr:
        """Where a sum waits for the next block."""
        if self.sums is not None:
            return read(self.sums, (self.place, row, lane))
        return read(self.nest.tensors[0], substitute_all(self.nest.indices, mapping))

    def folds(self, sums: Sums, lane: Expr, number: Expr, first_row: Expr) -> tuple[Stmt, ...]:
        """The reduce loops of a tile."""
        accs, places, around = sums
        mapping, local = (in_strip if self.b.strip else in_block)(self.b, number)
        operands = [self.rows_value]
        if self.b.mode != "panel":
            operands.append(self.lanes_value)
        groups = merged(local, self.c.reduced[self.b.split :], operands)
        inside: Mapping = {}
        loops: list[Axis] = []
        for group in groups:
            if len(group) == 1:
                loops.append(group[0])
                continue
            k = axis("k", 0, points(group))
            loops.append(k)
            inside.update(digits(k, group))
        image = substitutor(inside)
        reduced = {a: image(e) for a, e in mapping.items()}
        if self.b.mode == "panel":
            assert self.panel is not None
            other: Expr = self.panel.read(position(loops), self.sliver, lane)
        else:
            there = {**around, **reduced}
            if self.b.by_blocks:  # a copy begins where the block does
                own = zip(self.c.reduced[self.b.split :], local, strict=True)
                there.update({a: image(k) for a, k in own})
            other = substitutor(there)(self.lanes_value)
        combiner = self.c.fold.combiner
        body: tuple[Step, ...] = tuple(
            [Fold((a,), combiner, (self.combined({**around, **reduced, **p}, other),))
             for a, p in zip(accs, places, strict=True)]
        )  # fmt: skip
        mine = substitutor({**around, **reduced, **places[0]})(self.rows_value)
        body = (*prefetch.tile_row_prefetches(self.b, mine, loops, len(accs)), *body)
        body = (*prefetch.column_prefetches(self.b, mine, len(accs)), *body)
        prefetches = self.prefetches({**around, **reduced}, first_row, len(accs), lane, loops)
        unrolled = bool(prefetches.lines) or self.b.writes_out_steps
        unrolled = unrolled and are_load_bound(self.c.fold.sources)
        return reduce_loops(loops, body, prefetches, unrolled=unrolled)

    def prefetches(
        self, mapping: Mapping, row: Expr, rows: int, lane: Expr, loops: Sequence[Axis]
    ) -> Prefetches:
        """What reduce steps prefetch: the next product's operands, or the next rows'."""
        b, next_product = self.b, self.next_product
        step = position(loops)
        if next_product is not None:
            return Prefetches(lambda n: next_product.part(row, rows, floordiv(step, int_const(n)),
                                              ceil(self.c.depth / n)))  # fmt: skip
        if not b.sliver:
            return Prefetches(lambda n: ())
        at = add(mul(self.sliver, int_const(b.sliver)), lane)

        def waiting(r: Expr) -> Expr:
            return self.waiting({**mapping, **digits(r, b.rows.axes)}, r, at)

        def value(r: Expr) -> Expr:
            return substitutor({**mapping, **digits(r, b.rows.axes)})(self.rows_value)

        def some(n: int) -> tuple[Prefetch, ...]:
            return () if b.whole else prefetch.sum_prefetches(b, waiting, row, rows, step, n)

        line = machine.current().line // self.rows_value.dtype.size_bytes
        return Prefetches(some, prefetch.sliver_prefetches(b, value, row, rows, self.sliver), line)

    def combined(self, mapping: Mapping, other: Expr) -> Expr:
        """The source with both operands in place; what is left in it is substituted too."""
        mine = substitutor(mapping)(self.rows_value)
        pair = (mine, other) if self.b.rows is self.c.left else (other, mine)
        return substitutor(mapping)(self.c.combine(*pair))

    def stores(self, sums: Sums, slot: Expr, lane: Expr, number: Expr | None) -> tuple[Stmt, ...]:
        """The result of a tile, or its sums so far, at `slot` and after it."""
        nest = self.nest
        final: list[Stmt] = []
        partial: list[Stmt] = []
        for n, (a, p) in enumerate(zip(sums.accs, sums.places, strict=True)):
            image = substitutor({**sums.around, **p, self.acc: a})
            where = tuple([image(i) for i in nest.indices])
            final.append(Store(nest.tensors, where, tuple([image(v) for v in nest.values])))
            if self.sums is not None:
                where = (self.place, add(slot, int_const(n)), lane)
                partial.append(Store((self.sums,), where, (a,)))
        if number is None or self.sums is None:
            return tuple(final)
        last = call("eq", number, sub(blocks(self.b), ONE))
        return (If(last, tuple(final), tuple(partial)),)
