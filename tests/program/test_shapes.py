"""Calls of one function with arrays of several shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError, DefinitionError


def test_extents_that_differ_become_sizes() -> None:
    traces: list[Any] = []

    @ta.function
    def f(x: Any, w: Any) -> Any:
        traces.append([t.shape for t in (x, w)])
        return ta.topi.matmul(x, w)

    for n in (3, 5, 1, 0, 7):
        x, w = np.ones((n, 4)), np.ones((4, n))
        assert np.array_equal(f(x, w), x @ w)
    assert traces[0] == [(3, 4), (4, 3)] and len(traces) == 2
    assert traces[1][0][0] is traces[1][1][1]  # equal each time
    x, w = np.ones((2, 4)), np.ones((4, 9))
    assert np.array_equal(f(x, w), x @ w)
    assert len(traces) == 3 and traces[2][0][0] is not traces[2][1][1]
    assert f.memory(x, w).inputs == x.nbytes + w.nbytes
    assert "matmul" in str(f.lower(x, w))


@pytest.mark.parametrize(("rows", "columns"), [(2, 9), (9, 2)])
def test_extents_that_were_equal_may_differ_later_either_way(rows: int, columns: int) -> None:
    traces: list[object] = []

    @ta.function
    def f(x: Any, y: Any) -> Any:
        traces.append(x.shape)
        return x.sum(), y * y

    unequal = [(rows, columns), (rows + 1, columns + 1), (columns, rows), (rows + 2, columns)]
    for n, m in ((3, 3), (5, 5), *unequal, (4, 4)):
        x, y = np.arange(n) + 0.5, np.arange(m) - 1.5
        total, squares = f(x, y)
        assert total == x.sum() and np.array_equal(squares, y * y)
    assert len(traces) == 3  # numbers, one size, two sizes


def test_what_a_function_does_with_a_shape_does_not_depend_on_earlier_ones() -> None:
    cases: list[Callable[[Any], Any]] = [lambda x: x[:3], lambda x: x[1:-1], lambda x: x[-3:-1] * 2]
    for f in cases:
        cut = ta.function(f)
        for n in (5, 7, 2, 1, 0, 6, 2):
            x = np.arange(n) + 0.5
            np.testing.assert_array_equal(cut(x), f(x))
    slope = ta.grad(lambda x: (x[:3] ** 2).sum())
    for n in (4, 5, 2):
        assert slope(np.ones(n)).tolist() == [2.0] * min(n, 3) + [0.0] * (n - 3)
    third = ta.function(lambda x: x[2])
    assert third(np.arange(3.0)) == third(np.arange(4.0)) == 2
    for _ in range(2):
        with pytest.raises(BoundsError) as caught:
            third(np.ones(2))
        assert str(caught.value) == (
            "index 2 is outside of axis 0 of x, whose extent is 2.\n"
            "  in: x with shape (2,)\n"
            "  hint: use an index from -2 to 1."
        )
        assert caught.value.__context__ is None


def test_a_function_that_counts_with_extents_is_traced_for_each() -> None:
    @ta.function
    def f(x: Any) -> Any:
        for _ in range(x.shape[0]):
            x = x * 2
        return x

    for n in (3, 5, 2, 3):
        assert f(np.ones(n, "float32")).tolist() == [2.0**n] * n


def halved(a: Any, times: Any) -> Any:
    """Many a, a/2, a/4, ..."""
    return ta.scan(lambda c, _: (c * 0.5, c), a, length=times)[1]


EXTENT_USED: dict[str, Callable[[Any], Any]] = {
    "a formula": lambda n: ta.compute((n,), lambda j: (j + 1.0) * 1.5).sum(),
    "a scan": lambda n: ta.scan(lambda c, _: (c + 2.0, c), 1.0, length=n)[0],
    "a loop": lambda n: ta.for_loop(0, n, lambda i, c: c + 2.0, 1.0),
}


@pytest.mark.parametrize("way", EXTENT_USED)
def test_an_extent_that_an_iteration_tells_is_used_in_it(way: str) -> None:
    """By what reads nothing of the iteration beside it, which is no part of what is outside."""
    f = EXTENT_USED[way]

    def body(i: Any, c: Any) -> Any:
        ys = halved(1.0, i)
        return c + f(ys.shape[0]) + ys.sum()

    def wanted(n: int) -> float:
        of_extent = 1.5 * n * (n + 1) / 2 if way == "a formula" else 1.0 + 2.0 * n
        return of_extent + sum([0.5**i for i in range(n)])

    g = ta.function(lambda k: ta.for_loop(0, k, body, 0.0))
    for k in (0, 1, 4):
        assert g(k) == sum([wanted(n) for n in range(k)])


@pytest.mark.parametrize("way", EXTENT_USED)
def test_an_extent_of_a_loop_that_does_not_run_is_refused(way: str) -> None:
    f = ta.function(lambda k: EXTENT_USED[way](halved(1.0, k).shape[0]))
    with pytest.raises(DefinitionError) as caught:
        f(3)
    assert "uses how many iterations a loop has, trips, an extent of its rows" in str(caught.value)
    assert "hint: count them by a carry of the loop" in str(caught.value)
