"""The layers in NumPy, as a careful user writes them: float32, results into given arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Pass = Callable[[], list[Array]]


def passes(name: str, a: Arrays, wrt: tuple[str, ...]) -> tuple[Pass, Pass]:
    """Calls for the forward pass and for the gradients by `wrt` of the named workload."""
    if name.startswith("dense"):
        return _dense(a, wrt)
    return _LAYERS[name](a)


def _dense(a: Arrays, wrt: tuple[str, ...]) -> tuple[Pass, Pass]:
    x, w, b, h = a["X"], a["W"], a["B"], a["H"]
    y = np.empty_like(h)
    out = {n: np.empty_like(a[n]) for n in wrt}

    def forward() -> list[Array]:
        np.matmul(x, w.T, out=y)
        np.add(y, b, out=y)
        return [y]

    def backward() -> list[Array]:
        if "X" in out:
            np.matmul(h, w, out=out["X"])
        if "W" in out:
            np.matmul(h.T, x, out=out["W"])
        if "B" in out:
            np.sum(h, axis=0, out=out["B"])
        return list(out.values())

    return forward, backward


def _conv2d(a: Arrays) -> tuple[Pass, Pass]:
    """One matrix product for each of the kernel's positions."""
    x, w, h = a["X"], a["W"], a["H"]
    (n, c, _, _), (o, _, rows, columns) = x.shape, w.shape
    height, width = h.shape[2:]
    y, part = np.empty_like(h), np.empty((n, o, height * width), np.float32)
    dx, dw = np.empty_like(x), np.empty_like(w)
    window = np.empty((n, c, height, width), np.float32)
    flat, flat_h = window.reshape(n, c, -1), h.reshape(n, o, -1)

    def load(ky: int, kx: int) -> None:
        window[...] = x[:, :, ky : ky + height, kx : kx + width]

    def forward() -> list[Array]:
        y.fill(0)
        for ky in range(rows):
            for kx in range(columns):
                load(ky, kx)
                np.matmul(np.ascontiguousarray(w[:, :, ky, kx]), flat, out=part)
                np.add(y, part.reshape(y.shape), out=y)
        return [y]

    def backward() -> list[Array]:
        dx.fill(0)
        for ky in range(rows):
            for kx in range(columns):
                load(ky, kx)
                dw[:, :, ky, kx] = np.matmul(flat_h, flat.transpose(0, 2, 1)).sum(0)
                back = np.matmul(np.ascontiguousarray(w[:, :, ky, kx].T), flat_h)
                dx[:, :, ky : ky + height, kx : kx + width] += back.reshape(window.shape)
        return [dx, dw]

    return forward, backward


def _corners(x: Array) -> list[Array]:
    """The four elements of every 2x2 block, in row-major order."""
    return [x[:, :, p::2, q::2] for p in (0, 1) for q in (0, 1)]


def _average_pool(a: Arrays) -> tuple[Pass, Pass]:
    x, h = a["X"], a["H"]
    y, dx, quarter = np.empty_like(h), np.empty_like(x), np.empty_like(h)
    c00, c01, c10, c11 = _corners(x)

    def forward() -> list[Array]:
        np.add(c00, c01, out=y)
        np.add(y, c10, out=y)
        np.add(y, c11, out=y)
        np.multiply(y, np.float32(0.25), out=y)
        return [y]

    def backward() -> list[Array]:
        np.multiply(h, np.float32(0.25), out=quarter)
        for corner in _corners(dx):
            corner[...] = quarter
        return [dx]

    return forward, backward


def _max_pool(a: Arrays) -> tuple[Pass, Pass]:
    x, h = a["X"], a["H"]
    y, dx = np.empty_like(h), np.empty_like(x)
    corners = _corners(x)
    free = np.empty(h.shape, bool)

    def forward() -> list[Array]:
        np.maximum(corners[0], corners[1], out=y)
        np.maximum(y, corners[2], out=y)
        np.maximum(y, corners[3], out=y)
        return [y]

    def backward() -> list[Array]:
        forward()
        free.fill(True)
        for corner, target in zip(corners, _corners(dx), strict=True):
            first = free & (corner == y)
            np.multiply(h, first, out=target)
            np.logical_and(free, ~first, out=free)
        return [dx]

    return forward, backward


def _softmax_of(x: Array, out: Array, shift: bool) -> Array:
    if shift:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        x = out
    np.exp(x, out=out)
    np.divide(out, out.sum(1, keepdims=True), out=out)
    return out


def _softmax_adjoint(p: Array, h: Array, out: Array) -> Array:
    np.subtract(h, np.einsum("ij,ij->i", h, p)[:, None], out=out)
    np.multiply(p, out, out=out)
    return out


def _softmax(a: Arrays) -> tuple[Pass, Pass]:
    x, h = a["X"], a["H"]
    y, dx = np.empty_like(h), np.empty_like(x)

    def forward() -> list[Array]:
        return [_softmax_of(x, y, shift=True)]

    def backward() -> list[Array]:
        return [_softmax_adjoint(_softmax_of(x, y, shift=True), h, dx)]

    return forward, backward


def _softmax_by_hand(a: Arrays) -> tuple[Pass, Pass]:
    x, w, h = a["X"], a["W"], a["H"]
    y, d = np.empty_like(h), np.empty_like(h)
    dx, dw = np.empty_like(x), np.empty_like(w)

    def forward() -> list[Array]:
        np.matmul(x, w.T, out=y)
        return [_softmax_of(y, y, shift=False)]

    def backward() -> list[Array]:
        forward()
        _softmax_adjoint(y, h, d)
        np.matmul(d, w, out=dx)
        np.matmul(d.T, x, out=dw)
        return [dx, dw]

    return forward, backward


def _flatten(a: Arrays) -> tuple[Pass, Pass]:
    x, h = a["X"], a["H"]
    y, dx = np.empty_like(h), np.empty_like(x)

    def forward() -> list[Array]:
        np.copyto(y, x.reshape(h.shape))
        return [y]

    def backward() -> list[Array]:
        np.copyto(dx, h.reshape(x.shape))
        return [dx]

    return forward, backward


_LAYERS: dict[str, Callable[[Arrays], tuple[Pass, Pass]]] = {
    "conv2d": _conv2d,
    "average pool": _average_pool,
    "max pool": _max_pool,
    "softmax by hand": _softmax_by_hand,
    "topi softmax": _softmax,
    "flatten": _flatten,
}
