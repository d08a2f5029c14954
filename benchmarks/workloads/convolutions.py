"""Convolutions: the notebook's, 3 x 3 and 1 x 1 with 64 channels, depthwise."""

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


def convolution(
    n: int, c: int, size: int, o: int, k: int, pad: int, depthwise: bool = False
) -> Problem:
    """Images (n, c, size, size), o kernels of k x k, stride 1."""
    groups = c if depthwise else 1
    part = c // groups
    d = Draw()
    inputs = {
        "X": d.normal(n, c, size, size),
        "W": d.normal(o, part, k, k, scale=(part * k * k) ** -0.5),
    }
    out = size + 2 * pad - k + 1

    def define(X: Tensor, W: Tensor) -> Tensor:
        return topi.nn.conv2d(X, W, 1, pad, groups=groups)

    def by_torch(t: Any, X: Any, W: Any) -> Any:
        return t.nn.functional.conv2d(X, W, None, 1, pad, 1, groups)

    def by_jax(jax: Any, X: Any, W: Any) -> Any:
        return jax.lax.conv_general_dilated(
            X, W, (1, 1), [(pad, pad)] * 2, feature_group_count=groups,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )  # fmt: skip

    def by_numpy(a: Arrays, h: Array) -> Passes:
        return _depthwise_numpy(a, h, pad) if depthwise else _numpy(a, h, pad)

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import convolution

        return convolution(a, h)

    products = 2.0 * n * o * out * out * part * k * k
    return Problem(
        inputs, ("X", "W"), d.normal(n, o, out, out), define, by_numpy,
        {"torch": by_torch, "jax": by_jax}, (products, 2 * products),
        numba=by_numba if pad == 0 and k > 1 and not depthwise else None,
        linear=True,
    )  # fmt: skip


def _padded(x: Array, pad: int) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) if pad else x


def _cut(x: Array, pad: int) -> Array:
    return x[:, :, pad:-pad, pad:-pad] if pad else x


def _numpy(a: Arrays, h: Array, pad: int) -> Passes:
    """One matrix product for each of the kernel's positions."""
    x, w = a["X"], a["W"]
    n, o, rows, columns = h.shape
    c, k = w.shape[1], w.shape[2]
    y, part = np.empty_like(h), np.empty((n, o, rows * columns), h.dtype)
    dw, flat_h = np.empty_like(w), h.reshape(n, o, -1)
    window = np.empty((n, c, rows, columns), x.dtype)
    flat = window.reshape(n, c, -1)

    def forward() -> list[Array]:
        source = _padded(x, pad)
        y.fill(0)
        for p in range(k):
            for q in range(k):
                window[...] = source[:, :, p : p + rows, q : q + columns]
                np.matmul(np.ascontiguousarray(w[:, :, p, q]), flat, out=part)
                np.add(y, part.reshape(y.shape), out=y)
        return [y]

    def gradients() -> list[Array]:
        source = _padded(x, pad)
        dx = np.zeros_like(source)
        for p in range(k):
            for q in range(k):
                window[...] = source[:, :, p : p + rows, q : q + columns]
                dw[:, :, p, q] = np.matmul(flat_h, flat.transpose(0, 2, 1)).sum(0)
                back = np.matmul(np.ascontiguousarray(w[:, :, p, q].T), flat_h)
                dx[:, :, p : p + rows, q : q + columns] += back.reshape(window.shape)
        return [_cut(dx, pad), dw]

    return Passes(forward, gradients)


def _depthwise_numpy(a: Arrays, h: Array, pad: int) -> Passes:
    x, w = a["X"], a["W"]
    k = w.shape[2]
    rows, columns = h.shape[2:]
    y, part, dw = np.empty_like(h), np.empty_like(h), np.empty_like(w)

    def forward() -> list[Array]:
        source = _padded(x, pad)
        y.fill(0)
        for p in range(k):
            for q in range(k):
                window = source[:, :, p : p + rows, q : q + columns]
                np.multiply(window, w[:, 0, p, q][:, None, None], out=part)
                np.add(y, part, out=y)
        return [y]

    def gradients() -> list[Array]:
        source = _padded(x, pad)
        dx = np.zeros_like(source)
        for p in range(k):
            for q in range(k):
                window = source[:, :, p : p + rows, q : q + columns]
                dw[:, 0, p, q] = np.einsum("ncyx,ncyx->c", h, window)
                np.multiply(h, w[:, 0, p, q][:, None, None], out=part)
                dx[:, :, p : p + rows, q : q + columns] += part
        return [_cut(dx, pad), dw]

    return Passes(forward, gradients)


def _seed(rng: np.random.Generator) -> dict[str, int]:
    return {
        "n": pick(rng, 4, 48), "c": pick(rng, 3, 40), "size": pick(rng, 14, 60),
        "o": pick(rng, 5, 48), "k": (2, 3, 5)[int(rng.integers(3))], "pad": 0,
    }  # fmt: skip


def _layer(k: int, pad: int) -> Drawn:
    def draw(rng: np.random.Generator) -> dict[str, int]:
        return {
            "n": pick(rng, 2, 12), "c": pick(rng, 16, 128), "size": pick(rng, 14, 80),
            "o": pick(rng, 16, 160), "k": k, "pad": pad,
        }  # fmt: skip

    return draw


def _depthwise(rng: np.random.Generator) -> dict[str, int]:
    c = pick(rng, 24, 160)
    k = (3, 5)[int(rng.integers(2))]
    return {"n": pick(rng, 2, 12), "c": c, "size": pick(rng, 20, 90), "k": k, "pad": k // 2}


WORKLOADS = (
    Workload(
        "conv_seed", "notebook",
        {"n": 32, "c": 17, "size": 28, "o": 19, "k": 3, "pad": 0}, convolution, _seed,
    ),
    Workload(
        "conv3x3_64", "layers",
        {"n": 8, "c": 64, "size": 56, "o": 64, "k": 3, "pad": 1}, convolution, _layer(3, 1),
    ),
    Workload(
        "conv1x1", "layers",
        {"n": 8, "c": 64, "size": 56, "o": 128, "k": 1, "pad": 0}, convolution, _layer(1, 0),
    ),
    Workload(
        "dwconv", "layers", {"n": 8, "c": 96, "size": 56, "k": 3, "pad": 1},
        lambda n, c, size, k, pad: convolution(n, c, size, c, k, pad, depthwise=True), _depthwise,
    ),
)  # fmt: skip
