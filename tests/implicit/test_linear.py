"""Systems of linear equations: of matrices, of functions, by all methods, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.seeds.support.differences import check_gradient

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
S = A @ A.T
B, C = RNG.standard_normal(4), RNG.standard_normal((4, 3))


def test_a_matrix_with_one_and_several_right_hand_sides() -> None:
    f = ta.function(ta.linear_solve)
    for a, b in ((A, B), (np.array([[0.0, 2.0], [3.0, 1.0]]), np.ones((2, 2)))):
        np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-12)
    single = f(A.astype("float32"), B.astype("float32"))
    np.testing.assert_allclose(single, np.linalg.solve(A, B), rtol=1e-4)
    assert single.dtype == np.float32
    assert not np.isfinite(f(np.ones((4, 4)), B)).any()


def test_larger_matrices_are_solved_as_numpy_does() -> None:
    n = 33
    a, b = RNG.standard_normal((n, n)), RNG.standard_normal(n)
    np.testing.assert_allclose(ta.function(ta.linear_solve)(a, b), np.linalg.solve(a, b), rtol=1e-8)


def solved(a: Any, b: Any) -> Any:
    return (ta.linear_solve(a, b) ** 2).sum()


def test_derivatives_of_a_matrix_and_of_its_right_hand_side() -> None:
    x, inverse = np.linalg.solve(A, B), np.linalg.inv(A)
    da, db = ta.jacobian(ta.linear_solve, argnums=(0, 1))(A, B)
    np.testing.assert_allclose(db, inverse, rtol=1e-10)
    np.testing.assert_allclose(da, -np.einsum("ik,l->ikl", inverse, x), rtol=1e-10)
    h = ta.hessian(lambda b: solved(A, b))(B)
    np.testing.assert_allclose(h, 2 * inverse.T @ inverse, rtol=1e-10)


@pytest.mark.slow
def test_both_modes_and_differences_of_several_right_hand_sides() -> None:
    check_gradient(solved, A, C)
    assert ta.gradcheck(solved, A, B, order=2)


def along(method: str) -> Any:
    def f(w: Any, b: Any) -> Any:
        def product(x: Any) -> Any:
            own = x["u"] * w + (x["u"].sum() + x["v"]) * 0.5
            return {"u": own, "v": x["v"] * 3.0 + x["u"].sum() * 0.5}

        x = ta.linear_solve(product, {"u": b, "v": b[0] * 2.0}, method=method)
        return (x["u"] * x["v"]).sum()

    return f


def by_matrix(w: Any, b: Any) -> Any:
    def entry(i: Any, j: Any) -> Any:
        last = ta.select((i == 3) & (j == 3), 3.0, 0.5)
        own = ta.select(i == j, w[ta.minimum(i, 2)] + 0.5, 0.5)
        return ta.select((i < 3) & (j < 3), own, last)

    m = ta.compute((4, 4), entry, name="m")
    side = ta.compute((4,), lambda i: ta.select(i < 3, b[ta.minimum(i, 2)], b[0] * 2.0), name="b")
    x = ta.linear_solve(m, side)
    return (x[:3] * x[3]).sum()


W, V = np.array([2.0, 3.0, 4.0]), np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize(
    "method", ["gmres", *[pytest.param(m, marks=pytest.mark.slow) for m in ("lu", "cg")]]
)
def test_functions_of_trees_by_each_method(method: str) -> None:
    f, exact = along(method), ta.value_and_grad(by_matrix, argnums=(0, 1))(W, V)
    value, (dw, db) = ta.value_and_grad(f, argnums=(0, 1))(W, V)
    np.testing.assert_allclose(value, exact[0], rtol=1e-9)
    np.testing.assert_allclose(dw, exact[1][0], rtol=1e-8)
    np.testing.assert_allclose(db, exact[1][1], rtol=1e-8)
    _, slope = ta.jvp(f, (W, V), (V, W))
    np.testing.assert_allclose(slope, dw @ V + db @ W, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lu", "gmres", "cg"])
def test_second_derivatives_of_functions_by_each_method(method: str) -> None:
    found, wanted = ta.hessian(along(method))(W, V), ta.hessian(by_matrix)(W, V)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    check_gradient(along(method), W, V)


@pytest.mark.slow
def test_functions_that_a_loop_computes_and_systems_inside_of_loops() -> None:
    def f(w: Any, b: Any) -> Any:
        def product(x: Any) -> Any:
            return ta.for_loop(0, 2, lambda t, c: A @ (c * w), x)

        def step(c: Any, t: Any) -> Any:
            return ta.linear_solve(product, c + t), c

        last, _ = ta.scan(step, b, ta.compute((2,), lambda i: w[i], name="rows"))
        return last.sum()

    def by_hand(w: Any, b: Any) -> Any:
        inverse = np.linalg.inv(A @ np.diag(w) @ A @ np.diag(w))
        for t in w[:2]:
            b = inverse @ (b + t)
        return b.sum()

    w = np.array([1.0, 0.8, 1.2, 0.9])
    np.testing.assert_allclose(ta.function(f)(w, B), by_hand(w, B), rtol=1e-8)
    check_gradient(f, w, B)


def test_what_does_not_converge_is_nan() -> None:
    turned = lambda x: ta.compute((4,), lambda i: x[(i + 1) % 4], name="turned")  # noqa: E731  # short
    for options in ({"method": "cg"}, {"max_iterations": 1, "tol": 1e-30}):
        found = ta.function(lambda b, o=options: ta.linear_solve(turned, b, **o))(B)
        assert np.isnan(found).all()
    assert ta.function(lambda b: ta.linear_solve(turned, b))(B) == pytest.approx(np.roll(B, 1))
    zeros = ta.function(lambda b: ta.linear_solve(lambda x: x * 2.0, b))(np.zeros(4))
    assert zeros.tolist() == [0.0] * 4


def test_a_map_that_moves_alone() -> None:
    moved = 0.3 * np.eye(4) + 0.1
    for method in ("gmres", "cg"):
        f = lambda a, m=method: ta.linear_solve(lambda v: a @ v, B, method=m)  # noqa: E731  # short
        _, slope = ta.jvp(f, (S,), (moved,))
        expected = -np.linalg.solve(S, moved @ np.linalg.solve(S, B))
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-9)
