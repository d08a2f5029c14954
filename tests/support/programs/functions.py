"""Programs as users write them, at arguments where they are smooth: for checks by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import tensorad as ta
from tensorad import te, topi

Program = tuple[Callable[..., Any], tuple[Any, ...]]
FUNCTIONS: Final[dict[str, Program]] = {}
_RNG: Final = np.random.default_rng(7)


def _some(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape) * 0.5


def _at(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(f: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[f.__name__] = f, arguments
        return f

    return note


@_at(_some(4), 0.7)
def horner(c: Any, x: Any) -> Any:
    return ta.scan(lambda s, a: (s * x + a, None), 0.0, c, reverse=True)[0]


@_at({"z": _some(2, 4), "r": _some(2, 4), "n": _some(2, 4)}, _some(2, 2))
def gated_recurrent_unit(w: Any, x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        both = topi.concatenate([h, row], axis=0)
        z, r = topi.sigmoid(w["z"] @ both), topi.sigmoid(w["r"] @ both)
        n = topi.tanh(w["n"] @ topi.concatenate([r * h, row], axis=0))
        return z * h + (1 - z) * n, h

    return ta.scan(step, np.zeros(2), x)


@_at(_some(3, 2), _some(3, 2), _some(3, 2))
def attention_row_by_row(q: Any, k: Any, v: Any) -> Any:
    return ta.scan(lambda c, row: (c, topi.softmax(k @ row) @ v), None, q)[1]


@_at(_some(2), _some(2, 2))
def runge_kutta(y: Any, w: Any) -> Any:
    def slope(v: Any) -> Any:
        return topi.tanh(w @ v)

    def step(t: Any, v: Any) -> Any:
        a = slope(v)
        b = slope(v + 0.05 * a)
        c = slope(v + 0.05 * b)
        d = slope(v + 0.1 * c)
        return v + (a + 2 * b + 2 * c + d) * (0.1 / 6)

    return ta.for_loop(0, 3, step, y)


class Bodies(NamedTuple):
    """Positions and velocities."""

    at: Any
    v: Any


@_at(Bodies(_some(2, 2), _some(2, 2)), np.array([1.0, 2.0]))
def particles(state: Any, mass: Any) -> Any:
    def forces(p: Any) -> Any:
        j, c = te.reduce_axis(2, name="j"), te.reduce_axis(2, name="c")
        far = te.compute(
            (2, 2), lambda i, j: te.sum((p[i, c] - p[j, c]) * (p[i, c] - p[j, c]), axis=c) + 0.1
        )
        return te.compute(
            (2, 2), lambda i, d: te.sum(mass[j] * (p[j, d] - p[i, d]) / far[i, j] ** 1.5, axis=j)
        )

    def step(t: Any, s: Any) -> Any:
        v = s.v + 0.1 * forces(s.at)
        return Bodies(s.at + 0.1 * v, v)

    return ta.for_loop(0, 2, step, state)


@_at(_some(3), _some(3, 3), _some(3, 3))
def hidden_markov_model(first: Any, a: Any, e: Any) -> Any:
    def step(p: Any, row: Any) -> Any:
        return topi.logsumexp(p.reshape((3, 1)) + a, axis=0) + row, None

    return topi.logsumexp(ta.scan(step, first, e)[0], axis=0)


@_at(np.array([[0.0, 1.1, 4.3], [2.2, 0.0, 1.7], [0.9, 3.1, 0.0]]))
def shortest_paths(d: Any) -> Any:
    def step(t: Any, p: Any) -> Any:
        k = te.reduce_axis(3, name="k")
        return te.compute((3, 3), lambda i, j: te.min(p[i, k] + d[k, j], axis=k))

    return ta.for_loop(0, 2, step, d)


@_at(_some(4) + 1.5)
def products_so_far(x: Any) -> Any:
    return ta.scan(lambda p, v: (p * v, p * v), 1.0, x)[1]


@_at(_some(3, 3) * 0.4, _some(3))
def fixed_point(w: Any, b: Any) -> Any:
    def further(c: Any) -> Any:
        return abs(c[0] - c[1]).max() > 1e-12

    def step(c: Any) -> Any:
        return topi.tanh(w @ c[0] + b), c[0]

    return ta.while_loop(further, step, (b, b + 1.0))[0]


@_at(_some(3, 3) + 2 * np.eye(3), np.array([1.0, 0.5, -0.3]))
def power_iteration(a: Any, v: Any) -> Any:
    def step(t: Any, v: Any) -> Any:
        w = a @ v
        return w / ta.sqrt((w * w).sum())

    v = ta.for_loop(0, 4, step, v)
    return v @ (a @ v)


@_at(_some(4), 0.3, 0.8)
def kalman_filter(z: Any, q: Any, r: Any) -> Any:
    def step(c: Any, seen: Any) -> Any:
        p = c["p"] + q
        gain = p / (p + r)
        x = c["x"] + gain * (seen - c["x"])
        return {"x": x, "p": (1 - gain) * p}, x

    return ta.scan(step, {"x": 0.0, "p": 1.0}, z)


@_at(_some(3), _some(4, 3), _some(4))
def adam_steps(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    def step(t: Any, c: Any) -> Any:
        w, m, v = c
        g = ta.grad(loss)(w)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return w - 0.1 * m / (ta.sqrt(v) + 1e-3), m, v

    return ta.for_loop(0, 3, step, (w, np.zeros(3), np.zeros(3)))[0]


@_at(_some(4, 4) + 4 * np.eye(4), _some(4))
def gauss_seidel(a: Any, b: Any) -> Any:
    def sweep(s: Any, x: Any) -> Any:
        def row(i: Any, x: Any) -> Any:
            return x.at[i].set(x[i] + (b[i] - (a[i] * x).sum()) / a[i, i])

        return ta.for_loop(0, 4, row, x)

    return ta.for_loop(0, 2, sweep, np.zeros(4))


@_at(_some(6), 0.2)
def heat(u: Any, rate: Any) -> Any:
    def step(t: Any, u: Any) -> Any:
        inner = u[1:-1] + rate * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u.at[1:-1].set(inner)

    return ta.for_loop(0, 3, step, u)


@_at(_some(5, 2), np.array([0, 2, 1, 2]), _some(2, 2))
def embedded_words(table: Any, words: Any, w: Any) -> Any:
    def step(h: Any, k: Any) -> Any:
        return topi.tanh(w @ h + table[k]), None

    return ta.scan(step, np.zeros(2), words)[0]


@_at(_some(3), np.array([0, 2, 1, 3]))
def machine(x: Any, code: Any) -> Any:
    def step(s: Any, k: Any) -> Any:
        ways = [lambda: s * x, lambda: topi.sin(s), lambda: s + x, lambda: s * s]
        return ta.switch(k, ways), None

    return ta.scan(step, x, code)[0]


@_at(_some(3) + 1.0, 4)
def a_number_of_steps(x: Any, n: Any) -> Any:
    return ta.for_loop(1, n, lambda t, c: c * x + t, x)


@_at(_some(3))
def damped_until_small(x: Any) -> Any:
    def body(v: Any) -> Any:
        return ta.cond(v[0] > 0, lambda: v * 0.6, lambda: v * 0.5 + 0.01 * v * v)

    return ta.while_loop(lambda v: (v * v).sum() > 0.05, body, x)


@_at(_some(2, 3, 2), _some(2, 2))
def rows_of_rows(x: Any, w: Any) -> Any:
    def outer(h: Any, rows: Any) -> Any:
        last, every = ta.scan(lambda g, row: (topi.tanh(w @ g) + row, g), h, rows)
        return last, every[-1]

    return ta.scan(outer, np.zeros(2), x)


@_at(_some(4), np.array([0, 1, 0, 2]))
def sums_by_segment(x: Any, where: Any) -> Any:
    def step(t: Any, s: Any) -> Any:
        return topi.segment_sum(s[where] * x, where, 3) + 0.1

    return ta.for_loop(0, 3, step, np.ones(3))
