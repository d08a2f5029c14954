"""What one iteration of a loop adds to an adjoint: one row of it, which need not be carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorad.ir.arrays.elementwise import compute_axes, elementwise, same_dim
from tensorad.ir.expr import (
    ZERO,
    Axis,
    Call,
    Expr,
    LocalSize,
    add,
    const,
    logical_and,
    neg,
    read,
    select,
    sub,
    summed,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import Compute, Dim, Scatter, Shape, Tensor, dim_expr, outputs
from tensorad.ir.visit import conjuncts, copy_bodies, free_leaves, substitute
from tensorad.simplify.index.linear import linear_form
from tensorad.simplify.zeros.lift import lift, summands
from tensorad.simplify.zeros.passes import nonzero_body


@dataclass(frozen=True)
class Row:
    """A part of an adjoint (*batch, ...) that is 0 except at one index of one axis.

    Attributes:
        dim: the axis, not counting those of the batch.
        offset: the index, less the counter.
        value: (*batch, the other axes).
    """

    dim: int
    offset: Expr
    value: Tensor


def rows_of(
    t: Tensor, batch: Shape, counter: LocalSize, trips: Dim
) -> tuple[list[Row], Tensor | None]:
    """An adjoint made in one iteration: its rows at the counter, and what else there is of it."""
    if not isinstance(t.op, Compute) or len(t.op.bodies) > 1:
        return [], t
    op, n = t.op, len(batch)
    found: dict[tuple[int, Expr], list[Expr]] = {}
    rest: list[Expr] = []
    for sign, e in summands(op.bodies[0]):
        term = e if sign > 0 else neg(e)
        pin = pinned(lift(term)[0], op.axes[n:], counter)
        if pin is None:
            rest.append(term)
        else:
            found.setdefault(pin, []).append(term)
    if not found:
        return [], t
    rows = [Row(d, c, _row(op, n + d, add(counter, c), es, trips)) for (d, c), es in found.items()]
    left = summed(rest)
    return rows, None if left is None else _compute(op.name, op.axes, left, op.source)


def pinned(condition: Expr, axes: Sequence[Axis], counter: LocalSize) -> tuple[int, Expr] | None:
    """(which axis, its value less the counter) by an equation in a condition."""
    for c in conjuncts(condition):
        if not (isinstance(c, Call) and c.op == "eq" and c.args[0].dtype.is_integer):
            continue
        form = linear_form(c.args[0]).plus(linear_form(c.args[1]), -1)
        for d, a in enumerate(axes):
            sign = form.terms.get(a, 0)
            if abs(sign) != 1 or form.terms.get(counter, 0) != -sign:
                continue
            offset = form.scaled(-sign)
            offset.drop(a)
            offset.drop(counter)
            if not any(free_leaves(e) or occurs(READ, e) for e in offset.terms):
                return d, offset.to_expr()
    return None


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
    others = (*axes[:n], *axes[n : n + row.dim], *axes[n + row.dim + 1 :])
    trip = sub(at, row.offset)
    body: Expr = read(saved, (trip, *others))
    if trip is not at or not same_dim(saved.shape[0], like.shape[row.dim]):
        inside = logical_and(trip >= ZERO, trip < dim_expr(saved.shape[0]))
        body = select(inside, body, const(0, saved.dtype))
    return outputs(Compute(f"d{like.name}", axes, (body,)))[0]


def added_to(total: Tensor, t: Tensor) -> Tensor:
    """A sum so far, and what one iteration adds."""
    if isinstance(t.op, Scatter) and t.op.init is None and t.op.combiner.is_sum:
        return outputs(replace(t.op, init=total))[0]
    if isinstance(t.op, Compute) and len(t.op.bodies) == 1:
        body = add(read(total, t.op.axes), t.op.bodies[0])
        return _compute(t.op.name, t.op.axes, body, t.op.source)
    return elementwise("add", total, t)
