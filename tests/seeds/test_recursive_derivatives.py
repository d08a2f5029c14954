"""Derivatives of programs with recursion, references and functions chosen by data (seed 004)."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta

X = np.array(0.7)


@ta.function
def product(x: Any, n: Any) -> Any:
    """sin(x) * sin(x / 2) * ..., by n calls."""
    return ta.cond(n > 0, lambda: ta.sin(x / n) * product(x, n - 1), lambda: 1.0 + 0.0 * x)


def power_in_a_reference(x: Any, n: Any) -> Any:
    """x ** (n + 1) where x is positive, otherwise x."""
    r = ta.ref(x)

    def raised() -> Any:
        ta.for_loop(0, n, lambda i, c: (r.set(r.get() * x), c)[1], 0)
        return r.get()

    return ta.cond(x > 0, raised, lambda: x)


def chosen(x: Any, n: Any) -> Any:
    """One of two closures, by data."""
    f = ta.cond(n > 2, lambda: lambda v: ta.sin(v * x), lambda: lambda v: v * v)
    return f(x) + f(x * 2.0)


def slope(f: Callable[[Any], Any], x: float, h: float = 1e-6) -> float:
    return (float(f(np.array(x + h))) - float(f(np.array(x - h)))) / (2 * h)


@pytest.mark.slow
def test_s004_09_four_derivatives_and_gradients_inside_of_loops() -> None:
    f: Any = power_in_a_reference
    for order in range(1, 5):
        f = ta.grad(f)
        want = math.prod(range(7 - order, 7)) * 0.7 ** (6 - order)
        assert f(X, 5) == pytest.approx(want, rel=1e-12)

    def descended(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return c - 0.1 * ta.grad(lambda v: (v - x) ** 2)(c)

        return ta.for_loop(0, n, step, 0.0)

    descend = ta.function(descended)
    assert descend(X, 10) == pytest.approx(0.7 * (1 - 0.8**10), rel=1e-6)
    assert ta.grad(descend)(X, 10) == pytest.approx(1 - 0.8**10, rel=1e-6)


@pytest.mark.parametrize("f", [product, power_in_a_reference, chosen])
def test_s004_14_forward_mode_of_all_forms(f: Any) -> None:
    whole = ta.function(f)
    _, tangent = ta.jvp(lambda x: whole(x, 4), (X,), (np.array(1.0),))
    assert tangent == pytest.approx(slope(lambda v: whole(v, 4), 0.7), rel=1e-7)
    assert tangent == pytest.approx(float(ta.grad(whole)(X, 4)), rel=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [product, power_in_a_reference, chosen])
def test_s004_15_every_mix_of_two_modes(f: Any) -> None:
    def along(g: Any) -> Any:
        return lambda x: ta.jvp(g, (x,), (1.0 + 0.0 * x,))[1]

    def one(x: Any) -> Any:
        return f(x, 3)

    mixes = [ta.grad(ta.grad(one)), ta.grad(along(one)), along(ta.grad(one)), along(along(one))]
    found = [float(ta.function(g)(X)) for g in mixes]
    assert found == pytest.approx([found[0]] * 4, rel=1e-12)
    assert found[0] == pytest.approx(slope(ta.function(ta.grad(one)), 0.7), rel=1e-6)


def test_s004_31_memory_is_released_when_a_call_ends() -> None:
    gradient = ta.grad(product)
    want = gradient(X, 300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2000):
        assert gradient(X, 300) == want
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096, "in KiB"
