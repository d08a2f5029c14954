"""`vmap`: functions of many examples are those of one, stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(3)
X = RNG.uniform(-1.5, 1.5, (5, 4))
W = RNG.standard_normal((4, 4)) / 2
A = np.exp(RNG.standard_normal(7) * 3)


def interpreted(f: Callable[..., Any], *args: Any) -> Array:
    """The result of a function, element by element."""
    example = (f if isinstance(f, ta.Function) else ta.function(f)).example(*args)
    (found,) = ta.interpret(list(example.program.results), example.values)
    return found


def stacked(f: Callable[..., Any], args: tuple[Any, ...], axes: tuple[int | None, ...]) -> Array:
    """f for one example after the other."""
    (count, *_) = [np.shape(a)[d] for a, d in zip(args, axes, strict=True) if d is not None]
    one = f if isinstance(f, ta.Function) else ta.function(f)
    rows = []
    for n in range(count):
        own = [a if d is None else np.take(a, n, d) for a, d in zip(args, axes, strict=True)]
        rows.append(interpreted(one, *own))
    return np.stack(rows)


def check(
    f: Callable[..., Any], *args: Any, axes: tuple[int | None, ...] | None = None,
    native: bool = True,
) -> None:  # fmt: skip
    """vmap of f is f for each example, interpreted and in machine code."""
    own = (0,) * len(args) if axes is None else axes
    mapped = ta.vmap(f, own)
    wanted = stacked(f, args, own)
    for found in (interpreted(mapped, *args), *([mapped(*args)] if native else [])):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def check_slopes(
    f: Callable[..., Any], *args: Any, axes: tuple[int | None, ...] | None = None,
    native: bool = False,
) -> None:  # fmt: skip
    """`check`, of f and its gradient; the gradient of the mapped function is that of each."""
    own = (0,) * len(args) if axes is None else axes
    check(f, *args, axes=axes, native=native)

    def total(*args: Any) -> Any:
        y = f(*args)
        return (y * y).sum()

    slope = ta.grad(total)
    check(slope, *args, axes=axes, native=native)
    if own[0] is not None:
        found = interpreted(ta.grad(lambda *given: (ta.vmap(f, own)(*given) ** 2).sum()), *args)
        np.testing.assert_allclose(found, stacked(slope, args, own), rtol=1e-8, atol=1e-12)

        def tangent(*given: Any) -> Any:
            return ta.jvp(f, given, given)[1]

        along = interpreted(lambda *given: ta.jvp(ta.vmap(f, own), given, given)[1], *args)
        np.testing.assert_allclose(along, stacked(tangent, args, own), rtol=1e-8, atol=1e-12)


def root(a: Any) -> Any:
    return ta.while_loop(lambda x: abs(x * x - a) > 1e-12 * a, lambda x: (x + a / x) / 2, a)


def test_formulas_get_one_axis_more() -> None:
    w = ta.const(W)
    check_slopes(lambda x: ta.tanh(x @ w), X)
    check_slopes(lambda x, w: ta.tanh(x @ w), X, W, axes=(0, None), native=True)
    check(lambda x: topi.nn.softmax(x[None, :])[0], X)
    check(lambda x: x > 0.0, X)
    check(lambda x: (x * 3).astype("int64") % 2, X)


def test_scatters_and_scans_do() -> None:
    check_slopes(lambda x: ta.scan(x, 0), X)
    check_slopes(lambda x: ta.scan(x, 0, "max", reverse=True), X)
    check_slopes(lambda x: x.at[ta.const(np.array([1, 2, 1]))].add(x[:3]), X)
    indices = np.array([[0, 1], [1, 1], [3, 0], [2, 2], [0, 3]])
    check(lambda x, i: x.at[i].set(x[i] * 2), X, indices)
    check(lambda x, i: x[i[0]], X, indices, axes=(None, 0))


def test_branches_give_each_example_its_own_arm() -> None:
    def chosen(x: Any) -> Any:
        return ta.cond(x[0] > 0, lambda: ta.log(x[0]) * x, lambda: x * x)

    check_slopes(chosen, X)
    check_slopes(lambda x, up: ta.cond(up, lambda: x * x, lambda: ta.exp(x)), X, np.bool_(True),
                 axes=(0, None))  # fmt: skip
    which = np.array([0, 2, 1, -5, 9])
    arms = [lambda x: x * x, lambda x: ta.sqrt(abs(x)), lambda x: x.sum() * x]
    check(ta.grad(lambda x, n: ta.switch(n, arms, x).sum()), X, which)


def test_an_arm_that_an_example_does_not_take_is_not_computed() -> None:
    """No index out of range, no NaN, also in derivatives."""
    table = ta.const(np.arange(3.0))
    n = np.array([2, 7, -1, 0, 1])

    def safe(x: Any, n: Any) -> Any:
        return ta.cond((n >= 0) & (n < 3), lambda: ta.sqrt(x[0]) * table[n], lambda: x[1])

    x = np.where(((n >= 0) & (n < 3))[:, None], np.abs(X), -np.abs(X))
    x[1, 0] = np.inf
    check(safe, x, n)
    check(ta.grad(safe), x, n)


def test_loops_of_one_count_go_together() -> None:
    w = ta.const(W)
    check_slopes(lambda x: ta.for_loop(0, 3, lambda i, c: ta.tanh(c @ w) + i, x), X)
    check_slopes(lambda x: ta.scan(lambda c, v: (c + v, c * v), np.float64(0), x)[1], X)
    check_slopes(lambda x: ta.scan(lambda c, v: (c * v, c), np.float64(1), x, reverse=True)[1], X)
    check_slopes(
        lambda x: ta.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, x))[1], X
    )


def test_loops_end_for_each_example_by_itself() -> None:
    check_slopes(root, A, native=True)
    check(ta.grad(ta.grad(root)), A, native=False)
    check(lambda a: ta.while_loop(lambda x: x[0] < a, lambda x: (x[0] * 2, x[1] + 1), (1.0, 0))[1],
          A)  # fmt: skip
    count = np.array([3, 0, 5, 1, -2])

    def repeated(x: Any, n: Any) -> Any:
        return ta.for_loop(0, n, lambda i, c: ta.tanh(c) * (i + 1.0), x).sum()

    check(repeated, X, count)
    check(ta.grad(repeated), X, count)


@pytest.mark.slow
def test_second_derivatives_of_loops_that_end_by_themselves() -> None:
    def repeated(x: Any, n: Any) -> Any:
        return ta.for_loop(0, n, lambda i, c: ta.tanh(c) * (i + 1.0), x).sum()

    check(ta.hessian(repeated), X, np.array([3, 0, 5, 1, -2]))
    check(ta.grad(ta.grad(root)), A)
    check(lambda x: ta.vmap(ta.grad(root))(x * x), X)


def test_loops_inside_of_arms() -> None:
    """Rows of an inner loop have a length that the run tells."""

    def within(x: Any, n: Any) -> Any:
        def repeated() -> Any:
            return ta.for_loop(0, 3, lambda i, c: ta.tanh(c * x) + ta.exp(c), x)

        return ta.cond(n > 1, repeated, lambda: x).sum()

    check(ta.grad(within), X, np.array([3, 0, 5, 1, -2]))


def test_what_examples_share_gets_the_sum_of_their_gradients() -> None:
    """Also where nothing but the number of examples that take an arm decides it."""

    def chosen(x: Any, w: Any) -> Any:
        return ta.cond(x[0] > 0, lambda: ta.scan(x, 0)[3] + w, lambda: ta.scan(x, 0)[2] - 3.0 * w)

    def counted(x: Any, w: Any) -> Any:
        n = x[0] * 3
        return ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1.0, c[1] + w), (0.0, w * 0))[1]

    taken = (X[:, 0] > 0).sum()
    wanted = (taken - 3.0 * (len(X) - taken), np.maximum(np.ceil(X[:, 0] * 3), 0).sum())
    for f, total in zip((chosen, counted), wanted, strict=True):
        slope = ta.grad(lambda w, x, f=f: ta.vmap(f, (0, None))(x, w).sum())
        assert slope(np.float64(2), X) == total
        assert interpreted(slope, np.float64(2), X) == total


def test_rows_of_loops_that_differ_in_length() -> None:
    count = np.array([3, 0, 5, 1, 4])

    def rows(x: Any, n: Any) -> Any:
        _, ys = ta.scan(lambda c, _: (c * x, c), x, length=n)
        return (ys * ys).sum(axis=0) + ys.sum(axis=0)

    check(rows, X, count, native=False)
    check(ta.grad(lambda x, n: rows(x, n).sum()), X, count)


def test_an_extent_differs_from_the_second_iteration_on() -> None:
    """A loop of this length that is given nothing else that differs was looked at before."""

    def grown(x: Any, m: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            k, total = c
            _, ys = ta.scan(lambda a, _: (a * 0.5, a), np.float64(1), length=k)
            more = ta.scan(lambda a, _: (a * 0.5 + 1, a), np.float64(1), length=ys.shape[0])[0]
            return k + m, total + more + ys.sum()

        return ta.for_loop(0, 3, step, (1, x))[1]

    check(grown, X[:, 0], np.array([0, 1, 2, 0, 3]))


@pytest.mark.slow
def test_examples_may_be_nested() -> None:
    check(lambda x: ta.vmap(root)(x * x), X[:3, :2])
    check(lambda x: ta.vmap(ta.grad(root))(x * x), X[:3, :2], native=False)
    arms = ta.vmap(lambda a: ta.cond(a > 0, lambda: ta.scan(a * X[0], 0), lambda: X[1] * a))
    check(lambda x: arms(x), X, native=False)
    pairs = ta.vmap(ta.vmap(lambda a, b: a * b, (None, 0)), (0, None))
    assert (pairs(X[:, 0], X[0]) == np.multiply.outer(X[:, 0], X[0])).all()


def test_calls_and_their_rules() -> None:
    @ta.function
    def product(x: Any, y: Any) -> Any:
        return x * y * y

    check_slopes(lambda x: product(x, x) + product(x, np.ones(4)), X)

    @ta.function
    def ruled(x: Any, y: Any) -> Any:
        return x * y

    @ta.register_gradient(ruled)
    def rule(call: Any, gradient: Any) -> list[Any]:
        x, y = call.args
        return [gradient * y * 3.0, gradient * x * 5.0]

    check_slopes(lambda x: ruled(x, ta.exp(x)), X)
    w = W[0]
    check(ta.grad(lambda x, w: (ruled(x, w) ** 2).sum(), 1), X, w, axes=(0, None))
    shared = ta.grad(lambda w: (ta.vmap(ruled, (0, None))(X, w)).sum())(w)
    np.testing.assert_allclose(shared, 5 * X.sum(0))


def test_a_function_is_called_and_differentiated() -> None:
    """Its loops are there twice, and only once something of their iterations is kept."""

    @ta.function
    def inner(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return ta.for_loop(0, 2, lambda j, d: ta.sin(d) * x, c)

        return ta.for_loop(0, 3, step, x * 1.0)

    @ta.function
    def outer(x: Any) -> Any:
        return inner(x) * x

    check(lambda x: outer(x * 2.0) + ta.grad(outer)(x), X[:, 0])
    check(lambda x: ta.grad(outer)(x) + outer(x * 2.0), X[:, 0])


def test_trees_of_axes() -> None:
    def f(p: Any, x: Any, *, s: Any = 1.0) -> Any:
        return {"y": p["w"] @ x + p["b"][0], "c": p["b"][0] * s}

    p = {"w": np.stack([W, W + 1], axis=2), "b": [np.ones(4)]}
    got = ta.vmap(f, ({"w": -1, "b": None}, 1), {"y": 1, "c": None})(p, X[:2].T)
    for n in range(2):
        one = f({"w": p["w"][:, :, n], "b": p["b"]}, X[n])
        np.testing.assert_allclose(got["y"][:, n], one["y"])
    assert (got["c"] == np.ones(4)).all()
    spread = ta.vmap(f, (None, 0), (-1))(f_args := {"w": W, "b": [W[0]]}, X, s=np.ones(5))
    assert spread["c"].shape == (4, 5)
    assert f_args


def test_any_number_of_examples() -> None:
    """Which is a size from the second number on."""
    slope = ta.vmap(ta.grad(root))
    chosen = ta.vmap(lambda x: ta.cond(x[0] > 0, lambda: ta.scan(x, 0)[3], lambda: x[1]))
    for count in (5, 0, 1, 3):
        np.testing.assert_allclose(slope(A[:count]), 0.5 / np.sqrt(A[:count]))
        wanted = np.where(X[:count, 0] > 0, X[:count].sum(1), X[:count, 1])
        np.testing.assert_allclose(chosen(X[:count]), wanted)


def test_a_function_that_is_mapped_along_other_axes_is_another_one() -> None:
    doubled = ta.function(lambda x: x * 2.0)
    assert ta.vmap(doubled, 0, 0)(X[:2]).shape == (2, 4)
    assert ta.vmap(doubled, 0, 1)(X[:2]).shape == (4, 2)
    assert ta.vmap(doubled, 1, 0)(X[:2]).shape == (4, 2)
