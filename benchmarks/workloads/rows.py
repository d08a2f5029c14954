"""Operators over rows: softmax, logsumexp, layer normalisation, products, flatten."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.problem import (
    Array,
    Arrays,
    Draw,
    Passes,
    Problem,
    Workload,
    pick,
    tensor,
)
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

EPSILON = 1e-5


def softmax(n: int, m: int) -> Problem:
    """Of each row."""
    d = Draw()
    inputs = {"X": d.normal(n, m)}
    elements = float(n * m)
    return Problem(
        inputs, ("X",), d.normal(n, m), lambda X: topi.nn.softmax(X), _softmax_numpy,
        {
            "torch": lambda t, X: t.softmax(X, -1),
            "jax": lambda jax, X: jax.nn.softmax(X, -1),
        },
        (5 * elements, 4 * elements),
    )  # fmt: skip


def _softmax_numpy(a: Arrays, h: Array) -> Passes:
    x = a["X"]
    y, dx = np.empty_like(x), np.empty_like(x)

    def forward() -> list[Array]:
        np.subtract(x, x.max(-1, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(-1, keepdims=True), out=y)
        return [y]

    def both() -> list[Array]:
        forward()
        np.subtract(h, np.einsum("ij,ij->i", h, y)[:, None], out=dx)
        np.multiply(dx, y, out=dx)
        return [y, dx]

    return Passes(forward, lambda: both()[1:], both)


def logsumexp(n: int, m: int) -> Problem:
    """Of each row."""
    d = Draw()
    inputs = {"X": d.normal(n, m)}
    elements = float(n * m)
    return Problem(
        inputs, ("X",), d.normal(n), lambda X: topi.logsumexp(X, axis=-1), _logsumexp_numpy,
        {
            "torch": lambda t, X: t.logsumexp(X, -1),
            "jax": lambda jax, X: jax.nn.logsumexp(X, -1),
        },
        (4 * elements, 3 * elements),
    )  # fmt: skip


def _logsumexp_numpy(a: Arrays, h: Array) -> Passes:
    x = a["X"]
    e = np.empty_like(x)

    def exps() -> tuple[Array, Array]:
        top = x.max(-1, keepdims=True)
        np.subtract(x, top, out=e)
        np.exp(e, out=e)
        return top[:, 0], e.sum(-1)

    def forward() -> list[Array]:
        top, total = exps()
        return [np.log(total) + top]

    def both() -> list[Array]:
        top, total = exps()
        np.multiply(e, (h / total)[:, None], out=e)
        return [np.log(total) + top, e]

    return Passes(forward, lambda: both()[1:], both)


def layernorm(n: int, m: int) -> Problem:
    """Rows of mean 0 and variance 1, scaled by g, shifted by b."""
    d = Draw()
    inputs = {"X": d.normal(n, m), "g": d.normal(m), "b": d.normal(m)}

    def by_jax(jax: Any, X: Any, g: Any, b: Any) -> Any:
        centred = X - X.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + EPSILON) * g + b

    elements = float(n * m)
    return Problem(
        inputs, ("X", "g", "b"), d.normal(n, m),
        lambda X, g, b: topi.nn.layer_norm(X, g, b, axis=1), _layernorm_numpy,
        {"torch": lambda t, X, g, b: t.nn.functional.layer_norm(X, (m,), g, b), "jax": by_jax},
        (8 * elements, 14 * elements),
    )  # fmt: skip


def _layernorm_numpy(a: Arrays, h: Array) -> Passes:
    x, g, b = a["X"], a["g"], a["b"]
    m = x.dtype.type(x.shape[1])
    y, normal, dx = np.empty_like(x), np.empty_like(x), np.empty_like(x)

    def normalised() -> Array:
        np.subtract(x, x.mean(-1, keepdims=True), out=normal)
        variance = np.einsum("ij,ij->i", normal, normal) / m
        scale: Array = (1 / np.sqrt(variance + x.dtype.type(EPSILON)))[:, None]
        np.multiply(normal, scale, out=normal)
        return scale

    def scaled() -> Array:
        np.multiply(normal, g, out=y)
        np.add(y, b, out=y)
        return y

    def forward() -> list[Array]:
        normalised()
        return [scaled()]

    def back(scale: Array) -> list[Array]:
        np.multiply(h, g, out=dx)
        mean = dx.mean(-1, keepdims=True)
        slope = np.einsum("ij,ij->i", dx, normal)[:, None] / m
        np.subtract(dx, mean, out=dx)
        np.subtract(dx, normal * slope, out=dx)
        np.multiply(dx, scale, out=dx)
        return [dx, np.einsum("ij,ij->j", h, normal), h.sum(0)]

    def both() -> list[Array]:
        scale = normalised()
        return [scaled(), *back(scale)]

    return Passes(forward, lambda: back(normalised()), both)


def prod(n: int, m: int) -> Problem:
    """The product of each row."""
    d = Draw()
    inputs = {"X": d.uniform(0.9, 1.1, n, m)}

    def define(X: Tensor) -> Tensor:
        k = te.reduce_axis(m, name="k")
        return tensor((n,), lambda i: te.prod(X[i, k], axis=k), name="Y")

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.folds import prod

        return prod(a, h)

    elements = float(n * m)
    return Problem(
        inputs, ("X",), d.normal(n), define, _prod_numpy,
        {
            "torch": lambda t, X: t.prod(X, -1),
            "jax": lambda jax, X: jax.numpy.prod(X, -1),
        },
        (elements, 3 * elements), numba=by_numba, tolerance=5e-4,
    )  # fmt: skip


def _prod_numpy(a: Arrays, h: Array) -> Passes:
    """By division: right only without zeros."""
    x = a["X"]
    y, dx = np.empty_like(h), np.empty_like(x)

    def forward() -> list[Array]:
        np.prod(x, axis=-1, out=y)
        return [y]

    def both() -> list[Array]:
        forward()
        np.divide((y * h)[:, None], x, out=dx)
        return [y, dx]

    return Passes(forward, lambda: both()[1:], both)


def flatten(n: int, c: int, rows: int, columns: int) -> Problem:
    """(n, c, rows, columns) as (n, ...), copied."""
    d = Draw()
    inputs = {"X": d.normal(n, c, rows, columns)}
    width = c * rows * columns
    return Problem(
        inputs, ("X",), d.normal(n, width), lambda X: topi.nn.flatten(X), _flatten_numpy,
        {
            "torch": lambda t, X: X.flatten(1).clone(),
            "jax": lambda jax, X: X.reshape(n, width),
        },
        (0.0, 0.0), linear=True,
    )  # fmt: skip


def _flatten_numpy(a: Arrays, h: Array) -> Passes:
    x = a["X"]
    y, dx = np.empty_like(h), np.empty_like(x)

    def forward() -> list[Array]:
        np.copyto(y, x.reshape(h.shape))
        return [y]

    def gradients() -> list[Array]:
        np.copyto(dx, h.reshape(x.shape))
        return [dx]

    return Passes(forward, gradients)


def _rows(rng: np.random.Generator) -> dict[str, int]:
    return {"n": pick(rng, 500, 6000), "m": pick(rng, 100, 3000)}


WORKLOADS = (
    Workload(
        "softmax_small", "notebook", {"n": 60, "m": 200}, softmax,
        lambda rng: {"n": pick(rng, 30, 120), "m": pick(rng, 80, 500)},
    ),
    Workload("softmax_big", "notebook", {"n": 4096, "m": 4096}, softmax, _rows),
    Workload(
        "flatten", "notebook", {"n": 32, "c": 10, "rows": 20, "columns": 25}, flatten,
        lambda rng: {
            "n": pick(rng, 16, 64), "c": pick(rng, 5, 40),
            "rows": pick(rng, 10, 60), "columns": pick(rng, 10, 60),
        },
        "torch: a view of no cost; .clone() makes it copy",
    ),
    Workload("layernorm", "layers", {"n": 4096, "m": 1024}, layernorm, _rows),
    Workload("logsumexp", "layers", {"n": 4096, "m": 1024}, logsumexp, _rows),
    Workload(
        "prod", "unusual", {"n": 4096, "m": 256}, prod,
        lambda rng: {"n": pick(rng, 500, 8000), "m": pick(rng, 60, 400)},
    ),
)  # fmt: skip
