"""Systems of linear equations: of matrices, of functions, by all methods, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, UserError
from tests.seeds.differences import check_gradient

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


def error(kind: type[UserError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    text: list[str] = str(caught.value).splitlines()
    return text[0].replace(text[0].split(" at ")[-1].split(" ")[0], "LINE", 1)


def test_what_is_no_system_is_refused() -> None:
    solve = ta.linear_solve
    assert error(ShapeError, lambda: solve(A[:3], B)) == (
        "the matrix of linear_solve at LINE has shape (3, 4)."
    )
    assert error(ShapeError, lambda: solve(A, B[:3])) == (
        "the right-hand side of linear_solve at LINE has shape (3,), but the matrix has shape "
        "(4, 4)."
    )
    assert error(DTypeError, lambda: solve(np.eye(2, dtype=int), np.arange(2))) == (
        "linear_solve at LINE is given no float."
    )
    assert error(DefinitionError, lambda: solve(A, B, method="cg")) == (
        "linear_solve at LINE solves the system of a matrix by its factors."
    )
    assert error(DefinitionError, lambda: solve(same, B, method="qr")) == (
        "linear_solve at LINE has no method 'qr'."
    )
    assert error(DefinitionError, lambda: solve(same, B, tol=-1.0)) == (
        "tol of linear_solve at LINE must be a number above 0, got -1.0."
    )
    assert error(DefinitionError, lambda: solve(same, B, max_iterations=0)) == (
        "max_iterations of linear_solve at LINE must be a positive integer, got 0."
    )
    assert error(DTypeError, lambda: solve(same, 3)) == "x of linear_solve at LINE is no float."
    assert error(DefinitionError, lambda: solve(lambda x: x[:2], B)) == (
        "the function of linear_solve at LINE must return a tree like x."
    )
    for f in (lambda x: x * x, lambda x: x + 1.0):
        assert error(GradError, lambda f=f: solve(f, B)) == (
            "the function of linear_solve at LINE is not linear in x."
        )


def same(x: Any) -> Any:
    return x
