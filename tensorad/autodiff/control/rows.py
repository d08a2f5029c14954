"""What one iteration of a loop adds to an adjoint: one row of it, which need not be carried."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.autodiff.local.records import added
from tensorad.ir.analysis.blocks import block_ops, inner_ops
from tensorad.ir.arrays.elementwise import compute_axes, elementwise, same_dim
from tensorad.ir.expr import (
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    LocalSize,
    add,
    call,
    const,
    logical_and,
    neg,
    read,
    select,
    sub,
    summed,
)
from tensorad.ir.order import READ, occurs, sizes_in
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Compute, Dim, Loop, Scatter, Shape, Tensor, dim_expr, outputs
from tensorad.ir.visit import (
    conjuncts,
    copy_bodies,
    free_leaves,
    op_expressions,
    reads,
    substitute,
    substitute_all,
)
from tensorad.simplify.index.intervals import interval
from tensorad.simplify.index.linear import linear_form
from tensorad.simplify.zeros.lift import lift, summands
from tensorad.simplify.zeros.passes import nonzero_body

Places = tuple[tuple[int, Expr], ...]
"""Axes, and an index of sizes alone for each."""


@dataclass(frozen=True)
class Row:
    """A part of an adjoint (*batch, ...) that is 0 except at one index of one axis.

    Attributes:
        dim: the axis, not counting those of the batch.
        offset: the index, less the counter.
        value: (*batch, the other axes).
        at: further axes at whose indices alone it is not 0; `value` does not have them.
    """

    dim: int
    offset: Expr
    value: Tensor
    at: Places = ()


@dataclass(frozen=True)
class Part:
    """A part of an adjoint (*batch, ...) that is 0 except at some indices.

    Attributes:
        at: these axes, not counting those of the batch, and their indices.
        value: (*batch, the other axes).
    """

    at: Places
    value: Tensor


def rows_of(
    t: Tensor,
    batch: Shape,
    counter: LocalSize,
    trips: Dim,
    offsets: Collection[Expr] = (),
) -> tuple[list[Row], Tensor | None]:
    """An adjoint made in one iteration: its rows at the counter, and what else there is of it.

    Args:
        offsets: where iterations read, less the counter.
    """
    if not isinstance(t.op, Compute) or len(t.op.bodies) > 1:
        return [], t
    op, n = t.op, len(batch)
    is_zero = interval(dim_expr(trips)).hi == 1
    found: dict[tuple[int, Expr], list[Expr]] = {}
    rest: list[Expr] = []
    for sign, e in summands(op.bodies[0]):
        term = e if sign > 0 else neg(e)
        pin = pinned(lift(term)[0], op.axes[n:], counter, offsets, is_zero)
        if pin is None:
            rest.append(term)
        else:
            found.setdefault(pin, []).append(term)
    if not found:
        return [], t
    rows = [Row(d, c, _row(op, n + d, add(counter, c), es, trips)) for (d, c), es in found.items()]
    left = summed(rest)
    return rows, None if left is None else _compute(op.name, op.axes, left, op.source)


def in_order(rows: Sequence[Row], is_reversed: bool) -> Sequence[Row] | None:
    """The rows in the order in which the reverse of a loop gives them to an element.

    Args:
        is_reversed: whether the loop counts from above.
    Returns:
        None if there are three or more, and no such order is known.
    """
    if len(rows) < 3:
        return rows
    apart = [linear_form(r.offset).plus(linear_form(rows[0].offset), -1).to_expr() for r in rows]
    if any(r.dim != rows[0].dim for r in rows) or not all(isinstance(e, Const) for e in apart):
        return None
    numbers = [int(e.value) for e in apart if isinstance(e, Const)]
    order = sorted(range(len(rows)), key=lambda n: -numbers[n] if is_reversed else numbers[n])
    return [rows[n] for n in order]


def pinned(
    condition: Expr,
    axes: Sequence[Axis],
    counter: LocalSize,
    offsets: Collection[Expr] = (),
    is_zero: bool = False,
) -> tuple[int, Expr] | None:
    """(which axis, its value less the counter) by an equation in a condition.

    Where a condition distinguishes cases, as it does at the last, shorter segment of a loop, all
    of them have to say the same.

    Args:
        offsets: where iterations read, less the counter.
        is_zero: whether the counter is always 0.
    """
    for c in conjuncts(condition):
        if isinstance(c, Call) and c.op == "or":
            of_cases = _pinned_in_each(c, axes, counter, offsets, is_zero)
            if of_cases is not None:
                return of_cases
        if not (isinstance(c, Call) and c.op == "eq" and c.args[0].dtype.is_integer):
            continue
        form = linear_form(c.args[0]).plus(linear_form(c.args[1]), -1)
        for d, a in enumerate(axes):
            sign = form.terms.get(a, 0)
            if abs(sign) != 1 or form.terms.get(counter, 0) not in (-sign, 0):
                continue
            offset = form.scaled(-sign)
            offset.drop(a)
            if counter not in offset.terms and not (is_zero and offset.to_expr() in offsets):
                continue
            offset.drop(counter)
            if not any(free_leaves(e) or occurs(READ, e) for e in offset.terms):
                return d, offset.to_expr()
    return None


def _pinned_in_each(
    either: Expr,
    axes: Sequence[Axis],
    counter: LocalSize,
    offsets: Collection[Expr],
    is_zero: bool,
) -> tuple[int, Expr] | None:
    """What every case of a disjunction says, by what one of them says or where iterations read."""
    cases = _cases(either)
    pins = [pinned(case, axes, counter, offsets, is_zero) for case in cases]
    known = [_known_in(case) for case in cases]
    dims = {None if pin is None else pin[0] for pin in pins}
    d = dims.pop()
    if d is None or dims:
        return None
    said = [pin[1] for pin in pins if pin is not None]
    for one in (*said, *offsets):
        pairs = [substitute_all((one, e), v) for e, v in zip(said, known, strict=True)]
        if all(_is_equal(a, b) for a, b in pairs):
            return d, one
    return None


def _cases(condition: Expr) -> list[Expr]:
    """The parts of a disjunction."""
    if isinstance(condition, Call) and condition.op == "or":
        return [case for part in condition.args for case in _cases(part)]
    return [condition]


def _known_in(case: Expr) -> dict[Expr, Expr]:
    """Sizes that are constants where a condition holds."""
    equations = [c.args for c in conjuncts(case) if isinstance(c, Call) and c.op == "eq"]
    return {a: b for a, b in equations if isinstance(a, LocalSize) and isinstance(b, Const)}


def _is_equal(a: Expr, b: Expr) -> bool:
    apart = linear_form(a).plus(linear_form(b), -1)
    return not apart.terms and apart.constant == 0


def read_offsets(op: Loop) -> dict[Expr, None]:
    """Where iterations of a loop read at the counter, less the counter.

    Formulas of adjoints do not have the counter in a loop of one iteration, and distinguish cases
    at the last segment of a loop. By these indices segments know what the loop of all iterations
    collects as rows.
    """
    ops = block_ops(op.blocks[0])
    exprs = [e for o in (*ops, *inner_ops(ops)) for e in op_expressions(o)]
    forms = [linear_form(index) for r in reads(*exprs) for index in r.indices]
    at_counter = [f for f in forms if f.terms.get(op.counter) == 1]
    for f in at_counter:
        f.drop(op.counter)
    return {f.to_expr(): None for f in at_counter}


def parts_of(t: Tensor, batch: Shape, own: Mapping[Expr, None]) -> list[Part]:
    """An adjoint made in a block as parts, the last one of which may be at all indices.

    Args:
        own: sizes that have a value inside of the block only.
    """
    if not isinstance(t.op, Compute) or len(t.op.bodies) > 1:
        return [Part((), t)]
    op, n = t.op, len(batch)
    found: dict[Places, list[Expr]] = {}
    for sign, e in summands(op.bodies[0]):
        at = _places(lift(e)[0], op.axes[n:], own)
        found.setdefault(at, []).append(e if sign > 0 else neg(e))
    if [*found] == [()]:
        return [Part((), t)]
    return [Part(at, _part(op, n, at, found[at])) for at in sorted(found, key=len, reverse=True)]


def further_parts(row: Row, batch: Shape, own: Mapping[Expr, None]) -> Row:
    """The row without axes at one index of which alone it is not 0."""
    (part, *others) = parts_of(row.value, batch, own)
    if others:
        return row
    at = tuple([(d + (d >= row.dim), index) for d, index in part.at])
    return replace(row, value=part.value, at=at)


def _places(condition: Expr, axes: Sequence[Axis], own: Mapping[Expr, None]) -> Places:
    """The axes that equations in a condition give an index of sizes alone."""
    found: dict[int, Expr] = {}
    for c in conjuncts(condition):
        if not (isinstance(c, Call) and c.op == "eq" and c.args[0].dtype.is_integer):
            continue
        form = linear_form(c.args[0]).plus(linear_form(c.args[1]), -1)
        for d, a in enumerate(axes):
            sign = form.terms.get(a, 0)
            if abs(sign) != 1 or d in found:
                continue
            index = form.scaled(-sign)
            index.drop(a)
            told = [s for e in index.terms for s in sizes_in(e) if s in own]
            if not told and not any(free_leaves(e) or occurs(READ, e) for e in index.terms):
                found[d] = index.to_expr()
                break
    return tuple(sorted(found.items()))


def _part(op: Compute, n: int, at: Places, terms: Sequence[Expr]) -> Tensor:
    """The terms where axes have the values given; 0 where they have no such values."""
    there: dict[Expr, Expr] = {op.axes[n + d]: index for d, index in at}
    axes = tuple([a for a in op.axes if a not in there])
    body = summed([substitute(e, there) for e in terms])
    assert body is not None  # there are terms
    bounds = [c for a, i in there.items() for c in (i >= ZERO, i < dim_expr(_extent(op, a)))]
    body = select(logical_and(*bounds), body, const(0, body.dtype))
    return _compute(op.name, axes, nonzero_body(axes, body), op.source)


def _extent(op: Compute, a: Expr) -> Dim:
    return next(n for x, n in zip(op.axes, op.shape, strict=True) if x is a)


def from_parts(t: Tensor, at: Places, batch: Shape, like: Tensor) -> Tensor:
    """The adjoint of a tensor that is t (*batch, the other axes) at some indices, 0 elsewhere."""
    axes = compute_axes((*batch, *like.shape))
    pinned_axes = {axes[len(batch) + d]: index for d, index in at}
    body = read(t, tuple([a for a in axes if a not in pinned_axes]))
    there = logical_and(*[call("eq", a, i) for a, i in pinned_axes.items()])
    return outputs(Compute(f"d{like.name}", axes, (select(there, body, const(0, t.dtype)),)))[0]


def _row(op: Compute, place: int, index: Expr, terms: Sequence[Expr], trips: Dim) -> Tensor:
    """The terms where an axis has one value; 0 where it has no such value."""
    axes = (*op.axes[:place], *op.axes[place + 1 :])
    body = summed([substitute(e, {op.axes[place]: index}) for e in terms])
    assert body is not None  # there are terms
    extent = op.axes[place].upper
    if not (isinstance(index, LocalSize) and same_dim(op.shape[place], trips)):
        inside = logical_and(index >= ZERO, index < extent)
        body = select(inside, body, const(0, body.dtype))
    return _compute(op.name, axes, nonzero_body(axes, body), op.source)


def _compute(name: str, axes: tuple[Axis, ...], body: Expr, source: str) -> Tensor:
    fresh, bodies = copy_bodies(axes, (body,))
    return outputs(Compute(name, fresh, bodies, source))[0]


def from_rows(saved: Tensor, row: Row, batch: Shape, like: Tensor) -> Tensor:
    """The adjoint of a tensor, of which each iteration has saved a row (trips, *batch, ...)."""
    n = len(batch)
    axes = compute_axes((*batch, *like.shape))
    at = axes[n + row.dim]
    places = {axes[n + d]: index for d, index in row.at}
    others = tuple([a for a in axes if a is not at and a not in places])
    trip = sub(at, row.offset)
    body: Expr = read(saved, (trip, *others))
    conditions = [call("eq", a, index) for a, index in places.items()]
    if trip is not at or not same_dim(saved.shape[0], like.shape[row.dim]):
        conditions += [trip >= ZERO, trip < dim_expr(saved.shape[0])]
    if conditions:
        body = select(logical_and(*conditions), body, const(0, saved.dtype))
    return outputs(Compute(f"d{like.name}", axes, (body,)))[0]


def with_row(total: Tensor, row: Row, batch: Shape, counter: LocalSize) -> Tensor:
    """A sum so far, and the row that one iteration adds."""
    axes = compute_axes(total.shape)
    at = axes[len(batch) + row.dim]
    old = read(total, axes)
    new = add(old, read(row.value, tuple([a for a in axes if a is not at])))
    body = select(call("eq", at, add(counter, row.offset)), new, old)
    return outputs(Compute(f"{total.name}", axes, (body,)))[0]


def added_to(total: Tensor, t: Tensor) -> Tensor:
    """A sum so far, and what one iteration adds."""
    if isinstance(t.dtype, RecordType):
        return added(total, t)
    if isinstance(t.op, Scatter) and t.op.init is None and t.op.combiner.is_sum:
        return outputs(replace(t.op, init=total))[0]
    if isinstance(t.op, Compute) and len(t.op.bodies) == 1:
        body = add(read(total, t.op.axes), t.op.bodies[0])
        return _compute(t.op.name, t.op.axes, body, t.op.source)
    return elementwise("add", total, t)
