"""Programs with loops, written out in the nodes of the IR."""

from __future__ import annotations

import tensorad as ta
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Block, Branch, FunctionCall, Loop, Tensor, dim_expr, outputs, saved


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


def scanned_cell(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Loop]:
    """h = tanh(h @ w + row) for each row of x: the last h, and all of them."""
    n, m = x.shape
    start = ta.compute((m,), lambda j: 0.0, name="h0")
    h, row = ta.placeholder((m,), name="h"), ta.placeholder((m,), name="row")
    k = ta.reduce_axis((0, m), name="k")
    after = ta.compute(
        (m,), lambda j: ta.tanh(ta.sum(h[k] * w[k, j], axis=k) + row[j]), name="h_next"
    )
    t = local_size("t", dim_expr(n))
    op = Loop(
        ("h_last",), (start, x, w), (Block((h, row, w), (after,)),),
        counter=t, trips=dim_expr(n), carries=1, scanned=1,
    )  # fmt: skip
    return outputs(op)[0], saved(op, after), op


def triangle(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Loop]:
    """For i below the element of n, for j below i + 1: s = s * x + j; each i's s, too."""
    zero = ta.compute((), lambda: 0.0, name="zero")
    s, r = ta.placeholder((), name="s"), ta.placeholder((), name="r")
    trips = local_size("rounds")
    i = local_size("i", trips)
    j = local_size("j", i + 1)
    inner_next = ta.compute((), lambda: r() * x() + ta.const(1.0) * j, name="r_next")
    inner = Loop(
        ("r_last",), (s, x), (Block((r, x), (inner_next,)),), counter=j, trips=i + 1, carries=1
    )
    (after,) = outputs(inner)
    op = Loop(
        ("s_last",), (zero, x), (Block((s, x), (after,)),),
        counter=i, trips=trips, carries=1, count=n,
    )  # fmt: skip
    return outputs(op)[0], saved(op, after), op


def swapped(x: Tensor, y: Tensor, trips: int) -> tuple[tuple[Tensor, ...], Loop]:
    """a, b = b, a + b, so often."""
    a, b = ta.placeholder(x.shape, name="a"), ta.placeholder(x.shape, name="b")
    op = Loop(
        ("a_last", "b_last"), (x, y), (Block((a, b), (b, a + b)),),
        counter=local_size("t", dim_expr(trips)), trips=dim_expr(trips), carries=2,
    )  # fmt: skip
    return outputs(op), op


def absolute_steps(x: Tensor, trips: int) -> tuple[Tensor, Tensor, Loop]:
    """Doubled where the sum is negative, otherwise lessened by a call: the last one, and what each
    iteration doubled."""
    v = ta.placeholder(x.shape, name="v")
    i = ta.reduce_axis((0, x.shape[0]), name="i")
    negative = ta.compute((), lambda: ta.sum(v[i], axis=i) < 0, name="negative")
    p = ta.placeholder(x.shape, name="p")
    call = FunctionCall(("less",), (v,), (Block((p,), (p - 1.5,)),), function="lessen")
    doubled = v * 2.0
    branch = Branch(("next",), (negative, v), (Block((v,), outputs(call)), Block((v,), (doubled,))))
    op = Loop(
        ("v_last",), (x,), (Block((v,), outputs(branch)),),
        counter=local_size("t", dim_expr(trips)), trips=dim_expr(trips), carries=1,
    )  # fmt: skip
    return outputs(op)[0], saved(op, saved(branch, doubled, 1)), op
