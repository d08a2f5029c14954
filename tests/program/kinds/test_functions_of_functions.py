"""Functions that data choose, which return functions; results of recursion that are functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta

X, H = 0.7, 1e-6


@ta.function
def returned(c: Any, x: Any) -> Any:
    """What is applied captures what the function that returned it captures."""

    def first() -> Any:
        t = ta.sin(x)
        return lambda: lambda v: v * t

    def second() -> Any:
        t = ta.cos(x)
        return lambda: lambda v: v + t

    made = ta.cond(c > 0, first, second)
    return made()(x)


@pytest.mark.parametrize("c", [1.0, -1.0])
def test_a_chosen_function_returns_a_function(c: float) -> None:
    def plain(x: float) -> float:
        return float(x * np.sin(x) if c > 0 else x + np.cos(x))

    at = np.float64(c), np.float64(X)
    assert [float(returned(*at)), float(ta.interpret(returned, *at))] == pytest.approx(
        [plain(X)] * 2
    )
    slope = (plain(X + H) - plain(X - H)) / (2 * H)
    assert float(ta.grad(returned, 1)(*at)) == pytest.approx(slope, rel=1e-6)
    pushed = ta.jvp(lambda x: returned(at[0], x), (at[1],), (1.0,))[1]
    assert float(pushed) == pytest.approx(slope, rel=1e-6)


@ta.function
def power(n: Any, x: Any) -> Any:
    def more() -> Any:
        v = power(n - 1, x)(x)
        return lambda u: u * v

    return ta.cond(n < 1, lambda: lambda u: u * x, more)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_a_recursion_returns_is_applied_inside(n: int) -> None:
    f = ta.function(lambda n, x: power(n, x)(x))
    at = n, np.float64(X)
    assert [float(f(*at)), float(ta.interpret(f, *at))] == pytest.approx([X ** (n + 2)] * 2)
    assert float(ta.grad(f, 1)(*at)) == pytest.approx((n + 2) * X ** (n + 1))
