"""References that hold functions which data choose: values, both modes, second order."""

from __future__ import annotations

from collections.abc import Callable
from math import sin
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.random.whole.plain import Plain

Program = Callable[..., Any]


def _in_an_arm(x: Any, k: Any) -> Any:
    f = ta.ref(lambda z: z * z)
    ta.cond(k > 0, lambda: f.set(lambda z: z * x), lambda: f.set(ta.sin))
    return f.get()(x) + ta.grad(f.get())(x)


def _in_an_arm_plain(x: float, k: float) -> float:
    return x * x + x if k > 0 else sin(x) + np.cos(x)


def _in_a_loop(x: Any, k: Any) -> Any:
    f = ta.ref(lambda z: ta.sin(z))

    def step(i: Any, c: Any) -> Any:
        ta.cond(c > k, lambda: f.set(lambda z: z * x), lambda: None)
        return c + f.get()(c)

    return ta.for_loop(0, 5, step, x) + f.get()(x)


def _in_a_loop_plain(x: float, k: float) -> float:
    f: Callable[[float], float] = sin
    c = x
    for _ in range(5):
        if c > k:
            f = lambda z: z * x  # noqa: E731
        c = c + f(c)
    return c + f(x)


def _exchanged(x: Any, k: Any) -> Any:
    a, b = ta.ref({"f": lambda z: z * 2.0, "sum": x}), ta.ref(lambda z: z + x)

    def step(i: Any, c: Any) -> Any:
        f, g = a.get()["f"], b.get()
        a.at["f"].set(g)
        b.set(f)
        a.at["sum"].add(g(c) * k)
        return f(c)

    c = ta.for_loop(0, 3, step, x)
    last = a.get()["f"](x)
    a.at["f"].set(lambda z: z * z)
    return c + last + a.get()["sum"] + a.get()["f"](x) + b.get()(x)


def _exchanged_plain(x: float, k: float) -> float:
    f: Callable[[float], float] = lambda z: z * 2.0  # noqa: E731
    g: Callable[[float], float] = lambda z: z + x  # noqa: E731
    total, c = x, x
    for _ in range(3):
        f, g, total, c = g, f, total + g(c) * k, f(c)
    return c + f(x) + total + x * x + g(x)


def _composed(x: Any, k: Any) -> Any:
    f = ta.ref(lambda z: z * x)

    def step(i: Any, c: Any) -> Any:
        inner = f.get()
        f.set(lambda z: inner(z) * x + k)
        return c

    ta.for_loop(0, 3, step, x)
    return f.get()(x)


def _composed_plain(x: float, k: float) -> float:
    value = x * x
    for _ in range(3):
        value = value * x + k
    return value


def _called_in_an_arm(x: Any, k: Any) -> Any:
    f = ta.ref(lambda z: ta.sin(z))

    def step(i: Any, c: Any) -> Any:
        def longer() -> Any:
            inner = f.get()
            f.set(lambda z: inner(z * k) + x)
            return c + f.get()(x)

        return ta.cond(c < 1.5, longer, lambda: c * 0.5)

    return ta.for_loop(0, 3, step, x) + f.get()(x)


def _called_in_an_arm_plain(x: float, k: float) -> float:
    c, length = x, 0

    def f(z: float) -> float:
        for _ in range(length):
            z = z * k
        return sin(z) + length * x

    for _ in range(3):
        length += c < 1.5
        c = c + f(x) if c < 1.5 else c * 0.5
    return c + f(x)


def _from_a_loop_inside(x: Any, k: Any) -> Any:
    f = ta.ref(ta.sin)

    def step(i: Any, c: Any) -> Any:
        def longer() -> Any:
            inner = ta.for_loop(0, i, lambda t, g: lambda z: z * x, lambda z: z + k)
            f.set(inner)
            return c + inner(x)

        return ta.cond(c > k, longer, lambda: c * 0.5)

    return ta.for_loop(0, 3, step, x) + f.get()(x)


def _from_a_loop_inside_plain(x: float, k: float) -> float:
    f: Callable[[float], float] = sin
    c = x
    for n in range(3):
        if c > k:
            f = (lambda z: z * x) if n else (lambda z: z + k)
            c = c + f(x)
        else:
            c = c * 0.5
    return c + f(x)


def _by_a_call(x: Any, k: Any) -> Any:
    f = ta.ref(lambda z: z * x)

    def choose(t: Any) -> Any:
        ta.cond(t > 0, lambda: f.set(lambda z: z * t), lambda: f.set(ta.sin))
        return t * t

    slope = ta.grad(choose)(k * 3.0)
    return f.get()(x) + slope


def _by_a_call_plain(x: float, k: float) -> float:
    return (x * k * 3.0 if k > 0 else sin(x)) + k * 6.0


