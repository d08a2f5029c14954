"""Data types with functions in their fields (`ta.Fn`): stored, applied, differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.support.programs.higher.kit import same

F64 = np.float64
H = 1e-6
Layer: Any = ta.variant(
    "Layer",
    Dense={"w": "float64[2, 2]", "n": "int64"},
    Act={"f": ta.Fn},
    Seq={"first": "Layer", "rest": ("Layer", [ta.Fn])},
)
X = np.array([0.1, 0.2])


def identity(y: Any) -> Any:
    return y


@ta.function
def run(layer: Any, x: Any) -> Any:
    arms = {
        Layer.Dense: lambda w, n: w @ x,
        Layer.Act: lambda f: f(x),
        Layer.Seq: lambda first, rest: rest[1][0](run(rest[0], run(first, x))),
    }
    return ta.match(layer, arms)


def net(a: Any) -> Any:
    inner = Layer.Seq(Layer.Act(ta.tanh), (Layer.Dense(np.eye(2) * 0.3, 2), [identity]))
    return Layer.Seq(Layer.Dense(a, 1), (inner, [ta.sin]))


def square(layer: Any, x: Any) -> Any:
    return (run(layer, x) ** 2).sum()


def slope(f: Any, a: float, *rest: Any) -> float:
    whole = ta.function(f)
    up, down = whole(F64(a + H), *rest), whole(F64(a - H), *rest)
    return float((up - down) / (2 * H))


A = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_functions_in_fields_are_applied() -> None:
    made = net(A)
    want = np.sin(0.3 * np.tanh(A @ X))
    assert np.allclose(run(made, X), want)
    assert np.allclose(ta.interpret(run, made, X), want)
    assert made.rest[1][0] is ta.sin and made.rest[0].first.f is ta.tanh
    assert repr(Layer.Act(identity)).startswith("Act(f=<function identity")


def test_gradients_by_values_that_hold_functions() -> None:
    by_net, by_x = ta.grad(square, (0, 1))(net(A), X)
    assert by_net.first.n is None and by_net.rest[0].rest[0].n is None
    assert by_net.rest[1][0] is ta.sin and isinstance(by_net, Layer.Seq)
    plain = ta.grad(lambda a, x: (ta.sin(0.3 * ta.tanh(a @ x)) ** 2).sum(), (0, 1))(A, X)
    same((by_net.first.w, by_x), plain)
    y, pull = ta.vjp(square, net(A), X)
    same(pull(1.0)[0].first.w, by_net.first.w)
    along = net(np.ones((2, 2)))
    pushed = ta.jvp(square, (net(A), X), (along, X))
    slopes = by_net.first.w.sum() + 0.3 * np.trace(by_net.rest[0].rest[0].w) + by_x @ X
    assert np.allclose(pushed, (y, slopes))


def test_the_derivative_goes_through_what_functions_capture() -> None:
    def f(a: Any, x: Any) -> Any:
        square = Layer.Act(lambda y: a * y * y)
        return run(Layer.Seq(square, (Layer.Act(ta.tanh), [lambda y: y + a])), x).sum()

    by_a, by_x = ta.grad(f, (0, 1))(F64(0.7), X)
    assert by_a == pytest.approx(slope(f, 0.7, X), rel=1e-6)
    assert np.allclose(by_x, 1.4 * X / np.cosh(0.7 * X * X) ** 2)
    second = ta.grad(ta.grad(f))(F64(0.7), X)
    assert second == pytest.approx(slope(ta.grad(f), 0.7, X), rel=1e-6)


def chosen(a: Any, x: Any) -> Any:
    """A branch decides which function it is."""
    layer = ta.cond(a > 0.5, lambda: Layer.Act(lambda y: a * y), lambda: Layer.Act(lambda y: y / a))
    return run(layer, x).sum()


def composed(a: Any, x: Any) -> Any:
    """A loop composes them."""

    def body(i: Any, layer: Any) -> Any:
        return ta.match(layer, _keep, lambda f: Layer.Act(lambda y: ta.sin(f(y) * a)), _keep)

    return run(ta.for_loop(0, 3, body, Layer.Act(identity)), x).sum()


def _keep(*fields: Any) -> Any:
    raise AssertionError("the alternative is known")


@ta.function
def build(n: Any, layer: Any, a: Any) -> Any:
    def more() -> Any:
        made = ta.match(layer, _keep, lambda f: Layer.Act(lambda y: ta.sin(f(y) * a)), _keep)
        return build(n - 1, made, a)

    return ta.cond(n < 1, lambda: layer, more)


def recursive(a: Any, x: Any) -> Any:
    """A function that calls itself does."""
    return run(build((a * 4.0).astype("int64"), Layer.Act(ta.fn(identity)), a), x).sum()


@pytest.mark.slow
@pytest.mark.parametrize("f", [chosen, composed, recursive])
def test_functions_that_data_choose(f: Any) -> None:
    whole, by_one = ta.function(f), ta.function(lambda a: f(a, X))
    for a in (0.3, 0.7):
        found = ta.grad(whole)(F64(a), X)
        assert found == pytest.approx(slope(whole, a, X), rel=1e-6)
        assert ta.jvp(by_one, (F64(a),), (1.0,))[1] == pytest.approx(found)
        assert whole(F64(a), X) == pytest.approx(ta.interpret(whole, F64(a), X))


@pytest.mark.parametrize("more", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_functions_over_arrays_as_long_as_a_counter_says(more: int) -> None:
    """The record of a function that data chose has a copy of all elements."""

    def f(x: Any, n: Any) -> Any:
        def each(i: Any, v: Any) -> Any:
            ys = ta.compute((i * more + 1,), lambda p: ta.sin(v * (p + 1.0)))
            chosen = ta.cond(
                v > 0.3,
                lambda: ta.fn(lambda u: (u * ys).sum()),
                lambda: ta.fn(lambda u: u - ys[0]),
            )
            return chosen(v) * 0.3 + 0.2

        return ta.for_loop(0, n, each, x)

    def plain(v: Any, n: int) -> Any:
        for i in range(n):
            ys = np.sin(v * (np.arange(i * more + 1) + 1.0))
            v = ((v * ys).sum() if v > 0.3 else v - ys[0]) * 0.3 + 0.2
        return v

    compiled, slope = ta.function(f), ta.grad(f)
    for n in (0, 1, 2, 5):
        x, h = np.float64(0.7), 1e-6
        assert compiled(x, np.int64(n)) == pytest.approx(plain(x, n), rel=1e-12)
        wanted = (plain(x + h, n) - plain(x - h, n)) / (2 * h)
        assert slope(x, np.int64(n)) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
