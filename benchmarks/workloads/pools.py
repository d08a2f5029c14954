"""Pooling over blocks of 2 x 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.problem import (
    Array,
    Arrays,
    Draw,
    Drawn,
    Passes,
    Problem,
    Workload,
    pick,
)
from tensorad import topi
from tensorad.ir.tensor import Tensor


def pool(n: int, c: int, size: int, kind: str) -> Problem:
    """Averages or maxima of the blocks of (n, c, size, size)."""
    d = Draw()
    half = size // 2
    inputs = {"X": d.normal(n, c, size, size)}
    blocks = (n, c, half, 2, half, 2)

    def define(X: Tensor) -> Tensor:
        return topi.nn.pool(X, [2, 2], [2, 2], [0, 0, 0, 0], kind)

    def by_torch(t: Any, X: Any) -> Any:
        f = t.nn.functional
        return f.avg_pool2d(X, 2, 2) if kind == "avg" else f.max_pool2d(X, 2, 2)

    def torch_blocks(t: Any, X: Any) -> Any:
        b = X.reshape(blocks)
        return b.mean((3, 5)) if kind == "avg" else b.amax((3, 5))

    def by_jax(jax: Any, X: Any) -> Any:
        window = (1, 1, 2, 2)
        if kind == "avg":
            return jax.lax.reduce_window(X, 0.0, jax.lax.add, window, window, "VALID") * 0.25
        return jax.lax.reduce_window(X, -np.inf, jax.lax.max, window, window, "VALID")

    def jax_blocks(jax: Any, X: Any) -> Any:
        b = X.reshape(blocks)
        return b.mean((3, 5)) if kind == "avg" else b.max((3, 5))

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import pool

        return pool(a, h, kind)

    elements = float(n * c * size * size)
    return Problem(
        inputs, ("X",), d.normal(n, c, half, half), define,
        _average_numpy if kind == "avg" else _largest_numpy,
        {"torch": by_torch, "torch_alt": torch_blocks, "jax": by_jax, "jax_alt": jax_blocks},
        (elements, elements), numba=by_numba, linear=kind == "avg",
    )  # fmt: skip


def _corners(x: Array) -> list[Array]:
    """The four elements of every block, in row-major order."""
    return [x[:, :, p::2, q::2] for p in (0, 1) for q in (0, 1)]


def _average_numpy(a: Arrays, h: Array) -> Passes:
    x = a["X"]
    y, dx, part = np.empty_like(h), np.empty_like(x), np.empty_like(h)
    quarter = h.dtype.type(0.25)
    one, two, three, four = _corners(x)

    def forward() -> list[Array]:
        np.add(one, two, out=y)
        np.add(three, four, out=part)
        np.add(y, part, out=y)
        np.multiply(y, quarter, out=y)
        return [y]

    def gradients() -> list[Array]:
        np.multiply(h, quarter, out=part)
        for corner in _corners(dx):
            corner[...] = part
        return [dx]

    return Passes(forward, gradients)


def _largest_numpy(a: Arrays, h: Array) -> Passes:
    """Without ties, which normal numbers do not have."""
    x = a["X"]
    y, dx, part = np.empty_like(h), np.empty_like(x), np.empty_like(h)
    one, two, three, four = _corners(x)

    def forward() -> list[Array]:
        np.maximum(one, two, out=y)
        np.maximum(three, four, out=part)
        np.maximum(y, part, out=y)
        return [y]

    def gradients() -> list[Array]:
        forward()
        for source, target in zip(_corners(x), _corners(dx), strict=True):
            np.multiply(source == y, h, out=target)
        return [dx]

    return Passes(forward, gradients)


def _even(low: int, high: int) -> Drawn:
    def draw(rng: np.random.Generator) -> dict[str, int]:
        return {"n": pick(rng, 4, 32), "c": pick(rng, 3, 32), "size": pick(rng, low, high, 2)}

    return draw


BIG = {"n": 32, "c": 17, "size": 280}

WORKLOADS = (
    Workload("avgpool_big", "notebook", BIG, lambda **s: pool(**s, kind="avg"), _even(100, 300)),
    Workload("maxpool_big", "notebook", BIG, lambda **s: pool(**s, kind="max"), _even(100, 300)),
    Workload(
        "maxpool_small", "notebook", {"n": 1, "c": 2, "size": 100},
        lambda **s: pool(**s, kind="max"),
        lambda rng: {"n": 1, "c": pick(rng, 2, 8), "size": pick(rng, 40, 150, 2)},
    ),
)  # fmt: skip
