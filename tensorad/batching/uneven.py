"""Loops whose rows have different numbers of iterations: each runs for the rows that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.batching.level import Level
from tensorad.batching.pieces import rows_first
from tensorad.batching.rows import (
    Order,
    Rows,
    bounded,
    in_order,
    like,
    listed,
    numbers_of,
    scalar,
)
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Expr,
    LocalSize,
    Size,
    add,
    call,
    const,
    local_size,
    read,
)
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import (
    Block,
    Loop,
    Saved,
    Tensor,
    dim_expr,
    outputs,
    saved,
)


def loop(op: Loop, level: Level, kept: Sequence[Saved]) -> None:
    """Images of the outputs of a loop of which rows have different numbers of iterations, and of
    what is saved of it: an iteration runs for the rows that still have one."""
    made = _Testing(op, level) if len(op.blocks) > 1 else _Counting(op, level)
    made.run(kept)


class _Uneven:
    """What loops by a condition and loops with known numbers of iterations have in common.

    Attributes:
        trips: as many as the row with the most iterations has.
        counter: below it.
        starts: first values of the carries; `params`: the carries, both (rows, *shape).
        fixed: further params with their operands.
    """

    def __init__(self, op: Loop, level: Level, trips: Expr) -> None:
        self.op, self.level, self.trips = op, level, trips
        self.body, self.last = op.blocks[0], op.carries + op.scanned
        self.counter = local_size(op.counter.label, trips)
        self.starts = [level.spread(t) for t in op.operands[: op.carries]]
        self.params = [like(t, t.shape) for t in self.starts]
        self.fixed: list[tuple[Tensor, Tensor]] = []
        self.outside: dict[Tensor, Tensor] = {}

    def param(self, operand: Tensor) -> Tensor:
        """A param that is the same in all iterations, for a tensor from outside."""
        if operand not in self.outside:
            self.outside[operand] = like(operand, operand.shape)
            self.fixed.append((self.outside[operand], operand))
        return self.outside[operand]

    def inner(self, rows: Rows) -> Level:
        """The level of the block for some rows."""
        op, level = self.op, self.level
        each = {s: self.param(level.each[s]) for s in level.used(op)}
        found = rows.level(replace(level, each=each))
        found.most[op.counter] = self.counter
        for p, carry in zip(self.body.params, self.params, strict=False):
            found.image[p] = rows.gathered(carry)
        for k in range(op.carries, self.last):
            found.image[self.body.params[k]] = self.part(op.operands[k], rows)
        self.give_fixed(found, self.body.params[self.last :], rows)
        return found

    def give_fixed(self, found: Level, params: Sequence[Tensor], rows: Rows) -> None:
        for p, t in zip(params, self.op.operands[self.last :], strict=True):
            if t in self.level.image:
                found.image[p] = rows.gathered(self.param(self.level.image[t]))
            else:
                found.plain[p] = rows.shared(self.param(self.level.of(t)))

    def part(self, t: Tensor, rows: Rows) -> Tensor:
        """The parts of a scanned tensor at the counter, of some rows."""
        whole = self.level.stacked.get(t)
        own = self.param(self.level.spread(t) if whole is None else whole)
        r, *axes = compute_axes((rows.size, *own.shape[2:]))
        row = rows.number(r)
        first = (row, self.counter) if whole is None else (self.counter, row)
        return formula(t.name, (r, *axes), read(own, (*first, *axes)), "")

    def next(self, k: int, inner: Level, rows: Rows) -> Tensor:
        """The carry of all rows after an iteration of some."""
        result = self.body.results[k]
        if result is self.body.params[k]:
            return self.params[k]
        return rows.placed(inner.spread(result), self.params[k], self.level.rows)

    def wanted(self, kept: Sequence[Saved]) -> tuple[Tensor, ...]:
        return (*self.body.results, *[s.inner for s in kept])

    def whole(self, t: Tensor, inner: Level, rows: Rows) -> Tensor:
        """A tensor of the block for all rows, unspecified where there is no iteration."""
        return rows.kept(inner.spread(t), self.level.rows)

    def finish(self, made: Loop, kept: Sequence[Saved], inner: Level, rows: Rows) -> None:
        """Images of the outputs and of what is saved."""
        for old, new in zip(outputs(self.op), outputs(made), strict=False):
            self.level.image.setdefault(old, new)
        for s in kept:
            (t,) = outputs(s)
            self.level.stacked[t] = saved(made, self.whole(s.inner, inner, rows))
            self.level.image[t] = rows_first(self.level.stacked[t])


class _Counting(_Uneven):
    """A loop whose rows have known numbers of iterations: in order of these, those that have an
    iteration are the first ones."""

    def __init__(self, op: Loop, level: Level) -> None:
        if op.count is not None:
            self.each, most = bounded(level.image[op.count])
            assert isinstance(op.trips, Size), "a count has a size of its own"
            level.each[op.trips], level.most[op.trips] = self.each, most
        else:
            self.each = _values(op.trips, level)
        super().__init__(op, level, dim_expr(level.extent(op.trips)))

    def run(self, kept: Sequence[Saved]) -> None:
        op = self.op
        if not kept and all(a is b for a, b in zip(self.body.results, self.body.params)):
            for old, new in zip(outputs(op), self.starts, strict=True):
                self.level.image.setdefault(old, new)
            return
        order = in_order(self.each, self.trips)
        own = Order(self.param(order.numbers), self.param(order.above))
        rows = own.at(self.counter)
        inner = self.inner(rows)
        inner.run(inner, self.wanted(kept))
        results = [self.next(k, inner, rows) for k in range(op.carries)]
        params = (*self.params, *[p for p, _ in self.fixed])
        made = Loop(
            op.names, (*self.starts, *[t for _, t in self.fixed]),
            (Block(params, tuple(results)),), source=op.source, counter=self.counter,
            trips=self.trips, carries=op.carries, reverse=op.reverse,
        )  # fmt: skip
        self.finish(made, kept, inner, rows)


def _values(e: Expr, level: Level) -> Tensor:
    """(rows,) the values of an expression of sizes, not below 0."""
    row = level.row()
    (value,) = level.over((e,), row)
    return formula("trips", (row,), call("maximum", value, ZERO), "")


class _Testing(_Uneven):
    """A loop that ends by a condition: which rows go on is found after each iteration."""

    def __init__(self, op: Loop, level: Level) -> None:
        super().__init__(op, level, local_size("trips"))

    def run(self, kept: Sequence[Saved]) -> None:
        op, level = self.op, self.level
        begin = level.empty()
        begin.each = dict(level.each)
        first = self.test(begin, self.starts, None)
        started = numbers_of(first, None, level.rows)
        zero = formula("trips", (level.row(),), const(0, INT64), "")
        numbers, count, done = (like(t, t.shape) for t in (started.numbers, started.count, zero))
        rows = listed(numbers, count)
        inner = self.inner(rows)
        inner.run(inner, self.wanted(kept))
        results = [self.next(k, inner, rows) for k in range(op.carries)]
        after = inner.empty()
        after.each = dict(inner.each)
        goes_on = self.test(after, [inner.spread(t) for t in self.body.results], rows)
        left = numbers_of(goes_on, rows, level.rows)
        (r,) = compute_axes(rows.at.shape)
        trip = formula("trips", (r,), add(self.counter, ONE), "")
        told = rows.placed(trip, done, level.rows)
        own = (*self.params, numbers, count, done)
        params = (*own, *[p for p, _ in self.fixed])
        block = Block(params, (*results, left.numbers, left.count, told))
        test = Block(params, (scalar("any", read(count, ()) > ZERO),))
        assert isinstance(self.trips, LocalSize), "the loop has a size of its own"
        starts = (*self.starts, started.numbers, started.count, zero)
        made = Loop(
            (*op.names, "list", "count", "trips"), (*starts, *[t for _, t in self.fixed]),
            (block, test), source=op.source, counter=self.counter, trips=self.trips,
            carries=len(starts),
        )  # fmt: skip
        (size,) = sizes_in(op.trips)
        level.each[size], level.most[size] = outputs(made)[op.carries + 2], self.trips
        self.finish(made, kept, inner, rows)

    def test(self, at: Level, carries: Sequence[Tensor], rows: Rows | None) -> Tensor:
        """(rows,) which rows go on, by their carries."""
        block = self.op.blocks[1]
        for p, t in zip(block.params, carries, strict=False):
            at.image[p] = t
        fixed = block.params[self.op.carries :]
        if rows is None:
            for p, t in zip(fixed, self.op.operands[self.last :], strict=True):
                images = at.image if t in self.level.image else at.plain
                images[p] = self.level.of(t)
        else:
            self.give_fixed(at, fixed, rows)
        at.run(at, block.results)
        return at.spread(block.results[0])
