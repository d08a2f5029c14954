"""Lists of some of the rows: those that a branch takes, those of which a loop still runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from tensorad.batching.level import Level
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.arrays.listed import kept_at
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.arrays.scan_outputs import last_states, scan_results
from tensorad.ir.arrays.told_sizes import tell
from tensorad.ir.combiner import max_combiner, set_combiner, sum_combiner
from tensorad.ir.dtypes import INT64, DType, to_dtype
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Expr,
    LocalSize,
    Param,
    call,
    cast,
    const,
    local_size,
    param,
    read,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.functions import Function, Partials, apply
from tensorad.ir.tensor import (
    Dim,
    Placeholder,
    Scan,
    Scatter,
    Shape,
    Tensor,
    Update,
    dim_expr,
    dim_of,
    outputs,
)


def scalar(name: str, body: Expr) -> Tensor:
    """A 0-d tensor."""
    return formula(name, (), body, "")


def like(t: Tensor, shape: Shape) -> Tensor:
    """A param of a block for a tensor."""
    return outputs(Placeholder(t.name, shape, t.dtype))[0]


def told(count: Tensor, label: str) -> tuple[LocalSize, Tensor]:
    """A size with the value of a 0-d int64 tensor (0 if that is negative), and the tensor again:
    who reads this one comes after the size has its value."""
    size = local_size(label)
    return size, tell(size, count)


@cache
def _after(dtype: DType) -> Function:
    """x, of which the derivative reads a number >= 0 that is beside it."""

    def partials(value: Param, params: tuple[Param, ...]) -> Partials:
        there = call("ge", params[1], ZERO)
        return select(there, const(1, dtype), const(0, dtype)), None

    x = param("x", dtype)
    return Function("after", (x, param("n", INT64)), x, partials)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some of the rows of a level.

    Attributes:
        size: how many, as a size and as a tensor.
        at: (size,) which.
        known: what was gathered.
    """

    size: Expr
    told: Tensor
    at: Tensor
    known: dict[Tensor, Tensor] = field(default_factory=dict)

    def gathered(self, t: Tensor) -> Tensor:
        """(rows, *shape) -> (size, *shape): these rows."""
        if t not in self.known:
            axes = compute_axes((dim_of(self.size), *t.shape[1:]))
            body = read(t, (self.number(axes[0]), *axes[1:]))
            self.known[t] = formula(t.name, axes, body, "")
        return self.known[t]

    def shared(self, t: Tensor) -> Tensor:
        """A tensor that is the same in all rows, as these rows read it: its adjoint is a sum over
        them, which comes after what tells how many there are."""
        if not t.dtype.is_float or t.is_constant:
            return t
        if t not in self.known:
            axes = compute_axes(t.shape)
            value = apply(_after(to_dtype(t.dtype)), (read(t, axes), read(self.told, ())))
            self.known[t] = formula(t.name, axes, value, "")
        return self.known[t]

    def number(self, r: Expr) -> Expr:
        """Which row the one at a place of the list is."""
        return read(self.at, (r,))

    def kept(self, t: Tensor, rows: Dim) -> Tensor:
        """(size, *shape) -> (rows, *shape): t at these rows, unspecified at others, which are not
        written."""
        axes = compute_axes(t.shape)
        place = (self.number(axes[0]), *axes[1:])
        return kept_at(t.name, axes, read(t, axes), place, (rows, *t.shape[1:]))

    def placed(self, t: Tensor, into: Tensor, rows: Dim) -> Tensor:
        """(size, *shape) -> (rows, *shape): t at these rows, at others what `into` has there."""
        r, *axes = compute_axes(t.shape)
        update = Update((self.number(r), *axes), read(t, (r, *axes)))
        shape = (rows, *t.shape[1:])
        name, fold = t.name, set_combiner(t.dtype)
        op = Scatter(
            name, shape, t.dtype, (r, *axes), (update,), fold, into, source="", distinct=True
        )
        return outputs(op)[0]

    def level(self, around: Level) -> Level:
        """A level of these rows: what tensors from around it are there is to be filled in."""
        found = around.empty(dim_of(self.size))
        around.lists.append(self)
        found.told = self.told
        found.each = {s: self.gathered(t) for s, t in around.each.items()}
        return found


def within(index: Expr, extent: Dim) -> Expr:
    """An index that is below an extent, so that this is known, too: it is not checked again."""
    last = sub(dim_expr(extent), ONE)
    return call("minimum", call("maximum", index, ZERO), last)


