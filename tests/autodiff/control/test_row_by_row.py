"""Jacobians through records and through functions that call themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.row_by_row import goes_one_by_one

X = np.array([0.5, -0.3, 0.2])


@ta.function
def deep(n: Any, x: Any) -> Any:
    return ta.cond(n <= 0, lambda: x, lambda: ta.sin(deep(n - 1, x * x[0])) + x)


def plain(n: int, x: Any) -> Any:
    return x if n <= 0 else ta.sin(plain(n - 1, x * x[0])) + x


def test_other_programs_take_all_directions_at_once() -> None:
    x, n = ta.placeholder((3,), "float64"), ta.placeholder((), "int64")
    assert goes_one_by_one(deep(n, x) * 2, x, None)
    assert not goes_one_by_one(plain(2, x), x, None)
    assert not goes_one_by_one(x * deep(n, ta.stop_gradient(x)), x, None)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobians_and_hessians_through_recursion(mode: str | None) -> None:
    def both(f: Any) -> list[Any]:
        def norm(x: Any) -> Any:
            return (f(2, x) ** 2).sum()

        by_mode = {"forward": True, "reverse": False}.get(mode or "")
        part = ta.jacobian(lambda m: f(2, m[0]) @ m.T, mode=mode)
        return [
            ta.jacobian(lambda x: f(2, x), mode=mode)(X),
            ta.hessian(norm, fw_mode=by_mode)(X),
            part(np.stack([X, 2 * X])),
        ]

    for got, wanted in zip(both(deep), both(plain), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_what_data_choose_has_a_jacobian() -> None:
    def chosen(x: Any) -> Any:
        return ta.cond(x[0] > 0, lambda: lambda y: y * x[1], lambda: lambda y: y + x)(x)

    wanted = np.diag([X[1]] * 3) + np.outer(X, [0, 1, 0])
    np.testing.assert_allclose(ta.jacobian(chosen)(X), wanted)


@pytest.mark.slow
def test_equations_may_have_recursion() -> None:
    def solved(f: Any) -> Any:
        return ta.jacobian(lambda a: ta.root(lambda x: f(2, x) - a, a))(X)

    np.testing.assert_allclose(solved(deep), solved(plain), rtol=1e-9, atol=1e-12)
