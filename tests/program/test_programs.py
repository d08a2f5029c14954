"""Whole programs: branches, loops and calls on trees, differentiated and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.program.trees import flatten, unflatten
from tensorad.topi import matmul, tanh

RNG = np.random.default_rng(0)


def differences(f: Any, args: tuple[Any, ...], step: float = 1e-6) -> list[np.ndarray]:
    """Central differences of a 0-d result by every leaf of the arguments."""
    flat = flatten(args)
    leaves = [np.asarray(v, "float64") for v in flat.leaves]
    found = []
    for n, leaf in enumerate(leaves):
        d = np.zeros(leaf.shape)
        for at in np.ndindex(leaf.shape):
            sides = []
            for h in (step, -step):
                moved = leaf.copy()
                moved[at] += h
                changed = [*leaves[:n], moved, *leaves[n + 1 :]]
                sides.append(float(f(*unflatten(flat.structure, changed))))
            d[at] = (sides[0] - sides[1]) / (2 * step)
        found.append(d)
    return found


def check_gradient(f: Any, *args: Any) -> None:
    """Reverse mode = forward mode = differences = the interpreter."""
    f = ta.function(f)
    every = tuple(range(len(args)))
    gradient = ta.grad(f, every)
    found = flatten(gradient(*args)).leaves
    wanted = differences(f, args)
    for g, d in zip(found, wanted, strict=True):
        assert np.allclose(g, d, rtol=1e-6, atol=1e-7)
    flat = flatten(args)
    along = [RNG.normal(size=np.shape(v)) for v in flat.leaves]
    _, dy = ta.jvp(f, args, unflatten(flat.structure, along))
    total = sum(float((g * v).sum()) for g, v in zip(found, along, strict=True))
    assert np.allclose(dy, total, rtol=1e-9, atol=1e-12)
    program = gradient.trace(*args)
    values = dict(zip(program.parameters, flat.leaves, strict=True))
    for g, i in zip(found, ta.interpret(list(program.results), values), strict=True):
        assert np.allclose(g, i, rtol=1e-12, atol=1e-13)


def newton(a: Any) -> Any:
    return ta.while_loop(lambda x: abs(x * x - a) > 1e-14 * a, lambda x: (x + a / x) * 0.5, a)


def test_derivatives_of_newtons_root() -> None:
    f: Any = newton
    for wanted in (lambda a: a**0.5, lambda a: 0.5 * a**-0.5, lambda a: -0.25 * a**-1.5):
        for a in (2.0, 9.0):
            assert abs(float(ta.function(f)(np.float64(a))) - wanted(a)) < 1e-12
        f = ta.grad(f)


def lstm(params: Any, xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        z = matmul(x, params["x"]) + matmul(state["h"], params["h"]) + params["b"]
        i, f, o, g = (z[:, n * 3 : (n + 1) * 3] for n in range(4))
        c = ta.sigmoid(f) * state["c"] + ta.sigmoid(i) * tanh(g)
        h = ta.sigmoid(o) * tanh(c)
        return {"h": h, "c": c}, h

    start = np.zeros((2, 3))
    last, hs = ta.scan(step, {"h": start, "c": start}, xs)
    return (hs * hs).sum() + last["c"].sum()


def test_an_lstm_by_scan() -> None:
    params = {"x": RNG.normal(size=(4, 12)), "h": RNG.normal(size=(3, 12)), "b": np.zeros(12)}
    check_gradient(lstm, params, RNG.normal(size=(5, 2, 4)))


def powers(x: Any, n: Any) -> Any:
    return ta.for_loop(0, n, lambda i, s: s * x, 1)


def test_one_trace_for_all_counts() -> None:
    traces = []

    def f(x: Any, n: Any) -> Any:
        traces.append(n)
        return powers(x, n)

    x = np.float64(1.001)
    value, gradient = ta.function(f), ta.grad(f)
    for n in (0, 1, 7, 1000):
        assert np.allclose(value(x, n), x**n, rtol=1e-12)
        assert np.allclose(gradient(x, n), n * x ** (n - 1), rtol=1e-12)
    assert len(traces) == 2


def branches(x: Any, y: Any) -> Any:
    first = ta.cond(
        x.sum() > 0, lambda v: {"a": v * y, "b": 1}, lambda v: {"a": v, "b": y.sum()}, x
    )
    return (first["a"] * first["b"]).sum() * ta.switch(1, [lambda: 1.0, lambda: y[0], lambda: x[1]])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches(sign: float) -> None:
    x = np.arange(1.0, 4.0)
    check_gradient(branches, x * sign, x + 1)


def nested(x: Any, w: Any) -> Any:
    double = ta.function(lambda v: v * w)

    def outer(i: Any, s: Any) -> Any:
        inner = ta.for_loop(0, 4, lambda j, u: u + double(x[j]) * s, 0.0)
        return ta.cond(inner > 0.5, lambda: inner * 0.5, lambda: inner + x[i])

    return ta.for_loop(0, 4, outer, 1.0)


def test_loops_in_loops_with_branches_and_calls() -> None:
    check_gradient(nested, np.array([0.3, 0.2, -0.4, 0.1]), 1.3)


def collected(x: Any) -> Any:
    _, ys = ta.scan(lambda c, v: (c * 0.9 + v, {"y": c * v, "i": 1}), 0, x, reverse=True)
    return (ys["y"] ** 2).sum() + ys["i"].sum()


def test_what_a_scan_collects_has_derivatives() -> None:
    x = RNG.normal(size=6)
    check_gradient(collected, x)
    check_gradient(lambda v: (ta.grad(collected)(v) ** 2).sum(), x)


def descent(rate: Any, start: Any) -> Any:
    """The loss after some steps of gradient descent."""

    def loss(p: Any) -> Any:
        return ((p["w"] * 2 - 1) ** 2).sum() + p["b"] ** 4

    def step(i: Any, p: Any) -> Any:
        g = ta.grad(loss)(p)
        return {k: p[k] - rate * g[k] for k in p}

    return loss(ta.for_loop(0, 5, step, start))


def test_gradient_descent_is_differentiated_by_its_rate() -> None:
    check_gradient(descent, 0.05, {"w": np.arange(3.0), "b": 0.7})
