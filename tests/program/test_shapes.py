"""Calls of one function with arrays of several shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError


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
