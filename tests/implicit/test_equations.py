"""Roots, fixed points and minima with their implicit derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.seeds.support.differences import check_gradient

A = np.array([0.3, 0.5, 0.6])


def cubic(x: Any, a: Any) -> Any:
    return x * x * x + x - a


def by_root(a: Any) -> Any:
    return ta.root(cubic, np.ones(3), a)


def by_fixed_point(a: Any) -> Any:
    return ta.fixed_point(lambda x: a / (1.0 + x * x), np.ones(3))


def by_minimum(a: Any) -> Any:
    return ta.minimize(lambda x: (x**4 / 4.0 + x**2 / 2.0 - a * x).sum(), np.ones(3))


def slope(a: Any) -> Any:
    """x' of x^3 + x = a."""
    x = np.array([np.roots([1, 0, 1, -v])[-1].real for v in a])
    return x, 1 / (3 * x * x + 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "solve", [by_root, by_fixed_point, pytest.param(by_minimum, marks=pytest.mark.slow)]
)
def test_three_ways_to_one_function(solve: Any) -> None:
    x, d = slope(A)
    found, second = ta.function(lambda a: (solve(a), ta.hessian(lambda a: solve(a).sum())(a)))(A)
    np.testing.assert_allclose(found, x, rtol=1e-11)
    np.testing.assert_allclose(second, np.diag(-6 * x * d**3), rtol=1e-8, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solve", [by_root, by_fixed_point, by_minimum])
def test_first_derivatives_in_both_modes(solve: Any) -> None:
    _, d = slope(A)
    np.testing.assert_allclose(ta.jacrev(solve)(A), np.diag(d), rtol=1e-9)
    np.testing.assert_allclose(ta.jacfwd(solve)(A), np.diag(d), rtol=1e-9)
    np.testing.assert_allclose(ta.jvp(solve, (A,), (A,))[1], d * A, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solve", [by_root, by_fixed_point, by_minimum])
def test_third_derivatives_in_mixed_modes(solve: Any) -> None:
    second = ta.hessian(lambda a: solve(a).sum())
    _, along = ta.jvp(second, (A,), (np.ones(3),))
    h = 1e-4
    differences = (second(A + h) - second(A - h)) / (2 * h)
    np.testing.assert_allclose(along, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_hessian_by_an_implicit_solve_of_fifty_dimensions() -> None:
    rng = np.random.default_rng(0)
    n = 50
    m = rng.standard_normal((n, n)) / n

    def f(b: Any) -> Any:
        x = ta.root(lambda x: x + 0.3 * ta.sin(m @ x) + 0.1 * x * x * x - b, np.zeros(n))
        return (x * x).sum()

    b = rng.standard_normal(n)
    gradient, h = ta.grad(f), 1e-5
    rows = [(gradient(b + h * e) - gradient(b - h * e)) / (2 * h) for e in np.eye(n)]
    np.testing.assert_allclose(ta.hessian(f)(b), np.stack(rows), atol=1e-6)


@pytest.mark.slow
def test_trees_numbers_and_what_is_read_from_outside() -> None:
    def f(a: Any, w: Any) -> Any:
        def both(x: Any) -> Any:
            return {"u": x["u"] * 2.0 + w @ x["u"] - a, "v": x["v"] ** 3 - x["u"].sum() - 2.0}

        x = ta.root(both, {"u": np.zeros(3), "v": 1.0})
        y = ta.minimize(lambda y: (y - x["v"]) ** 2 + y * a[0], 0.0)
        return x["u"] @ x["u"] + y * x["v"]

    w = np.arange(9.0).reshape(3, 3) / 20.0
    found, gradient = ta.value_and_grad(f)(A, w)
    assert found.dtype == np.float64
    whole = ta.function(f)
    ahead, behind = [whole(A + s * 1e-6 * A, w) for s in (1, -1)]
    np.testing.assert_allclose((ahead - behind) / 2e-6, gradient @ A, rtol=1e-6)


@pytest.mark.slow
def test_inside_of_loops_branches_and_each_other() -> None:
    def inner(a: Any) -> Any:
        return ta.root(lambda x: x * x - a, 1.0)

    def f(a: Any) -> Any:
        y = ta.root(lambda y: inner(y + 1.0) + y - a, 0.5)
        z = ta.cond(y > 0.0, lambda: inner(a + y), lambda: y)
        _, rows = ta.scan(lambda c, t: (inner(c + 1.0) * a, c), z, length=2)
        return rows.sum()

    check_gradient(f, np.float64(1.7))


@pytest.mark.slow
def test_what_is_not_reached_is_nan() -> None:
    root, point, least = ta.root, ta.fixed_point, ta.minimize
    x = np.ones(2)
    for f in (
        lambda x: root(lambda x: x * x + 1.0, x),
        lambda x: root(lambda x: ta.exp(x) - 2.0, x * 50.0, max_iterations=3),
        lambda x: point(lambda x: x * 2.0, x, max_iterations=20),
        lambda x: least(lambda x: x.sum(), x),
    ):
        assert np.isnan(ta.function(f)(x)).all()
    assert np.isnan(ta.grad(lambda a: root(lambda x: x * x + a, x).sum())(np.float64(1))).all()
    far = ta.function(lambda x: root(lambda x: ta.atan(x), x))(x * 20.0)
    np.testing.assert_allclose(far, 0.0, atol=1e-8)


@pytest.mark.slow
def test_float32_and_how_derivatives_are_solved() -> None:
    a = A.astype("float32")
    for options in ({"linear": "gmres"}, {"linear": "cg", "tol": 1e-3, "max_iterations": 30}):
        f = lambda a, o=options: ta.root(cubic, np.ones(3, "float32"), a, **o).sum()  # noqa: E731  # short
        found = ta.grad(f)(a)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, slope(A)[1], rtol=1e-3)


@pytest.mark.slow
def test_as_jax_has_them() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp = jax.numpy

    def newton(f: Any, x: Any) -> Any:
        for _ in range(20):
            x = x - jnp.linalg.solve(jax.jacobian(f)(x), f(x))
        return x

    def linear(g: Any, y: Any) -> Any:
        return jnp.linalg.solve(jax.jacobian(g)(y), y)

    def theirs(a: Any) -> Any:
        return jax.lax.custom_root(lambda x: cubic(x, a), jnp.ones(3), newton, linear)

    a = A.astype("float32")
    wanted = np.asarray(jax.jacrev(theirs)(a))
    np.testing.assert_allclose(ta.jacrev(by_root)(A), wanted, atol=1e-5)


def test_a_step_that_damping_makes_small_is_no_minimum() -> None:
    """Beside the maximum at 0 all damped steps are shorter than what is asked for."""
    f = lambda x: x * x * x * x * 0.25 - x * x * 0.5  # noqa: E731  # short
    found = ta.function(lambda x: ta.minimize(f, x, tol=1e-3))(np.float64(0.004))
    np.testing.assert_allclose(found, 1.0, rtol=1e-4)
