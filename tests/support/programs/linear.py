"""Programs with loops of which each iteration changes a few elements of a carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorad as ta
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Block, Dim, Loop, Tensor, dim_expr, outputs

Body = Callable[..., Sequence[Tensor]]


def loop_of(
    trips: Dim, first: Sequence[Tensor], fixed: Sequence[Tensor], body: Body, reverse: bool = False
) -> Loop:
    """A loop over carries that begin as `first`; `body` is given the counter and the carries."""
    t = local_size("t", dim_expr(trips))
    carries = [ta.placeholder(f.shape, str(f.dtype), name=f"c{n}") for n, f in enumerate(first)]
    results = tuple(body(t, *carries))
    names = tuple([f"last{n}" for n in range(len(first))])
    return Loop(
        names, (*first, *fixed), (Block((*carries, *fixed), results),), counter=t,
        trips=dim_expr(trips), carries=len(first), reverse=reverse,
    )  # fmt: skip


def recurrence(x: Tensor) -> tuple[Tensor, Loop]:
    """s = s * 0.5 + x[t], from 0."""
    zero = ta.compute((), lambda: 0.0, name="zero")
    op = loop_of(x.shape[0], [zero], [x], lambda t, s: [ta.compute((), lambda: s() * 0.5 + x[t])])
    return outputs(op)[0], op


def while_positive(a: Tensor) -> Tensor:
    """x = x * 0.5 + a while x is positive, from 1: for ever, if a is positive, too."""
    x = ta.placeholder((), name="x")
    one = ta.compute((), lambda: 1.0, name="one")
    after = ta.compute((), lambda: x() * 0.5 + a(), name="after")
    test = ta.compute((), lambda: x() > 0.0, name="test")
    trips = local_size("n")
    op = Loop(
        ("x_last",), (one, a), (Block((x, a), (after,)), Block((x, a), (test,))),
        counter=local_size("t", trips), trips=trips, carries=1,
    )  # fmt: skip
    return outputs(op)[0]


def row_from_row_before(x: Tensor, start: Tensor) -> tuple[Tensor, Loop]:
    """Row t of the start becomes half of the row before it, and x[t]."""
    n, m = x.shape

    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        new = ta.compute((m,), lambda j: c[ta.maximum(t - 1, 0), j] * 0.5 + x[t, j], name="new")
        return [ta.compute((n, m), lambda r, j: ta.select(r == t, new[j], c[r, j]), name="after")]

    op = loop_of(n, [start], [x], body)
    return outputs(op)[0], op


def adjoint_of_rows(head: Tensor) -> tuple[Tensor, Loop]:
    """From the last row to the first: an adjoint is added to row t of an accumulator, and half of
    it, with the head's row before it, goes on."""
    n, m = head.shape
    zero = ta.compute((n, m), lambda r, j: 0.0, name="zero")
    none = ta.compute((m,), lambda j: 0.0, name="none")

    def body(t: ta.Expr, total: Tensor, d: Tensor) -> list[Tensor]:
        now = ta.compute((m,), lambda j: d[j] + head[t, j], name="now")
        row = ta.compute((n, m), lambda r, j: ta.select(r == t, now[j] * 2.0, 0.0), name="row")
        return [total + row, now * 0.5]

    op = loop_of(n, [zero, none], [head], body, reverse=True)
    return outputs(op)[0], op
