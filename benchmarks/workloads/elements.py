"""Elements and channels: an affine GELU, batch normalisation, gathered rows."""

from __future__ import annotations

import math
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
from tensorad import te
from tensorad.ir.tensor import Tensor

SLOPE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
EPSILON = 1e-5


def gelu(z: Any) -> Any:
    """The tanh form of a scalar expression."""
    return 0.5 * z * (1 + te.tanh(SLOPE * (z + CUBIC * z * z * z)))


def gelu_elem(n: int, m: int) -> Problem:
    """GELU of X*a + b, a and b per column."""
    d = Draw()
    inputs = {"X": d.normal(n, m), "a": d.normal(m), "b": d.normal(m)}

    def define(X: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return tensor((n, m), lambda i, j: gelu(X[i, j] * a[j] + b[j]), name="Y")

    def by_torch(t: Any, X: Any, a: Any, b: Any) -> Any:
        return t.nn.functional.gelu(X * a + b, approximate="tanh")

    elements = float(n * m)
    return Problem(
        inputs, ("X", "a", "b"), d.normal(n, m), define, _gelu_numpy,
        {
            "torch": by_torch,
            "jax": lambda jax, X, a, b: jax.nn.gelu(X * a + b, approximate=True),
        },
        (12 * elements, 24 * elements),
    )  # fmt: skip


def _gelu_numpy(arrays: Arrays, h: Array) -> Passes:
    x, a, b = arrays["X"], arrays["a"], arrays["b"]
    kind = x.dtype.type
    slope, cubic, half = kind(SLOPE), kind(CUBIC), kind(0.5)

    def inner() -> tuple[Array, Array]:
        z = x * a
        z += b
        t = z * z
        t *= cubic
        t += kind(1)
        t *= z
        t *= slope
        return z, np.tanh(t, out=t)

    def value(z: Array, t: Array) -> Array:
        y: Array = t + kind(1)
        y *= z
        y *= half
        return y

    def back(z: Array, t: Array) -> list[Array]:
        dz = kind(3 * CUBIC) * z * z
        dz += kind(1)
        dz *= slope
        dz *= 1 - t * t
        dz *= z
        dz += t
        dz += kind(1)
        dz *= half
        dz *= h
        return [dz * a, np.einsum("ij,ij->j", dz, x), dz.sum(0)]

    def both() -> list[Array]:
        z, t = inner()
        return [value(z, t), *back(z, t)]

    return Passes(lambda: [value(*inner())], lambda: back(*inner()), both)


def batchnorm(n: int, c: int, size: int) -> Problem:
    """Training mode, statistics over all but the channels."""
    d = Draw()
    shape = (n, c, size, size)
    inputs = {"X": d.normal(*shape), "g": d.normal(c), "b": d.normal(c)}

    def define(X: Tensor, g: Tensor, b: Tensor) -> Tensor:
        return _batchnorm(X, g, b)

    def by_torch(t: Any, X: Any, g: Any, b: Any) -> Any:
        return t.nn.functional.batch_norm(X, None, None, g, b, training=True, eps=EPSILON)

    def by_jax(jax: Any, X: Any, g: Any, b: Any) -> Any:
        centred = X - X.mean((0, 2, 3), keepdims=True)
        variance = (centred * centred).mean((0, 2, 3), keepdims=True)
        scaled = centred * jax.lax.rsqrt(variance + EPSILON)
        return scaled * g[None, :, None, None] + b[None, :, None, None]

    elements = float(n * c * size * size)
    return Problem(
        inputs, ("X", "g", "b"), d.normal(*shape), define, _batchnorm_numpy,
        {"torch": by_torch, "jax": by_jax}, (8 * elements, 12 * elements),
    )  # fmt: skip


def _batchnorm(x: Tensor, g: Tensor, b: Tensor) -> Tensor:
    n, c, rows, columns = x.shape
    count = float(n * rows * columns)

    def axes() -> list[Any]:
        extents = ((n, "n"), (rows, "y"), (columns, "x"))
        return [te.reduce_axis(extent, name=name) for extent, name in extents]

    one, two = axes(), axes()
    mean = te.compute(
        (c,), lambda k: te.sum(x[one[0], k, one[1], one[2]], axis=one) * (1 / count), name="mean"
    )
    variance = te.compute(
        (c,),
        lambda k: te.sum((x[two[0], k, two[1], two[2]] - mean[k]) ** 2, axis=two) * (1 / count),
        name="variance",
    )

    def normal(i: Any, k: Any, p: Any, q: Any) -> Any:
        return (x[i, k, p, q] - mean[k]) / te.sqrt(variance[k] + EPSILON) * g[k] + b[k]

    y: Tensor = te.compute(x.shape, normal, name="Y")
    return y


def _batchnorm_numpy(a: Arrays, h: Array) -> Passes:
    x, g, b = a["X"], a["g"][:, None, None], a["b"][:, None, None]
    count = x.dtype.type(x.size // x.shape[1])
    y, normal, dx = np.empty_like(x), np.empty_like(x), np.empty_like(x)

    def normalised() -> Array:
        np.subtract(x, x.mean((0, 2, 3))[:, None, None], out=normal)
        variance = np.einsum("ncyx,ncyx->c", normal, normal) / count
        scale: Array = (1 / np.sqrt(variance + x.dtype.type(EPSILON)))[:, None, None]
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
        dg, db = np.einsum("ncyx,ncyx->c", h, normal), h.sum((0, 2, 3))
        np.subtract(h, (db / count)[:, None, None], out=dx)
        np.subtract(dx, normal * (dg / count)[:, None, None], out=dx)
        np.multiply(dx, g * scale, out=dx)
        return [dx, dg, db]

    def both() -> list[Array]:
        scale = normalised()
        return [scaled(), *back(scale)]

    return Passes(forward, lambda: back(normalised()), both)


def gather(rows: int, width: int, count: int) -> Problem:
    """Rows of a table, picked by data."""
    d = Draw()
    inputs = {"T": d.normal(rows, width), "idx": d.integers(rows, count)}

    def define(T: Tensor, idx: Tensor) -> Tensor:
        return tensor((count, width), lambda i, j: T[idx[i], j], name="Y")

    return Problem(
        inputs, ("T",), d.normal(count, width), define, _gather_numpy,
        {
            "torch": lambda t, T, idx: t.nn.functional.embedding(idx, T),
            "jax": lambda jax, T, idx: T[idx],
        },
        (0.0, float(count * width)), linear=True,
    )  # fmt: skip


def _gather_numpy(a: Arrays, h: Array) -> Passes:
    table, index = a["T"], a["idx"]
    y, dt = np.empty_like(h), np.empty_like(table)

    def forward() -> list[Array]:
        np.take(table, index, 0, out=y, mode="clip")
        return [y]

    def gradients() -> list[Array]:
        dt.fill(0)
        np.add.at(dt, index, h)
        return [dt]

    return Passes(forward, gradients)


WORKLOADS = (
    Workload(
        "batchnorm", "layers", {"n": 32, "c": 64, "size": 56}, batchnorm,
        lambda rng: {"n": pick(rng, 8, 32), "c": pick(rng, 16, 96), "size": pick(rng, 14, 64)},
    ),
    Workload(
        "gelu_elem", "layers", {"n": 4096, "m": 1024}, gelu_elem,
        lambda rng: {"n": pick(rng, 500, 6000), "m": pick(rng, 200, 2000)},
    ),
    Workload(
        "gather", "layers", {"rows": 10000, "width": 128, "count": 16384}, gather,
        lambda rng: {
            "rows": pick(rng, 2000, 40000), "width": pick(rng, 32, 256),
            "count": pick(rng, 4000, 40000),
        },
    ),
)  # fmt: skip