PROGRAMS: dict[str, tuple[Program, Program]] = {
    "arm": (_in_an_arm, _in_an_arm_plain),
    "loop": (_in_a_loop, _in_a_loop_plain),
    "exchanged": (_exchanged, _exchanged_plain),
    "composed": (_composed, _composed_plain),
    "called": (_called_in_an_arm, _called_in_an_arm_plain),
    "inside": (_from_a_loop_inside, _from_a_loop_inside_plain),
    "call": (_by_a_call, _by_a_call_plain),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_python(name: str) -> None:
    ours, plain = PROGRAMS[name]
    compiled = ta.function(ours)
    for k in (0.9, -0.4):
        given = (np.float64(0.7), np.float64(k))
        assert float(compiled(*given)) == pytest.approx(plain(*given), rel=1e-13)
        assert float(ta.interpret(compiled, *given)) == pytest.approx(plain(*given), rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_differences(name: str) -> None:
    ours, plain = PROGRAMS[name]
    slope = ta.grad(ours)
    second = {"reverse": ta.grad(slope), "forward": ta.function(_along(slope))}
    h = 1e-5
    for k in (0.9, -0.4):
        x, k64 = np.float64(0.7), np.float64(k)
        expected = (plain(x + h, k) - plain(x - h, k)) / (2 * h)
        assert float(slope(x, k64)) == pytest.approx(expected, rel=1e-7)
        tangent = ta.jvp(lambda v: ours(v, k64), (x,), (np.float64(1),))[1]
        assert float(tangent) == pytest.approx(expected, rel=1e-7)
        curved = (float(slope(x + h, k64)) - float(slope(x - h, k64))) / (2 * h)
        for made in second.values():
            assert float(made(x, k64)) == pytest.approx(curved, rel=1e-7, abs=1e-8)


def _along(slope: Program) -> Program:
    def tangent(x: Any, k: Any) -> Any:
        return ta.jvp(lambda v: slope(v, k), (x,), (x * 0.0 + 1.0,))[1]

    return tangent


def test_functions_that_data_choose_write_references() -> None:
    @ta.function
    def program(x: Any) -> Any:
        r, c = ta.ref(x, "r"), ta.ref(ta.topi.cos, "c")

        def add(y: Any) -> Any:
            r.add(y)
            c.set(lambda z: z * y)
            return y * r.get()

        f = ta.cond(x > 0, lambda: add, lambda: ta.topi.cos)
        first = f(x)
        second = ta.for_loop(0, 2, lambda i, s: f(s), x)
        return first, second, r.get(), c.get()(x)

    def by_hand(x: float) -> Any:
        if x <= 0:
            return np.cos(x), np.cos(np.cos(x)), x, np.cos(x)
        r = 2 * x
        first, s = x * r, x
        for _ in range(2):
            r, last, s = r + s, s, s * (r + s)
        return first, s, r, x * last

    for x in (np.float64(0.75), np.float64(-0.5)):
        np.testing.assert_allclose(program(x), by_hand(x))
        np.testing.assert_allclose(ta.interpret(program, x), by_hand(x))
    slope = ta.grad(lambda x: program(x)[2])(np.float64(0.75))
    above, below = [by_hand(0.75 + h)[2] for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=1e-8)


def _composed(t: Any, n: Any) -> Any:
    return t.for_loop(0, n, lambda i, g: lambda y: t.sin(g(y)) * 2.0, lambda y: y)


def _set_inside(t: Any, r: Any, n: Any) -> None:
    def body(i: Any, c: Any) -> Any:
        def inner(j: Any, d: Any) -> Any:
            r.set(_composed(t, i))
            return d + 1

        return t.for_loop(0, n, inner, c)

    t.for_loop(0, 3, body, 0)


def _set_where_carried(t: Any, r: Any, n: Any) -> None:
    def body(i: Any, c: Any) -> Any:
        def inner(j: Any, d: Any) -> Any:
            d.set(_composed(t, i + j))
            return r

        return t.for_loop(0, n, inner, c)

    t.for_loop(0, 3, body, r)


@pytest.mark.parametrize("write", [_set_inside, _set_where_carried])
def test_loops_in_loops_set_functions_that_loops_made(write: Callable[..., None]) -> None:
    """Each round of the outer loop finds the types that the inner one had settled in the last."""

    def program(t: Any, x: Any, n: Any) -> Any:
        r = t.ref(t.sin, "r")
        write(t, r, n)
        return r.get()(x)

    def whole(x: Any, n: Any) -> Any:
        return program(ta, x, n)

    f = ta.value_and_grad(whole)
    for n in range(3):
        value, above, below = [program(Plain(), 0.4 + h, n) for h in (0.0, 1e-6, -1e-6)]
        found = f(np.float64(0.4), np.int64(n))
        np.testing.assert_allclose(found, (value, (above - below) / 2e-6), rtol=1e-8)
