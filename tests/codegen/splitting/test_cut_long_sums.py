"""Long sums that are cut in blocks keep their guards, conditions, ends and ranges."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor

LONG = (1 << 18) + 77
V = te.placeholder((LONG,), "float64", name="V")
W = te.placeholder((2 * LONG,), "float64", name="W")
A = np.arange(LONG) % 7 - 3.0
B = np.arange(2 * LONG) % 5 - 2.0


def found(t: Tensor) -> list[float]:
    return list(np.atleast_1d(ta.build(t, [V, W])(A, B)).tolist())


def test_sums_over_other_ranges_beside_each_other() -> None:
    k, m = te.reduce_axis(LONG, name="k"), te.reduce_axis(2 * LONG, name="m")
    t = te.compute((1,), lambda i: te.sum(V[k], axis=k) - te.sum(W[m], axis=m))
    assert found(t) == [A.sum() - B.sum()]


def test_a_range_that_begins_later() -> None:
    k = te.reduce_axis((1000, LONG), name="k")
    assert found(te.compute((1,), lambda i: te.sum(V[k], axis=k))) == [A[1000:].sum()]


def test_some_of_the_terms() -> None:
    k = te.reduce_axis(LONG, name="k")
    t = te.compute((1,), lambda i: te.sum(V[k], axis=k, where=W[k] > 0))
    assert found(t) == [A[B[:LONG] > 0].sum()]


def test_a_guard_around_a_long_sum() -> None:
    """Where it does not hold, what the terms read may lie outside of all memory."""
    k = te.reduce_axis(LONG, name="k")
    q = te.placeholder((2,), "int64", name="q")

    def chosen(i: Expr) -> Expr:
        inside = (q[i] >= 0) & (q[i] < 5)
        return te.select(inside, te.sum(V[k] * W[q[i]], axis=k), -1.0)

    f = ta.build(te.compute((2,), chosen), [V, W, q])
    assert f(A, B, np.array([1, 1 << 45])).tolist() == [A.sum() * B[1], -1.0]
