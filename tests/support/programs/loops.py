"""Programs with loops, written out in the nodes of the IR."""

from __future__ import annotations

import tensorad as ta
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Block, Loop, Tensor, dim_expr, outputs


def cumulative(x: Tensor, reverse: bool = False) -> tuple[Tensor, Loop]:
    """The sum over the first axis of a matrix, its rows read at the counter."""
    n, m = x.shape
    start = ta.compute((m,), lambda j: 0.0, name="zero")
    s = ta.placeholder((m,), name="s")
    t = local_size("t", dim_expr(n))
    after = ta.compute((m,), lambda j: s[j] + x[t, j], name="after")
    op = Loop(
        ("total",), (start, x), (Block((s, x), (after,)),),
        counter=t, trips=dim_expr(n), carries=1, reverse=reverse,
    )  # fmt: skip
    return outputs(op)[0], op


def newton(a: Tensor) -> tuple[Tensor, Loop]:
    """The square root of a 0-d float64 tensor, to 1e-13."""
    one = ta.compute((), lambda: ta.const(1.0, "float64"), name="one")
    x = ta.placeholder((), "float64", name="x")
    after = ta.compute((), lambda: (x() + a() / x()) * 0.5, name="after")
    test = ta.compute((), lambda: ta.abs(x() * x() - a()) > 1e-13 * a(), name="test")
    trips = local_size("n")
    op = Loop(
        ("root",), (one, a), (Block((x, a), (after,)), Block((x, a), (test,))),
        counter=local_size("t", trips), trips=trips, carries=1,
    )  # fmt: skip
    return outputs(op)[0], op
