"""Transposes of linear functions of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError, ShapeError, UserError

A = np.arange(6.0).reshape(2, 3)
X = np.array([0.5, -1.5, 2.0])


def two(x: Any, p: Any) -> Any:
    _, ys = ta.scan(lambda c, t: (c * 2.0 + t, c), np.float64(0), x)
    chosen = ta.cond(A[0, 0] > 1.0, lambda: x * 3.0, lambda: p["w"] * 2.0)
    return {"a": A @ x + p["w"][:2], "b": ys - chosen, "n": p["n"] + 1}


def test_it_is_the_transpose() -> None:
    p = {"w": X, "n": 3}
    g = ta.linear_transpose(two, X, p)
    rng = np.random.default_rng(0)
    x, w, a, b = [rng.standard_normal(n) for n in (3, 3, 2, 3)]
    forward = ta.function(two)(x, {"w": w, "n": 3})
    dx, dp = g({"a": a, "b": b, "n": None})
    assert dp["n"] is None
    np.testing.assert_allclose(
        forward["a"] @ a + forward["b"] @ b, x @ dx + w @ dp["w"], rtol=1e-12
    )


def test_inside_of_programs_and_twice() -> None:
    def f(w: Any) -> Any:
        turned = ta.linear_transpose(lambda x: ta.sin(w) * (A @ x), X)
        (dx,) = turned(w * 2.0)
        (again,) = ta.linear_transpose(lambda c: turned(c)[0], w)(dx)
        return dx.sum() + again.sum()

    def by_hand(w: Any) -> Any:
        m = ta.sin(w)[:, None] * A
        dx = m.T @ (w * 2.0)
        return dx.sum() + (m @ dx).sum()

    w = np.array([0.3, 0.7])
    np.testing.assert_allclose(ta.function(f)(w), ta.function(by_hand)(w))
    np.testing.assert_allclose(ta.grad(f)(w), ta.grad(by_hand)(w))


def error(kind: type[UserError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_what_is_not_linear_is_refused() -> None:
    hint = (
        "\n  in: linear_transpose of <lambda>\n  hint: write sums of arguments times what does not "
        "depend on them; ta.vjp transposes the derivative of any function at a point."
    )

    def turned(f: Any) -> str:
        return error(GradError, lambda: ta.linear_transpose(f, X)(X))

    slope = f"<lambda> is not linear: its derivative by x depends on its arguments.{hint}"
    assert turned(lambda x: x * x) == slope
    loop = ta.while_loop
    assert (
        turned(lambda x: loop(lambda c: c[1] < 3, lambda c: (c[0] * x, c[1] + 1), (x, 0))[0])
        == slope
    )
    assert turned(lambda x: x + 1.0) == (
        f"<lambda> is not linear: it is not 0 where its arguments are.{hint}"
    )
    assert "is not 0" in turned(lambda x: ta.for_loop(0, 3, lambda t, c: c + x, X))
    assert error(GradError, lambda: ta.linear_transpose(lambda n: n, 3)) == (
        "linear_transpose of <lambda> is given no example with a float.\n"
        "  in: number 3\n"
        "  hint: pass arguments of <lambda> after it: linear_transpose(f, x)."
    )
    assert error(ShapeError, lambda: ta.linear_transpose(lambda x: x[:2], X)(X)) == (
        "the cotangent of linear_transpose of <lambda> has shape (3,), but what it belongs to has "
        "shape (2,).\n"
        "  in: cotangent : float64 (3,)\n"
        "  hint: a cotangent has the shape of its array."
    )
