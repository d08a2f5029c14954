"""Demands of PyTorch's forward mode (S002) that are about levels."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import GradError
from tensorad.process import forget
from tests.levels.ways import pushed

RNG = np.random.default_rng(0)
X, V = RNG.uniform(0.3, 1.3, 10), RNG.standard_normal(10)


def smooth(x: Any) -> Any:
    return topi.sin(x) * x * x


# one level


@pytest.mark.parametrize("compiled", [False, True])
def test_s002_04_and_s002_05_the_first_example(compiled: bool) -> None:
    def both(x: Any, v: Any) -> Any:
        with ta.dual_level():
            dual_x = ta.make_dual(x, v)
            res = smooth(dual_x)
            f_val, jvp = ta.unpack_dual(res)
        return f_val, jvp

    f_val, jvp = (ta.function(both) if compiled else both)(X, V)
    np.testing.assert_allclose(np.asarray(f_val), np.sin(X) * X * X)
    np.testing.assert_allclose(jvp, (np.cos(X) * X * X + 2 * np.sin(X) * X) * V)


def test_s002_04_the_current_level_is_the_default() -> None:
    with ta.dual_level() as outer:
        assert outer.number == 0
        with ta.dual_level() as inner:
            assert inner.number == 1
            d = ta.make_dual(X, V)
            assert ta.unpack_dual(d)[1] is not None
            assert ta.unpack_dual(d, level=inner)[1] is not None
            assert ta.unpack_dual(d, level=1)[1] is not None
            assert ta.unpack_dual(d, level=outer)[1] is None
        assert ta.unpack_dual(d)[1] is None


def operators(x: Any) -> Any:
    return (x[1:] * x[:-1] - x[2] / (1.0 + x[0])).sum() + max(2.0, 1.0) * abs(x[-1])


def from_topi(x: Any) -> Any:
    y = topi.nn.softmax(x.reshape(2, 5), axis=1)
    return (topi.cumsum(y, axis=1) @ y.T).max(axis=0)


def computes(x: Any) -> Any:
    k = ta.reduce_axis(4, name="k")
    y = ta.compute((7,), lambda i: ta.sum(x[i + k] * x[k], axis=k), name="window")
    total = ta.scan(y, 0)
    place = ta.const(np.array([0, 2, 2, 1, 0, 1, 2]))
    return topi.scatter_add(topi.full((3,), 0.0, "float64"), place, total * total)


def places(x: Any) -> Any:
    y = x.at[2].set(x[0] * x[1]).at[3:5].add(x[:2])
    return y.at[::2].mul(x[::2]).at[topi.argmax(x, 0)].set(x[9])


def control(x: Any) -> Any:
    @ta.function
    def grown(c: Any) -> Any:
        return topi.sin(c) + c

    y = ta.for_loop(0, 3, lambda t, c: ta.cond(c[0] > t, lambda: grown(c) * x, lambda: c), x)
    z = ta.while_loop(lambda c: c.sum() < 20.0, lambda c: c * 1.5 + 0.1, y * y)
    return ta.scan(lambda c, row: (c + row * c, c * row), 1.0, z)[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [operators, from_topi, computes, places, control])
def test_s002_06_ordinary_code_in_between(f: Callable[[Any], Any]) -> None:
    wanted = ta.jvp(f, (X,), (V,))[1]
    with ta.dual_level():
        _, outside = ta.unpack_dual(f(ta.make_dual(X, V)))
    inside = ta.function(lambda x, v: pushed(f, x, v))(X, V)
    step = 1e-6
    slope = (ta.function(f)(X + step * V) - ta.function(f)(X - step * V)) / (2 * step)
    np.testing.assert_allclose(np.asarray(outside), wanted, rtol=1e-12)
    np.testing.assert_allclose(inside, wanted, rtol=1e-12)
    np.testing.assert_allclose(inside, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", [operators, control])
def test_s002_07_gradients_of_tangents_by_both_of_their_arguments(f: Any) -> None:
    def loss(x: Any, v: Any) -> Any:
        tangent = pushed(f, x, v)
        return (tangent * tangent).sum()

    found = ta.grad(loss, argnums=(0, 1))(X, V)
    value = ta.function(loss)
    for n, gradient in enumerate(found):
        along = RNG.standard_normal(10) * 1e-6
        moved = [(X + s * along * (n == 0), V + s * along * (n == 1)) for s in (1, -1)]
        slope = (value(*moved[0]) - value(*moved[1])) / 2
        np.testing.assert_allclose(gradient @ along, slope, rtol=1e-5, atol=1e-11)


def test_s002_07_of_tensors_outside_of_functions() -> None:
    x = ta.const(X)
    with ta.dual_level():
        d = ta.make_dual(x, V)
        tangent = ta.unpack_dual(smooth(d).sum())[1]
        by_x, by_d = ta.vjp(tangent, [x])[0], ta.vjp(tangent, [d])[0]
    wanted = (-np.sin(X) * X * X + 4 * np.cos(X) * X + 2 * np.sin(X)) * V
    np.testing.assert_allclose(by_x, wanted)
    np.testing.assert_allclose(by_d, wanted)


@pytest.mark.slow
def test_s002_07_the_gradient_of_the_trace_of_a_hessian() -> None:
    x, eye = X[:2], np.eye(2)

    def f(x: Any) -> Any:
        return (x * x * x[0] * x[1] + topi.sin(x)).sum()

    def trace(x: Any) -> Any:
        found = []
        for e in eye:
            with ta.dual_level(), ta.dual_level():
                inner = ta.make_dual(ta.make_dual(x, e, level=0), e, level=1)
                _, first = ta.unpack_dual(f(inner), level=1)
                found.append(ta.unpack_dual(first, level=0)[1])
        return found[0] + found[1]

    by_hessian = ta.grad(lambda x: ta.hessian(f)(x)[0, 0] + ta.hessian(f)(x)[1, 1])(x)
    np.testing.assert_allclose(ta.function(trace)(x), np.trace(ta.hessian(f)(x)), rtol=1e-12)
    np.testing.assert_allclose(ta.grad(trace)(x), by_hessian, rtol=1e-12)


# what is left outside


def test_s002_08_the_second_example() -> None:
    with ta.dual_level():
        dual_x = ta.make_dual(X, V)
        _, jvp = ta.unpack_dual(dual_x)
        assert jvp is not None
        np.testing.assert_array_equal(jvp, V)
    value, jvp = ta.unpack_dual(dual_x)
    assert jvp is None
    np.testing.assert_array_equal(value, X)


def test_s002_08_also_after_an_exception() -> None:
    kept: list[Any] = []
    with pytest.raises(ZeroDivisionError), ta.dual_level() as level:
        kept.append(ta.make_dual(X, V))
        with ta.dual_level() as inner:
            raise ZeroDivisionError
    assert level.is_left and inner.is_left
    assert ta.unpack_dual(kept[0])[1] is None
    with ta.dual_level() as again:
        assert again.number == 0
        assert ta.unpack_dual(kept[0])[1] is None
        assert ta.unpack_dual(ta.make_dual(kept[0], V))[1] is not None


def test_s002_09_nothing_leaks() -> None:
    def made(x: Any, v: Any) -> tuple[Any, Callable[[Any], Any]]:
        with ta.dual_level():
            d = ta.make_dual(x, v)
            return ta.unpack_dual(d * d)[1], lambda y: d * y

    tangent, closure = made(X, V)
    with ta.dual_level():
        assert ta.unpack_dual(closure(X))[1] is None
        _, by_y = ta.unpack_dual(closure(ta.make_dual(X, V)))
        np.testing.assert_allclose(by_y, X * V)
    np.testing.assert_allclose(ta.function(closure)(X), X * X)
    np.testing.assert_allclose(tangent, 2 * X * V)

    @ta.function
    def inside(x: Any, v: Any) -> Any:
        _, closure = made(x, v)
        with ta.dual_level():
            value, tangent = ta.unpack_dual(closure(x))
            assert tangent is None
        return value

    np.testing.assert_allclose(inside(X, V), X * X)


def test_s002_09_what_is_forgotten_is_free() -> None:
    with ta.dual_level():
        d = ta.make_dual(X, V)
        tangent = weakref.ref(ta.unpack_dual(topi.sin(d))[1])
        dual = weakref.ref(d)
        del d
    forget()
    gc.collect()
    assert dual() is None and tangent() is None


# several levels


@pytest.mark.parametrize("compiled", [False, True])
def test_s002_10_and_t_03_the_third_derivative_of_sin(compiled: bool) -> None:
    ones = np.ones(10)

    def third(x: Any) -> Any:
        with ta.dual_level():
            a = ta.make_dual(x, ones)
            with ta.dual_level():
                b = ta.make_dual(a, ones)
                with ta.dual_level():
                    c = ta.make_dual(b, ones)
                    _, first = ta.unpack_dual(topi.sin(c), level=2)
                _, second = ta.unpack_dual(first, level=1)
            return first, second, ta.unpack_dual(second, level=0)[1]

    first, second, found = (ta.function(third) if compiled else third)(X)
    np.testing.assert_allclose(first, np.cos(X))
    np.testing.assert_allclose(second, -np.sin(X))
    np.testing.assert_allclose(found, -np.cos(X))


def test_s002_10_values_and_tangents_are_duals_of_the_outer_level() -> None:
    def f(x: Any, v: Any, dv: Any) -> Any:
        with ta.dual_level() as outer:
            d, w = ta.make_dual((x, v), (v, dv))
            with ta.dual_level():
                value, tangent = ta.unpack_dual(smooth(ta.make_dual(d, w)))
                assert ta.unpack_dual(value)[1] is None and ta.unpack_dual(tangent)[1] is None
            return ta.unpack_dual((value, tangent), level=outer)[1]

    value, tangent = ta.function(f)(X, V, X)
    slope = np.cos(X) * X * X + 2 * np.sin(X) * X
    second = -np.sin(X) * X * X + 4 * np.cos(X) * X + 2 * np.sin(X)
    np.testing.assert_allclose(value, slope * V)
    np.testing.assert_allclose(tangent, second * V * V + slope * X)


@pytest.mark.parametrize("compiled", [False, True])
def test_s002_11_a_tangent_for_each_level(compiled: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        with ta.dual_level(), ta.dual_level():
            a, b = ta.make_dual(x, V, level=0), ta.make_dual(y, X, level=1)
            both = ta.make_dual(a, V, level=1)
            z = topi.sin(a) * b + both
            at_0, at_1 = ta.unpack_dual(z, level=0)[1], ta.unpack_dual(z, level=1)[1]
            mixed = ta.unpack_dual(at_1, level=0)[1]
            other = ta.unpack_dual(at_0, level=1)[1]
            assert ta.unpack_dual(a, level=1)[1] is None
            assert ta.unpack_dual(b, level=0)[1] is None
        return at_0, at_1, mixed, other

    at_0, at_1, mixed, other = (ta.function(f) if compiled else f)(X, V)
    np.testing.assert_allclose(at_0, np.cos(X) * V * V + V)
    np.testing.assert_allclose(at_1, np.sin(X) * X + V)
    np.testing.assert_allclose(mixed, np.cos(X) * V * X)
    np.testing.assert_allclose(other, mixed)


def test_s002_12_levels_out_of_order_are_all_left() -> None:
    outer, inner = ta.dual_level(), ta.dual_level()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(GradError, match="level 0 is left while level 1"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    with ta.dual_level() as again:
        assert again.number == 0


def test_s002_12_threads_have_levels_of_their_own() -> None:
    found: dict[str, Any] = {}
    start = threading.Barrier(3)

    def work(k: int) -> None:
        start.wait()
        with ta.dual_level() as level:
            d = ta.make_dual(X * k, V)
            start.wait()
            found[f"number {k}"] = level.number
            found[f"value {k}"] = np.asarray(ta.unpack_dual(d * d)[1])
            start.wait()

    def alone() -> None:
        found["shared"] = ta.unpack_dual(shared)[1]

    with ta.dual_level():
        shared = ta.make_dual(X, V)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        threads.append(threading.Thread(target=alone))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert ta.unpack_dual(shared)[1] is not None
    assert found["shared"] is None
    for k in range(3):
        assert found[f"number {k}"] == 0
        np.testing.assert_allclose(found[f"value {k}"], 2 * X * k * V)


def test_s002_28_one_tangent_at_each_level() -> None:
    with ta.dual_level():
        d = ta.make_dual(X, V)
        for x, v in ((d, V), (topi.sin(d), V), (X, d)):
            with pytest.raises(GradError, match="has a tangent at level 0 already"):
                ta.make_dual(x, v)
        value, tangent = ta.unpack_dual(d * d)
        again = ta.make_dual(value, tangent)
        np.testing.assert_allclose(ta.unpack_dual(again)[1], 2 * X * V)
        with ta.dual_level():
            assert ta.unpack_dual(ta.make_dual(d, V))[1] is not None
