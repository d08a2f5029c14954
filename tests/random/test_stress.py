"""Large programs: long chains of computes, huge expressions, many reads of one tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import jvp, vjp
from tensorad.building import build
from tensorad.ir.expr import Axis, Expr, call, select
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.printer import format_tensor, format_tensor_recursively

pytestmark = pytest.mark.slow

N = 8
LONG = 20_000
"""Operations of an expression."""
CHAIN = 3_000
"""Computes that read one another, each by way of a tensor, a read and operations: as deep."""
Body = Callable[[Tensor, Axis], Expr]

BODIES: tuple[Body, ...] = (
    lambda t, i: t[i] + 1e-3 * call("tanh", t[i]),
    lambda t, i: t[i] + 0.25,
    lambda t, i: t[N - 1 - i],
    lambda t, i: -t[i],
    lambda t, i: call("maximum", t[i], te.const(-50.0, "float64")),
    lambda t, i: t[(i + 1) % N],
    lambda t, i: t[i] - 1e-3 * call("sin", t[i]),
    lambda t, i: t[i] * 1.25,
    lambda t, i: select(i < 3, t[i], -t[i]),
    lambda t, i: t[i] / (t[i] * t[i] * 1e-4 + 1.0),
    lambda t, i: t[i] + 1e-3 * call("exp", -(t[i] * t[i])),
    lambda t, i: call("minimum", t[i], te.const(50.0, "float64")),
    lambda t, i: t[(i * 3) % N],
    lambda t, i: t[i] * 0.8,
    lambda t, i: call("abs", t[i]) - 0.125,
    lambda t, i: t[i] + 1e-3 * t[i] * t[N - 1 - i],
    lambda t, i: t[i // 2 * 2 + (1 - i % 2)],
    lambda t, i: call("sigmoid", t[i] * 1e-2) * 400.0 - 200.0,
    lambda t, i: select((i % 2 == 0) & (i > 2), -t[i], t[i]),
    lambda t, i: call("sqrt", t[i] * t[i] + 1e-6) - 0.25,
)
"""Each keeps derivatives near 1, so that a long chain neither vanishes nor overflows."""


def placeholder(name: str) -> Tensor:
    """A float64 vector."""
    return te.placeholder((N,), dtype="float64", name=name)


def use(y: Tensor, x: Tensor) -> str:
    """Differentiate, print, build and run; the printed text."""
    h = placeholder("H")
    (dx,) = vjp(y, [x], h)
    text = format_tensor_recursively(dx)
    f = build([y, dx], [x, h])
    rng = np.random.default_rng(0)
    at, head = rng.uniform(0.2, 0.9, N), rng.standard_normal(N)
    value, gradient = f(at, head)
    step, direction = 1e-6, rng.standard_normal(N)
    up, down = f(at + step * direction, head)[0], f(at - step * direction, head)[0]
    numeric = ((up - down) * head).sum() / (2 * step)
    assert value.shape == (N,)
    np.testing.assert_allclose((gradient * direction).sum(), numeric, rtol=1e-3, atol=1e-6)
    return text


def test_chain_of_computes() -> None:
    x = t = placeholder("X")
    for n in range(CHAIN):
        body = BODIES[n % len(BODIES)]
        t = te.compute((N,), lambda i, t=t, body=body: body(t, i), name=f"T{n}")
    assert use(t, x).count("tensor ") >= CHAIN


def test_long_expression() -> None:
    x = placeholder("X")

    def body(i: Axis) -> Expr:
        e: Expr = x[i]
        for _ in range(LONG // 6):
            e = call("abs", e * 1.01 + 0.01)
            e = call("log", call("exp", e / 1.01))
        return e

    y = te.compute((N,), body, name="Y")
    use(y, x)


def test_shared_expression() -> None:
    x = placeholder("X")

    def body(i: Axis) -> Expr:
        e: Expr = x[i]
        for _ in range(LONG // 6):
            e = e + e * e * 0.25
            e = e / (1.0 + e * 0.25)
        return e

    y = te.compute((N,), body, name="Y")
    text = format_tensor(y)
    assert len(text) < 200 * LONG  # a shared part is one named line
    use(y, x)


def test_many_reads_of_one_tensor() -> None:
    x = te.placeholder((N,), dtype="float64", name="X")

    def body(i: Axis) -> Expr:
        e: Expr = te.const(0.0, "float64")
        for n in range(2_000):
            e = e + x[(i * (1 + n % 3) + n) % N] * x[(i + n // 3) % N] * 0.001
        return e

    use(te.compute((N,), body, name="Y"), x)


def test_many_reads_along_a_line() -> None:
    x = te.placeholder((N + 2_000,), dtype="float64", name="X")

    def body(i: Axis) -> Expr:
        e: Expr = te.const(0.0, "float64")
        for n in range(2_000):
            e = e + x[i + n] * (0.001 * (n % 11))
        return e

    y = te.compute((N,), body, name="Y")
    (dx,) = vjp(y, [x], 1.0)
    assert format_tensor_recursively(dx)
    gradient = build([dx], [])()
    want = np.zeros(N + 2_000)
    for n in range(2_000):
        want[n : n + N] += 0.001 * (n % 11)
    gradient = gradient[0] if isinstance(gradient, list) else gradient
    np.testing.assert_allclose(gradient, want, atol=1e-12)


def test_modes_and_functions_along_a_chain() -> None:
    length = LONG // 40
    bend = te.scalar_function(
        lambda a: a * te.sigmoid(a), partials=lambda y, a: y + te.sigmoid(a) * (1 - y), name="bend"
    )
    x = placeholder("X")

    def body(i: Axis) -> Expr:
        e: Expr = x[i]
        for _ in range(length):
            e = bend(e + 0.2) * 0.5 + te.stop_gradient(e) * 0.5
        return e

    deep = te.compute((N,), body, name="deep")
    long = deep
    for n in range(length):
        step = BODIES[n % len(BODIES)]
        long = te.compute((N,), lambda i, t=long, step=step: step(t, i), name=f"T{n}")
    directions = te.placeholder((2, N), dtype="float64", name="D")
    ds, ls = jvp([deep, long], {x: directions})
    heads = [te.placeholder((2, N), dtype="float64", name=f"H{n}") for n in range(2)]
    (dx,) = vjp([deep, long], x, heads)
    f = build([ds, ls, dx], [x, directions, *heads])
    rng = np.random.default_rng(0)
    d, h, g = (rng.standard_normal((2, N)) for _ in range(3))
    tangent, far, adjoint = f(rng.uniform(0.2, 0.9, N), d, h, g)
    sums = (tangent * h + far * g).sum(1)
    np.testing.assert_allclose((adjoint * d).sum(1), sums, rtol=1e-9, atol=1e-9)
