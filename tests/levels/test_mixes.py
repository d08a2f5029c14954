"""Random functions of a number: every mix of levels, `jvp` and `grad` gives the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tests.levels.ways import WAYS, Derive
from tests.random.generators import campaign

Scalar = Callable[[Any], Any]


def _in_loop(f: Scalar) -> Scalar:
    return lambda x: ta.for_loop(0, 2, lambda t, c: topi.sin(c) + f(x) * c, x)


def _in_while(f: Scalar) -> Scalar:
    return lambda x: ta.while_loop(lambda c: abs(c) < 1.0, lambda c: 1.5 * c + 0.1 * f(c) * x, x)


def _in_branch(f: Scalar, g: Scalar) -> Scalar:
    return lambda x: ta.cond(f(x) > 0.1, lambda: f(x) * x, lambda: g(x))


def _in_scan(f: Scalar) -> Scalar:
    rows = np.array([0.5, 1.5])
    return lambda x: ta.scan(lambda c, r: (topi.tanh(c * r) + x, f(c) * r), x, rows)[1].sum()


def _derived(f: Scalar) -> Scalar:
    return lambda x: x * WAYS["level"](lambda y: f(x * y), 0.7)


def written(rng: random.Random, depth: int) -> Scalar:
    """A random function with branches, loops, calls and derivatives inside."""
    if not depth:
        c = rng.choice([0.3, 0.8, 1.2])
        return rng.choice([lambda x: c * x, lambda x: topi.sin(x) + c, lambda x: x * x * c])
    f, g = written(rng, depth - 1), written(rng, depth - 1)
    made: list[Scalar] = [
        lambda x: f(x) * g(x), lambda x: f(topi.tanh(g(x))), lambda x: topi.exp(-f(x) * f(x)),
        _in_loop(f), _in_while(f), _in_branch(f, g), _in_scan(f), _derived(f),
        lambda x: ta.function(f)(x) + g(x),
    ]  # fmt: skip
    return rng.choice(made)


def through(f: Scalar, ways: tuple[Derive, ...]) -> Scalar:
    for way in ways:
        f = (lambda f, way: lambda x: way(f, x))(f, way)
    return f


SLOW: Final = pytest.mark.slow
SEEDS: Final = campaign(range(60), 30)
CASES: Final = [pytest.param(k, marks=() if k in (1, 9) else SLOW) for k in SEEDS]


@pytest.mark.parametrize("seed", CASES)
def test_second_derivatives(seed: int) -> None:
    f = written(random.Random(seed), 2)
    mixes = list(product(WAYS.values(), repeat=2))
    x = np.float64(0.6)
    first, second = ta.function(
        lambda x: ([way(f, x) for way in WAYS.values()], [through(f, m)(x) for m in mixes])
    )(x)
    np.testing.assert_allclose(first, first[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(second, second[0], rtol=1e-9, atol=1e-9)
    step = 1e-6
    value = ta.function(f)
    slope = (value(x + step) - value(x - step)) / (2 * step)
    np.testing.assert_allclose(first[0], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(12), 6))
def test_third_derivatives(seed: int) -> None:
    f = written(random.Random(seed), 1)
    mixes = list(product(WAYS.values(), repeat=3))
    found = ta.function(lambda x: [through(f, m)(x) for m in mixes])(np.float64(0.6))
    np.testing.assert_allclose(found, found[0], rtol=1e-9, atol=1e-9)