def listed(numbers: Tensor, count: Tensor) -> Rows:
    """The rows whose numbers are the first `count` of a list."""
    size, again = told(count, "rows")
    (r,) = compute_axes((size,))
    place = call("minimum", r, sub(dim_expr(numbers.shape[0]), ONE))
    number = within(read(numbers, (place,)), numbers.shape[0])
    number = select(r < read(again, ()), number, ZERO)
    return Rows(size, again, formula("rows", (r,), number, ""))


def number_before(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """How many elements of (rows,) bool are true before each one, and how many in all."""
    along, total = compute_axes(chosen.shape), sum_combiner(INT64)
    scan = Scan(
        "before", (), along, (cast(read(chosen, along), INT64),), total, total.identity,
        chosen.shape, along, exclusive=True, source="",
    )  # fmt: skip
    return scan_results(scan)[0], last_states(scan)[0]


def numbers_of(chosen: Tensor, own: Rows | None, rows: Dim) -> Chosen:
    """The numbers of the rows that (rows,) bool says, in order, in a list.

    Each row writes its number behind those before it, where the next one that is chosen writes over
    it if it is not, so that there is no branch.

    Args:
        own: what the elements of `chosen` belong to; None: all rows.
        rows: of the list.
    """
    before, count = number_before(chosen)
    (r,) = compute_axes(chosen.shape)
    value = r if own is None else own.number(r)
    place = within(read(before, (r,)), rows)
    fold = set_combiner(INT64)
    scan = Scan(
        "list", (), (r,), (value,), fold, fold.identity, (rows,), (place,), source="",
    )  # fmt: skip
    numbers = scan_results(scan)[0]
    return Chosen(numbers, count, before)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Rows in a list.

    Attributes:
        numbers: the list, of which `count` elements are meant.
        before: at each row that is chosen its place in the list.
    """

    numbers: Tensor
    count: Tensor
    before: Tensor


@dataclass(frozen=True, eq=False)
class Order:
    """Rows by how often they go on, those that do longest first.

    Attributes:
        numbers: the list of those that do at all.
        above: (most,) how many rows go on more often than so many times.
    """

    numbers: Tensor
    above: Tensor

    def at(self, trip: Expr) -> Rows:
        """The rows that have an iteration of this number."""
        return listed(self.numbers, scalar("count", read(self.above, (trip,))))


def in_order(trips: Tensor, most: Expr) -> Order:
    """Rows in the order of (rows,) int64 numbers from 0 to `most`, by counting."""
    (rows,), kinds = trips.shape, (dim_of(most),)
    total = sum_combiner(INT64)

    def last(i: Expr) -> tuple[Expr, Expr]:
        """(the number of a row's last iteration, whether it has one)"""
        n = read(trips, (i,))
        return sub(n, ONE), n > ZERO

    (i,) = compute_axes((rows,))
    trip, has_one = last(i)
    counted = Update((trip,), ONE, has_one)
    (equal,) = outputs(Scatter("equal", kinds, INT64, (i,), (counted,), total, source=""))
    (above,) = scan_results(prefix_scan("above", [equal], 0, total, reverse=True))
    (k,), (i,) = compute_axes(kinds), compute_axes((rows,))
    trip, has_one = last(i)
    start = sub(read(above, (k,)), read(equal, (k,)))
    place = scan_results(Scan(
        "place", (k,), (i,), (ONE,), total, (start,), (rows,), (i,), has_one, exclusive=True,
        cell=(trip,), source="",
    ))[0]  # fmt: skip
    (i,) = compute_axes((rows,))
    update = Update((read(place, (i,)),), i, last(i)[1])
    numbers = Scatter("order", (rows,), INT64, (i,), (update,), set_combiner(INT64), source="")
    return Order(outputs(numbers)[0], above)


def bounded(counts: Tensor) -> tuple[Tensor, LocalSize]:
    """(rows,) integers as numbers of iterations, and a size with the largest of them."""
    (i,) = compute_axes(counts.shape)
    body = call("maximum", cast(read(counts, (i,)), INT64), ZERO)
    trips = formula("trips", (i,), body, "")
    (k,) = compute_axes(counts.shape)
    largest = reduce_expr(max_combiner(INT64), (read(trips, (k,)),), (k,), TRUE)
    most, again = told(scalar("most", call("maximum", largest, ZERO)), "trips")
    (i,) = compute_axes(counts.shape)
    below = call("minimum", read(trips, (i,)), read(again, ()))
    return formula("trips", (i,), below, ""), most
