"""Derivatives that use how often a loop runs, where nothing else of the loop is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.adjoints.told import returned
from tensorad.ir.analysis.blocks import ops_between, tells_trips
from tensorad.ir.arrays.elementwise import formula
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import cast
from tensorad.ir.tensor import Tensor


def powers(k: Any) -> Any:
    """1, 1/2, 1/4, ...: k numbers, which have no derivative."""
    return ta.scan(lambda a, _: (a * 0.5, a), 1.0, length=k)[1]


def added(x: Any, k: Any) -> Any:
    return (x + powers(k)).sum()


def counted(x: Any, k: Any) -> Any:
    ys = powers(k)
    return (x * ta.compute(ys.shape, lambda j: (j + 1.0) * 1.5)).sum() + ys.sum()


def in_iterations(x: Any, k: Any) -> Any:
    return ta.for_loop(0, 3, lambda i, c: c + (x * x + powers(k)).sum(), 0.0 * x)


def in_more_and_more(x: Any, k: Any) -> Any:
    """Each iteration has a length of its own."""
    return ta.for_loop(0, 3, lambda i, c: c + (x * x + powers(k + i)).sum(), 0.0 * x)


def in_an_arm(x: Any, k: Any) -> Any:
    return ta.cond(x > 0.0, lambda: (x * x + powers(k)).sum(), lambda: x)


SLOPES: dict[Callable[..., Any], tuple[Callable[..., float], Callable[..., float]]] = {
    added: (lambda x, k: k, lambda x, k: 0.0),
    counted: (lambda x, k: 1.5 * k * (k + 1) / 2, lambda x, k: 0.0),
    in_iterations: (lambda x, k: 6.0 * x * k, lambda x, k: 6.0 * k),
    in_more_and_more: (lambda x, k: 2.0 * x * (3 * k + 3), lambda x, k: 2.0 * (3 * k + 3)),
    in_an_arm: (lambda x, k: 2.0 * x * k, lambda x, k: 2.0 * k),
}
"""The first and the second derivative by x > 0, for k >= 0."""
COUNTS = (0, 2, 3)
X = np.float64(1.5)


@pytest.mark.parametrize("f", SLOPES)
def test_first_and_second_derivatives(f: Callable[..., Any]) -> None:
    first, second = SLOPES[f]
    slope = ta.grad(f)
    twice = ta.grad(slope)
    for k in COUNTS:
        assert slope(X, k) == first(X, k)
        assert twice(X, k) == second(X, k)
        example = ta.function(slope).example(X, k)
        assert ta.interpret(list(example.program.results), example.values) == [first(X, k)]


@pytest.mark.parametrize("f", SLOPES)
def test_for_many_examples(f: Callable[..., Any]) -> None:
    first, _ = SLOPES[f]
    ks = np.array(COUNTS)
    found = ta.vmap(ta.grad(f))(np.full(3, X), ks)
    np.testing.assert_allclose(found, [first(X, k) for k in COUNTS])


def test_a_negative_number_is_none() -> None:
    assert ta.grad(added)(X, -2) == 0.0
    assert ta.grad(in_iterations)(X, -2) == 0.0


def test_directions_without_a_function_around_them() -> None:
    found = ta.jvp(lambda x: added(x, ta.const(np.array(3))), (X,), (np.float64(2),))[1]
    assert found == 6.0


@pytest.mark.parametrize("f", SLOPES)
def test_directions_in_a_function(f: Callable[..., Any]) -> None:
    first, _ = SLOPES[f]

    @ta.function
    def slope(x: Any, k: Any) -> Any:
        return ta.jvp(lambda x: f(x, k), (x,), (ta.const(np.float64(1.0)),))[1]

    for k in COUNTS:
        assert slope(X, k) == first(X, k)


def test_a_formula_of_a_size_comes_after_what_tells_it() -> None:
    program = ta.function(lambda k: powers(k).sum()).trace(np.int64(3))
    ops = ops_between(program.results, program.parameters)
    (loop,) = [op for op in ops if tells_trips(op)]
    alone = formula("n", (), cast(loop.trips, FLOAT64), "")
    assert not any(tells_trips(op) for op in ops_between([alone], ()))
    (found,) = returned([alone], [alone], ops)
    assert [op.trips for op in ops_between([found], ()) if tells_trips(op)] == [loop.trips]
    (k,) = program.parameters
    assert ta.interpret([found], {k: np.int64(3)}) == [3.0]
    (same,) = returned(program.results, program.results, ops)
    assert isinstance(same, Tensor) and same is program.results[0]
