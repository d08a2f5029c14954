"""A recurrent layer of LSTM cells over a sequence: the mean square of all its states."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensorad as ta
from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from benchmarks.workloads.programs.compiled_steps import compiled
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

WRT = ("W", "U", "b")


def lstm(steps: int, n: int, features: int, width: int) -> Problem:
    """Gates in the order input, forget, candidate, output."""
    d = Draw()
    inputs = {
        "X": d.normal(steps, n, features),
        "W": d.normal(features, 4 * width, scale=features**-0.5),
        "U": d.normal(width, 4 * width, scale=width**-0.5),
        "b": d.normal(4 * width, scale=0.1),
    }

    def define(X: Tensor, W: Tensor, U: Tensor, b: Tensor) -> Tensor:
        def cell(carry: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            h, c = carry
            k, m = te.reduce_axis(features, name="k"), te.reduce_axis(width, name="m")
            z = te.compute(
                (n, 4 * width),
                lambda i, j: te.sum(x[i, k] * W[k, j], axis=k)
                + te.sum(h[i, m] * U[m, j], axis=m) + b[j],
                name="z",
            )  # fmt: skip
            c = te.compute(
                (n, width),
                lambda i, j: (
                    te.sigmoid(z[i, j + width]) * c[i, j]
                    + te.sigmoid(z[i, j]) * te.tanh(z[i, j + 2 * width])
                ),
                name="c",
            )
            h = te.compute(
                (n, width), lambda i, j: te.sigmoid(z[i, j + 3 * width]) * te.tanh(c[i, j]), "h"
            )
            return (h, c), h

        zero = topi.full((n, width), 0.0)
        _, hs = ta.scan(cell, (zero, zero), X)
        return topi.sum(hs * hs) * (1 / (steps * n * width))

    products = 8.0 * steps * n * (features + width) * width
    return Problem(
        inputs, WRT, np.ones((), np.float32), define, _numpy,
        {
            "torch": _torch,
            "torch_alt": partial(_torch_loop, lambda step: step),
            "torch_compile": partial(_torch_loop, compiled),
            "jax": lambda jax, **p: _jax(jax, 1, **p),
            "jax_alt": lambda jax, **p: _jax(jax, 4, **p),
        },
        (products, 2 * products - 2.0 * 4 * steps * n * features * width),
    )  # fmt: skip


def _torch(t: Any, X: Any, W: Any, U: Any, b: Any) -> Any:
    """The layer that PyTorch has."""
    zero = t.zeros(1, X.shape[1], U.shape[0])
    weights = [W.t(), U.t(), b, t.zeros_like(b)]
    hs, _, _ = t.lstm(X, (zero, zero), weights, True, 1, 0.0, True, False, False)
    return (hs * hs).mean()


def _torch_cell(t: Any, z: Any, h: Any, c: Any, U: Any) -> tuple[Any, Any]:
    i, f, g, o = t.addmm(z, h, U).chunk(4, 1)
    c = t.sigmoid(f) * c + t.sigmoid(i) * t.tanh(g)
    return t.sigmoid(o) * t.tanh(c), c


def _torch_loop(made: Any, t: Any, X: Any, W: Any, U: Any, b: Any) -> Any:
    """By hand, all products with the inputs at once."""
    cell = made(_torch_cell)
    h = c = t.zeros(X.shape[1], U.shape[0])
    hs = []
    for z in (X @ W + b).unbind():
        h, c = cell(t, z, h, c, U)
        hs.append(h)
    hs = t.stack(hs)
    return (hs * hs).mean()


def _jax(jax: Any, unroll: int, X: Any, W: Any, U: Any, b: Any) -> Any:
    """All products with the inputs at once."""
    sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh

    def cell(carry: Any, z: Any) -> Any:
        h, c = carry
        i, f, g, o = jax.numpy.split(z + h @ U, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h

    zero = jax.numpy.zeros((X.shape[1], U.shape[0]), X.dtype)
    _, hs = jax.lax.scan(cell, (zero, zero), X @ W + b, unroll=unroll)
    return (hs * hs).mean()


def _numpy(a: Arrays, head: Array) -> Passes:
    x, w, u, b = (a[name] for name in ("X", *WRT))
    kind = x.dtype.type
    steps, n, features = x.shape
    width = len(u)

    def forward() -> tuple[Array, Array, Array]:
        """States, cells (both with those before the first step) and gates of every step."""
        hs = np.zeros((steps + 1, n, width), kind)
        cs = np.zeros_like(hs)
        gates = (x.reshape(-1, features) @ w + b).reshape(steps, n, 4, width)
        for t in range(steps):
            gates[t] += (hs[t] @ u).reshape(n, 4, width)
            for part in (0, 1, 3):
                gates[t, :, part] = 1 / (1 + np.exp(-gates[t, :, part]))
            gates[t, :, 2] = np.tanh(gates[t, :, 2])
            i, f, g, o = gates[t].swapaxes(0, 1)
            cs[t + 1] = f * cs[t] + i * g
            hs[t + 1] = o * np.tanh(cs[t + 1])
        return hs, cs, gates

    def loss(hs: Array) -> Array:
        return np.asarray(np.mean(hs[1:] * hs[1:], dtype=kind))

    def both() -> list[Array]:
        hs, cs, gates = forward()
        dh, dc = np.zeros((n, width), kind), np.zeros((n, width), kind)
        dz = np.empty_like(gates)
        share = head * kind(2 / (steps * n * width))
        for t in reversed(range(steps)):
            i, f, g, o = gates[t].swapaxes(0, 1)
            dh += share * hs[t + 1]
            top = np.tanh(cs[t + 1])
            dc += dh * o * (1 - top * top)
            dz[t, :, 0] = dc * g * i * (1 - i)
            dz[t, :, 1] = dc * cs[t] * f * (1 - f)
            dz[t, :, 2] = dc * i * (1 - g * g)
            dz[t, :, 3] = dh * top * o * (1 - o)
            dc *= f
            dh = dz[t].reshape(n, -1) @ u.T
        flat = dz.reshape(steps * n, 4 * width)
        dw, du = x.reshape(-1, features).T @ flat, hs[:-1].reshape(-1, width).T @ flat
        return [loss(hs), dw, du, flat.sum(0)]

    return Passes(lambda: [loss(forward()[0])], lambda: both()[1:], both)


WORKLOADS = (
    Workload(
        "lstm", "programs", {"steps": 256, "n": 32, "features": 64, "width": 128}, lstm,
        lambda rng: {
            "steps": pick(rng, 60, 500), "n": pick(rng, 8, 64),
            "features": pick(rng, 20, 150), "width": pick(rng, 40, 200),
        },
    ),
)  # fmt: skip
