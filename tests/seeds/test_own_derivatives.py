"""Derivatives of one's own: composites (S001), forward mode (S002), Python's functions (S000), one
direction for both modes (T)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import GradError
from tests.seeds.support.differences import check_gradient

RNG = np.random.default_rng(0)
Y = RNG.standard_normal((4, 5))
T = np.eye(5)[[0, 3, 2, 1]]
X = np.array([0.5, -1.5, 2.0])


def cross_entropy(y: Any, t: Any) -> Any:
    """The sum over rows of -log softmax(y) where t is 1."""
    return -(t * topi.nn.log_softmax(y)).sum()


def probabilities(y: Any, t: Any, out: Any) -> Any:
    return topi.nn.softmax(y)


def differences(p: Any, delta: Any, y: Any, t: Any) -> list[Any]:
    return [(p - t) * delta, ta.no_grad]


overridden = ta.custom_rule(vjp=differences, save=probabilities)(cross_entropy)


@pytest.mark.slow
def test_s001_23_softmax_with_cross_entropy_overridden_as_a_whole() -> None:
    p = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
    delta = np.float64(2.5)
    _, pullback = ta.vjp(overridden, Y, T)
    dy, dt = pullback(delta)
    np.testing.assert_allclose(dy, (p - T) * delta, rtol=1e-13)
    assert (dt == 0.0).all()
    along = RNG.standard_normal(Y.shape)
    _, slope = ta.jvp(lambda y: overridden(y, T), (Y,), (along,))
    np.testing.assert_allclose(slope, ((p - T) * along).sum(), rtol=1e-12)
    own, plain = [ta.hessian(lambda y, f=f: f(y, T)) for f in (overridden, cross_entropy)]
    np.testing.assert_allclose(own(Y), plain(Y), atol=1e-13)


def test_s001_23_it_is_formulas_of_a_program_like_others() -> None:
    x = ta.placeholder((4, 5), "float64", name="x")
    (dx,) = ta.vjp(overridden(x, ta.const(T)), [x])
    text = str(ta.lower([dx], [x]))
    assert "log" not in text, "the value is not computed for its gradient"


@pytest.mark.parametrize("given", ["jvp", "vjp", "both"])
def test_s002_14_users_override_the_forward_derivative(given: str) -> None:
    """As if d sin were 2 cos: no mode asks the formula."""
    ways = {
        "jvp": lambda primals, tangents: 2.0 * ta.cos(primals[0]) * tangents[0],
        "vjp": lambda out, h, x: [2.0 * ta.cos(x) * h],
    }
    f = ta.custom_rule(**{k: v for k, v in ways.items() if given in (k, "both")})(ta.sin)
    _, along = ta.jvp(lambda x: f(x * x), (X,), (X,))
    np.testing.assert_allclose(along, 2.0 * np.cos(X * X) * 2 * X * X)
    np.testing.assert_allclose(ta.grad(lambda x: f(x * x).sum())(X), 2.0 * np.cos(X * X) * 2 * X)
    np.testing.assert_allclose(
        ta.hessian(lambda x: f(x).sum())(X), np.diag(-2.0 * np.sin(X)), atol=1e-15
    )


def sort(x: Any) -> Any:
    return np.sort(x)


def cumulated(x: Any) -> Any:
    return np.cumsum(x)


def rounded(x: Any) -> Any:
    return np.round(x)


def test_s000_42_one_error_lists_all_foreign_functions_without_a_rule() -> None:
    foreign = [ta.foreign(f, lambda x: x) for f in (sort, cumulated)]
    free = ta.foreign(rounded, lambda x: x, rule=ta.custom_rule(vjp=lambda out, h, x: [h]))

    def f(x: Any) -> Any:
        y = ta.for_loop(0, 2, lambda t, c: foreign[0](c) + free(c), x)
        return ta.cond(y[0] > 0.0, lambda: foreign[1](y) + foreign[0](y), lambda: y).sum()

    texts = []
    for derive in (
        lambda: ta.grad(f)(X),
        lambda: ta.jvp(f, (X,), (X,)),
        lambda: ta.hessian(f)(X),
        lambda: ta.jacfwd(f)(X),
    ):
        with pytest.raises(GradError) as caught:
            derive()
        texts.append(str(caught.value))
    first, where, hint = texts[0].splitlines()
    assert texts == texts[:1] * 4
    assert first == "2 foreign functions that derivatives flow through have no rule."
    names = [part.split(" at ")[0] for part in where.removeprefix("  in: ").split(", ")]
    assert names == ["sort", "cumulated"]
    assert hint == (
        "  hint: write ta.foreign(f, shapes, rule=ta.custom_rule(vjp=...)); ta.stop_gradient of "
        "what it is given says that there is no derivative."
    )
    assert ta.grad(lambda x: free(x * 2.0).sum())(X).tolist() == [2.0] * 3


def test_t_13_one_direction_given_the_other_transposed() -> None:
    """jax#3996: a function has a rule for one mode only there."""

    def scan(x: Any, w: Any) -> Any:
        return ta.scan(lambda c, t: ((c + t) * w, c), np.float64(0), x)[1]

    def back(out: Any, h: Any, x: Any, w: Any) -> list[Any]:
        _, rows = ta.scan(lambda c, t: (c * w + t, c * w), np.float64(0), h, reverse=True)
        return [rows, ta.no_grad]

    f = ta.custom_rule(vjp=back)(scan)
    forward = ta.custom_rule(jvp=lambda p, d: ta.jvp(scan, p, d)[1])(scan)
    w = np.float64(0.7)
    wanted = ta.jacobian(scan)(X, w)
    for g in (f, forward):
        for jacobian in (ta.jacfwd, ta.jacrev):
            np.testing.assert_allclose(jacobian(g)(X, w), wanted, atol=1e-14)
    second = ta.hessian(lambda x: (f(x, w) ** 3).sum())(X)
    np.testing.assert_allclose(second, ta.hessian(lambda x: (scan(x, w) ** 3).sum())(X), atol=1e-13)
    check_gradient(lambda x, w: (forward(x, w) ** 2).sum(), X, w)
