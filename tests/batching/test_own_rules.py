"""vmap of functions with rules of one direction, of solvers, of Python's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError

X = np.random.default_rng(0).standard_normal((3, 4))
RULES = {
    "vjp": {"vjp": lambda out, h, x: [h * 2.0 * x]},
    "jvp": {"jvp": lambda primals, tangents: 2.0 * primals[0] * tangents[0]},
}


@pytest.mark.parametrize("given", RULES)
def test_rules_of_one_direction_serve_all_rows_in_both_modes(given: str) -> None:
    f = ta.custom_rule(**RULES[given])(lambda x: x * x)

    def total(x: Any) -> Any:
        return (f(x) * x).sum()

    rows = ta.vmap(lambda x: f(x) * x)
    np.testing.assert_allclose(ta.function(ta.vmap(ta.grad(total)))(X), 3 * X * X)
    np.testing.assert_allclose(ta.jvp(rows, (X,), (X,))[1], 3 * X**3)
    np.testing.assert_allclose(ta.grad(lambda x: ta.vmap(total)(x).sum())(X), 3 * X * X)
    shared = ta.vmap(lambda x, y: f(x) * y, in_axes=(None, 0))
    np.testing.assert_allclose(
        ta.jvp(lambda x: shared(x, X), (X[0],), (X[0],))[1], 2 * X[0] ** 2 * X
    )


@pytest.mark.slow
def test_solvers_solve_each_row() -> None:
    a = np.array([2.0, 3.0, 4.0])
    roots = ta.vmap(lambda a: ta.root(lambda x: x * x - a, 1.0))
    value, slopes = ta.value_and_grad(lambda a: roots(a).sum())(a)
    np.testing.assert_allclose(value, np.sqrt(a).sum())
    np.testing.assert_allclose(slopes, 0.5 / np.sqrt(a))
    m = np.random.default_rng(1).standard_normal((3, 2, 2)) + 3 * np.eye(2)
    found = ta.function(ta.vmap(ta.linear_solve, in_axes=(0, None)))(m, X[0, :2])
    np.testing.assert_allclose(found, [np.linalg.solve(n, X[0, :2]) for n in m])


def test_functions_of_python_are_called_row_by_row() -> None:
    calls = []

    def ordered(x: Any, scale: Any) -> Any:
        calls.append(x.shape)
        x *= scale
        return np.sort(x)

    f = ta.foreign(ordered, lambda x, scale: x)
    rows = ta.vmap(f, in_axes=(0, None))
    assert (ta.function(rows)(X, 2.0) == np.sort(2 * X, 1)).all()
    assert calls == [(4,)] * 3
    x = ta.placeholder((3, 4), "float64", name="x")
    assert (ta.interpret(rows(x, 2.0), {x: X}) == np.sort(2 * X, 1)).all()
    assert ta.function(rows)(X[:0], 2.0).shape == (0, 4)


def test_rows_of_different_lengths_are_refused() -> None:
    f = ta.foreign(np.sort, lambda x: x)

    def of_some(x: Any, n: Any) -> Any:
        _, rows = ta.scan(lambda c, t: (c, c), x[0], length=n)
        return f(rows).sum()

    with pytest.raises(DefinitionError, match="vmap cannot map sort"):
        ta.function(ta.vmap(of_some))(X, np.array([1, 2, 3]))


def test_functions_of_python_may_change_what_they_are_given() -> None:
    def spent(x: Any, scale: Any) -> Any:
        scale += 1.0
        x *= scale
        return x

    f = ta.vmap(ta.foreign(spent, lambda x, scale: x), (0, None))
    x, scale = np.ones((3, 2)), np.array([1.0, 4.0])
    assert f(x, scale).tolist() == [[2.0, 5.0]] * 3
    assert (x == 1.0).all() and scale.tolist() == [1.0, 4.0]
