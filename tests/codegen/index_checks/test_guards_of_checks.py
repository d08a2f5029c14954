"""Indices are checked where they are used, and nowhere else; no check stands for a wider one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.errors import BoundsError
from tensorad.ir.tensor import Tensor

X = te.placeholder((4,), "float64", name="X")
Z = te.placeholder((9,), "float64", name="Z")
P = te.placeholder((3,), "int64", name="P")
M = te.placeholder((3,), "float64", name="M")
N = te.placeholder((3,), "float64", name="N")
XS, ZS = np.arange(1.0, 5.0), np.arange(10.0, 19.0)


def run(y: Tensor | list[Tensor], given: dict[Tensor, Any], **sizes: int) -> Any:
    arrays = {t: np.asarray(a, str(t.dtype)) for t, a in given.items()}
    return ta.build(y, list(arrays))(*arrays.values(), **sizes)


def raises(y: Tensor | list[Tensor], given: dict[Tensor, Any]) -> None:
    with pytest.raises(BoundsError):
        run(y, given)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("wrong", [5, -1])
def test_the_smaller_extent_is_checked(order: tuple[int, int], wrong: int) -> None:
    found = [Z, X]
    a, b = (found[n] for n in order)
    y = te.compute((3,), lambda i: a[P[i]] * b[P[i]])
    raises(y, {X: XS, Z: ZS, P: [0, wrong, 1]})
    assert run(y, {X: XS, Z: ZS, P: [0, 3, 1]}).tolist() == [10.0, 52.0, 22.0]
    both = [te.compute((3,), lambda i, t=t: t[P[i]]) for t in (a, b)]
    raises(both, {X: XS, Z: ZS, P: [0, wrong, 1]})


@pytest.mark.parametrize("more", [0, 1, -1])
def test_what_is_added_is_checked(more: int) -> None:
    y = te.compute((3,), lambda i: X[P[i]] + X[P[i] + more])
    low, high = max(0, -more), 3 - max(0, more)
    run(y, {X: XS, P: [low, high, low]})
    for wrong in {low - 1, high + 1}:
        raises(y, {X: XS, P: [low, wrong, low]})


def test_two_guarded_reads_are_checked_where_they_are_read() -> None:
    y = te.compute((3,), lambda i: te.select(M[i] > 0, X[P[i]] + X[P[i] + 1], -1.0))
    assert run(y, {X: XS, P: [9, 1, -9], M: [0, 1, 0]}).tolist() == [-1.0, 5.0, -1.0]
    raises(y, {X: XS, P: [9, 3, -9], M: [0, 1, 0]})


def test_what_a_guard_protects_is_not_read_by_tests() -> None:
    q = te.placeholder((3,), "int64", name="Q")

    def both(i: Any) -> Any:
        inside = (q[i] >= 0) & (q[i] < 3)
        return te.select(inside, X[P[q[i]]] + X[P[q[i]] + 1], -1.0)

    y = te.compute((3,), both)
    given = {X: XS, P: [2, 9, 0], q: [1 << 45, 0, -(1 << 45)]}
    assert run(y, given).tolist() == [-1.0, 7.0, -1.0]
    raises(y, given | {P: [3, 9, 0]})


def test_either_of_two_guards() -> None:
    y = te.compute(
        (3,),
        lambda i: (
            te.select(M[i] > 0, X[P[i]], 0.0) + te.select((M[i] > 0) & (N[i] > 0), X[P[i]] * 2, 0.0)
        ),
    )
    raises(y, {X: XS, P: [9, 0, 0], M: [1, 0, 0], N: [0, 0, 0]})
    assert run(y, {X: XS, P: [9, 0, 1], M: [0, 1, 1], N: [1, 0, 1]}).tolist() == [0.0, 1.0, 6.0]


def test_a_reductions_condition_guards_and_is_guarded() -> None:
    k = te.reduce_axis(3, name="k")
    some = te.compute((), lambda: te.sum(X[P[k]], axis=k, where=M[k] > 0))
    assert run(some, {X: XS, P: [9, 1, -9], M: [0, 1, 0]}) == 2.0
    raises(some, {X: XS, P: [9, 1, -9], M: [0, 1, 1]})
    asked = te.compute((), lambda: te.sum(M[k], axis=k, where=X[P[k]] > 0))
    raises(asked, {X: XS, P: [0, 4, 1], M: [1, 1, 1]})
    assert run(asked, {X: XS, P: [0, 3, 1], M: [1, 1, 1]}) == 3.0


def test_an_empty_loop_reads_nothing() -> None:
    n = te.size("n")
    w = te.placeholder((n,), "float64", name="W")
    k = te.reduce_axis(n, name="k")
    y = te.compute((3,), lambda i: te.sum(w[k] * X[P[i]], axis=k))
    assert run(y, {X: XS, P: [9, -9, 7], w: []}).tolist() == [0.0] * 3
    raises(y, {X: XS, P: [0, 4, 0], w: [1.0]})


def test_gradients_write_where_their_guards_hold() -> None:
    y = te.compute((3,), lambda i: te.select(M[i] > 0, X[P[i]] * X[P[i]], 0.0))
    h = te.placeholder((3,), "float64", name="H")
    g = ta.vjp(y, X, h)
    given = {X: XS, P: [9, 1, -9], M: [0, 1, 0], h: [1.0, 1.0, 1.0]}
    assert run(g, given).tolist() == [0.0, 4.0, 0.0, 0.0]
    raises(g, given | {M: [0, 1, 1]})


def rows(lower: Callable[[Any], Any], upper: Callable[[Any], Any], count: int) -> Tensor:
    """y[i]: the sum of X[C[k]] for lower(i) <= k < upper(i)."""

    def row(i: Any) -> Any:
        k = te.reduce_axis((lower(i), upper(i)), name="k")
        return te.sum(X[COLUMNS[k]], axis=k)

    return te.compute((count,), row)


COLUMNS = te.placeholder((6,), "int64", name="C")


def test_rows_that_do_not_ascend() -> None:
    ends = te.placeholder((4,), "int64", name="E")
    y = rows(lambda i: ends[i], lambda i: ends[i + 1], 3)
    good, bad = [0, 1, 2, 3, 0, 1], [0, 1, 2, 9, 0, 1]
    assert run(y, {X: XS, COLUMNS: good, ends: [0, 5, 2, 3]}).tolist() == [11.0, 0.0, 3.0]
    raises(y, {X: XS, COLUMNS: bad, ends: [0, 5, 2, 3]})
    raises(y, {X: XS, COLUMNS: bad, ends: [0, 2, 3, 4]})
    assert run(y, {X: XS, COLUMNS: bad, ends: [0, 2, 2, 3]}).tolist() == [3.0, 0.0, 3.0]


def test_rows_with_gaps() -> None:
    first, end = (te.placeholder((2,), "int64", name=n) for n in "FG")
    y = rows(lambda i: first[i], lambda i: end[i], 2)
    given = {X: XS, COLUMNS: [0, 1, 9, 3, 0, 1], first: [0, 3], end: [2, 5]}
    assert run(y, given).tolist() == [3.0, 5.0]
    raises(y, given | {end: [3, 5]})


@pytest.mark.parametrize("n", [1, 5, 16, 37])
def test_lanes_behind_the_end_are_not_looked_at(n: int) -> None:
    q = te.placeholder((n,), "int64", name="Q")
    y = te.compute((n,), lambda i: X[q[i] - 1] + X[3 - q[i] + 1])
    assert run(y, {X: XS, q: [1] * n}).tolist() == [5.0] * n
    raises(y, {X: XS, q: [*[1] * (n - 1), 0]})
