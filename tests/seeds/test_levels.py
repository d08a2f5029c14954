"""Demands of PyTorch's forward mode (S002) that are about levels; perturbations (W-10)."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import GradError
from tensorad.ir.visit import placeholders
from tensorad.process import forget
from tests.seeds.test_forward_mode import KINKS
from tests.support.programs.differentiated import PROGRAMS

RNG = np.random.default_rng(0)
X, V = RNG.uniform(0.3, 1.3, 10), RNG.standard_normal(10)


def pushed(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """The derivative of f at x along v by a level; zeros where there is none."""
    with ta.dual_level():
        value, tangent = ta.unpack_dual(f(ta.make_dual(x, v)))
    return topi.full_like(value, 0.0) if tangent is None else tangent


def pushed_by_jvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    return ta.jvp(f, (x,), (v,))[1]


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


def control(x: Any) -> Any:
    @ta.function
    def grown(c: Any) -> Any:
        return topi.sin(c) + c

    y = ta.for_loop(0, 3, lambda t, c: ta.cond(c[0] > t, lambda: grown(c) * x, lambda: c), x)
    z = ta.while_loop(lambda c: c.sum() < 20.0, lambda c: c * 1.5 + 0.1, y * y)
    return ta.scan(lambda c, row: (c + row * c, c * row), 1.0, z)[1]


@pytest.mark.parametrize("f", [operators, from_topi, computes, control])
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


# modes


SQUARED: Final = ("running_sum", "recurrent_cell", "branches_on_data", "newton_by_while")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_s002_03_tangents_by_reverse_mode(name: str) -> None:
    y, wrt = PROGRAMS[name](3)
    along = {x: RNG.standard_normal([int(n) for n in x.shape]) for x in wrt}
    both = [ta.jvp(y, along, fw_mode=mode) for mode in (True, False)]
    inputs = [t for t in placeholders(both) if t not in wrt]
    f = ta.build([*both, ta.jvp(y, along)], [*wrt, *inputs])
    values = [RNG.uniform(0.3, 0.9, x.shape) for x in wrt]
    whole = [np.zeros(t.shape, str(t.dtype)) for t in inputs]
    forward, reverse, default = f(*values, *whole)
    scale = 1 + abs(float(forward))
    assert abs(float(forward) - float(reverse)) <= 1e-12 * scale
    assert forward == default


def bowl(x: Any) -> Any:
    y = ta.for_loop(0, 2, lambda t, c: c * x + ta.cond(c[0] > 0, lambda: c, lambda: x), x)
    return (y * y * x).sum()


@pytest.mark.parametrize("f", [bowl, lambda x: (topi.exp(x) @ topi.sin(x)) ** 2])
def test_s002_03_products_with_hessians_and_hessians(f: Any) -> None:
    x, v = X[:2], V[:2]
    whole = [ta.hessian(f, fw_mode=mode)(x) for mode in (True, False, None)]
    along = [ta.hvp(f, (x,), (v,), fw_mode=mode)[0] for mode in (True, False, None)]
    scale = np.abs(whole[0]).max()
    for h, p in zip(whole, along, strict=True):
        np.testing.assert_allclose(h, whole[0], rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(p, whole[0] @ v, rtol=1e-12, atol=1e-12 * scale)


def test_s002_03_tensors() -> None:
    x = ta.placeholder((2,), "float64", name="x")
    y = bowl(x)
    batch = RNG.standard_normal((3, 2))
    made = [ta.hvp(y, x, batch, fw_mode=m) for m in (True, False)]
    made += [ta.hessian(y, x, fw_mode=m) for m in (True, False)]
    one, other, h, g = ta.build(made, [x])(X[:2])
    np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(h, g, rtol=1e-12)
    np.testing.assert_allclose(one, batch @ h, rtol=1e-12)


STOPPED: Final = {"both": "fr", "reverse": "r", "forward": "f"}


ONE: Final = np.float64(1)


def stopped(x: Any, c: Any) -> Any:
    return topi.sin(c * x) * c + x * x * x * c


def stopped_in_blocks(x: Any, mode: str, unrolled: bool) -> Any:
    def step(t: Any, c: Any) -> Any:
        k = ta.stop_gradient(c, mode=mode)
        one, other = lambda: ta.stop_gradient(c * c, mode=mode), lambda: c
        return topi.sin(k) * c + ta.cond(c > 1.0, one, other)

    if not unrolled:
        return ta.for_loop(0, 2, step, x)
    return step(1, step(0, x))


def derived(f: Any, mode: str) -> Any:
    """The derivative by one mode."""
    return (lambda x: pushed(f, x, ONE)) if mode == "f" else ta.grad(f)


@pytest.mark.parametrize("mode", STOPPED)
def test_s002_15_each_mode_in_each_direction_and_twice(mode: str) -> None:
    """A value that is stopped is a second argument, along which a stopped mode does not go."""

    def f(x: Any) -> Any:
        return stopped(x, ta.stop_gradient(x, mode=mode))

    def moved(g: Any, way: str) -> Any:
        still = way in STOPPED[mode]

        def d(x: Any, c: Any) -> Any:
            return ta.jvp(g, (x, c), (ONE, np.float64(not still)))[1]

        return d

    @ta.function
    def every(x: Any) -> Any:
        found, wanted = [], []
        for a in "fr":
            found.append(derived(f, a)(x))
            wanted.append(moved(stopped, a)(x, x))
            for b in "fr":
                found.append(derived(derived(f, a), b)(x))
                wanted.append(moved(moved(stopped, a), b)(x, x))
        return found, wanted

    found, wanted = every(np.float64(0.7))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    for way in ("forward", "reverse"):
        assert ta.gradcheck(f, np.float64(0.7), modes=(way,), order=2)


@pytest.mark.parametrize("mode", STOPPED)
def test_s002_15_inside_of_loops_and_branches(mode: str) -> None:
    @ta.function
    def every(x: Any) -> Any:
        found: list[list[Any]] = [[], []]
        for unrolled in (False, True):

            def f(x: Any, unrolled: bool = unrolled) -> Any:
                return stopped_in_blocks(x, mode, unrolled)

            for a, b in product("fr", "fr "):
                g = derived(f, a)
                found[unrolled].append(g(x) if b == " " else derived(g, b)(x))
        return found

    loops, straight = every(np.float64(1.2))
    np.testing.assert_allclose(loops, straight, rtol=1e-12, atol=1e-13)


def test_s002_15_make_dual_stops_forward_mode_and_not_reverse() -> None:
    def f(x: Any) -> Any:
        with ta.dual_level():
            return ta.make_dual(x, V) * x

    np.testing.assert_allclose(ta.grad(lambda x: f(x).sum())(X), 2 * X)
    with ta.dual_level():
        d = ta.make_dual(X, V)
        assert ta.unpack_dual(ta.stop_gradient(d, mode="reverse"))[1] is not None
        assert ta.unpack_dual(ta.stop_gradient(d, mode="forward"))[1] is None
        assert ta.unpack_dual(ta.stop_gradient(d))[1] is None


# kinks, and perturbations


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", KINKS)
def test_w_08_and_s002_33_levels_agree_with_reverse_mode_at_kinks(name: str) -> None:
    f, at = KINKS[name]
    x = np.full(3, at)

    @ta.function
    def columns(x: Any) -> Any:
        return [pushed(f, x, e) for e in np.eye(3)]

    _, pullback = ta.vjp(f, x)
    rows = [pullback(e) for e in np.eye(3)]
    wanted = np.stack([r[0] if isinstance(r, tuple) else r for r in rows])
    np.testing.assert_array_equal(np.stack(columns(x), 1), wanted)
    with ta.dual_level():
        d = ta.make_dual(x, np.eye(3)[0])
        value, tangent = ta.unpack_dual(f(d))
        outside = np.zeros(3) if tangent is None else np.asarray(tangent)
    np.testing.assert_array_equal(outside, wanted[:, 0])
    np.testing.assert_array_equal(value, ta.function(f)(x))


def test_w_08_compiled_duals_keep_their_tangents() -> None:
    @ta.function
    def inner(x: Any) -> Any:
        return ta.select(x > 0, ta.log(x), 0.0)

    with ta.dual_level():
        d = ta.make_dual(np.array([0.0, 1.0]), np.ones(2))
        np.testing.assert_array_equal(ta.unpack_dual(inner(d))[1], [0.0, 1.0])
    both = ta.function(lambda x, v: pushed(inner, x, v))
    np.testing.assert_array_equal(both(np.array([0.0, 1.0]), np.ones(2)), [0.0, 1.0])


Derive = Callable[[Callable[[Any], Any], Any], Any]
WAYS: Final[dict[str, Derive]] = {
    "level": lambda f, x: pushed(f, x, np.float64(1)),
    "jvp": lambda f, x: pushed_by_jvp(f, x, np.float64(1)),
    "grad": lambda f, x: ta.grad(f)(x),
}


def thrice(o: Derive, i: Derive, x: Any) -> Any:
    def inner(x: Any, y: Any) -> Any:
        return y * i(lambda z: x * y * z, 1.0)

    return o(lambda x: x * o(lambda y: inner(x, y), 1.0), x)


PERTURBED: Final[dict[str, tuple[Callable[[Derive, Derive, Any], Any], float]]] = {
    "sum": (lambda o, i, x: o(lambda x: x * i(lambda y: x + y, 1.0), x), 1.0),
    "product": (lambda o, i, x: o(lambda x: x * i(lambda y: x * y, 2.0), x), 3.0),
    "at the outer one": (lambda o, i, x: o(lambda x: i(lambda y: x * y * y, x), x), 6.0),
    "of the outer one": (lambda o, i, x: o(lambda x: x * i(lambda y: x + 0.0 * y, 3.0), x), 0.0),
    "of the inner one": (lambda o, i, x: o(lambda x: x * i(lambda y: y * y, 3.0), x), 6.0),
    "outer and inner point": (lambda o, i, x: o(lambda x: i(lambda y: x * y, x), x), 1.0),
    "inner one twice": (
        lambda o, i, x: o(lambda x: i(lambda y: x * y, 1.0) * i(lambda y: y * y * x, x), x), 13.5,
    ),
    "three deep": (thrice, 6.0),
    "in a loop": (
        lambda o, i, x: o(
            lambda x: ta.for_loop(0, 2, lambda t, c: c * i(lambda y: x + y * y, 1.0), x), x
        ), 4.0,
    ),
    "in a branch": (
        lambda o, i, x: o(
            lambda x: ta.cond(x > 0, lambda: x * i(lambda y: x * y, 1.0), lambda: x), x
        ), 3.0,
    ),
    "in a function": (
        lambda o, i, x: o(lambda x: x * i(ta.function(lambda y: x + y), 1.0), x), 1.0,
    ),
    "by a closure": (
        lambda o, i, x: o(lambda x: (lambda g: i(g, x) * g(2.0))(lambda y: x * y), x), 6.0,
    ),
}  # fmt: skip
"""(derivative with an outer and an inner way at x, its value at 1.5)"""


@pytest.mark.parametrize("name", PERTURBED)
def test_w_10_and_s002_10_perturbations_are_not_confused(name: str) -> None:
    assert len(PERTURBED) >= 12
    f, wanted = PERTURBED[name]
    pairs = list(product(WAYS.values(), WAYS.values()))
    found = ta.function(lambda x: [f(o, i, x) for o, i in pairs])(np.float64(1.5))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    with ta.dual_level():
        outside = float(f(WAYS["level"], WAYS["level"], np.float64(1.5)))
    np.testing.assert_allclose(outside, wanted, rtol=1e-14)
