"""Functions of Python without a rule: found wherever derivatives flow through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.control.missing import check_complete
from tensorad.errors import GradError

X = ta.placeholder((3,), "float64", name="X")
N = ta.placeholder((), "int64", name="N")


def named(name: str) -> Any:
    def f(x: Any) -> Any:
        return x * 1.0

    f.__name__ = name
    return ta.foreign(f, lambda x: x)


def listed(y: Any) -> list[str]:
    try:
        check_complete([y], [X], {})
    except GradError as error:
        line = str(error).splitlines()[1].removeprefix("  in: ")
        return [part.split(" at ")[0] for part in line.split(", ")]
    return []


def test_all_that_derivatives_flow_through_are_listed() -> None:
    a, b, c, d = [named(n) for n in "abcd"]
    y = ta.cond(N > 0, lambda: a(X), lambda: ta.for_loop(0, N, lambda t, v: v + b(v), X))
    y = ta.function(lambda y: ta.while_loop(lambda v: v[0] < 9.0, lambda v: c(v), y))(y)
    assert listed(y.sum() + d(X).sum()) == ["a", "b", "c", "d"]
    assert listed(y.sum() + a(X).sum()) == ["a", "b", "c"]


def test_those_that_nothing_flows_through_are_not() -> None:
    a, b = named("a"), named("b")
    stopped = ta.for_loop(0, 2, lambda t, v: v * a(ta.stop_gradient(v)), X)
    assert listed(stopped) == []
    assert listed(ta.cond(a(X)[0] > 0.0, lambda: X, lambda: X * 2.0)) == []
    ruled = ta.custom_rule(vjp=lambda out, h, x: [h])(lambda x: b(x))
    assert listed(ruled(X)) == []
    fixed = a(ta.compute((3,), lambda i: ta.const(1.0, "float64"), name="ones"))
    assert listed(X * fixed) == []


def test_those_whose_results_are_stopped_are_not() -> None:
    a, b, c = [named(n) for n in "abc"]
    assert listed(X * ta.stop_gradient(a(X))) == []
    both = ta.function(lambda x: (x * 2.0, b(x)))
    assert listed(both(X)[0]) == []
    assert listed(both(X)[0] + both(X)[1]) == ["b"]
    loop = ta.for_loop(0, 2, lambda t, v: (v[0] * ta.stop_gradient(v[1]), c(v[0])), (X, X))
    assert listed(loop[0]) == []
    assert listed(loop[1]) == ["c"]
    passed = ta.for_loop(0, 2, lambda t, v: (v[0] * v[1], c(v[1])), (X, X))
    assert listed(passed[0]) == ["c"]


def test_what_is_stopped_is_a_number_in_both_modes() -> None:
    sort = ta.foreign(np.sort, lambda x: x)
    x, v = np.array([3.0, 1.0, 2.0]), np.array([1.0, -2.0, 0.5])

    def loss(x: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return c * 0.5 + (x * ta.stop_gradient(sort(x * c))).sum()

        return ta.for_loop(0, 2, step, 2.0) + (x * x * ta.stop_gradient(sort(x))).sum()

    weights = [2.0 * np.sort(x), np.sort(x) * (1.0 + (x * 2.0 * np.sort(x)).sum())]
    wanted = 0.5 * weights[0] + weights[1] + 2.0 * x * np.sort(x)
    np.testing.assert_allclose(ta.grad(loss)(x), wanted)
    np.testing.assert_allclose(ta.jvp(loss, (x,), (v,))[1], wanted @ v)


def test_every_derivative_looks() -> None:
    a = named("a")
    y = a(X).sum()
    v = np.ones(3)

    def main(x: Any = X) -> Any:
        return a(x).sum()

    for derive in (
        lambda: ta.vjp(y, [X]),
        lambda: ta.jvp(y, {X: v}),
        lambda: ta.jacobian(a(X), X),
        lambda: ta.jacobian(a(X), X, mode="forward"),
        lambda: ta.hvp(y, X, v),
        lambda: ta.grad(lambda x: a(x).sum())(v),
        lambda: ta.gradient(ta.module(main), "main"),
    ):
        with pytest.raises(GradError, match="foreign function that derivatives flow through has"):
            derive()
