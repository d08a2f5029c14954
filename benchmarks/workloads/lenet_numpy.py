"""LeNet and its backward pass in NumPy: windows as matrices."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads.problem import Array, Arrays, Passes


def _columns(x: Array, k: int) -> Array:
    """(n, c, y, x) -> (n, rows, columns, c*k*k): the windows of every position."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))
    n, c, rows, columns = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, rows, columns, c * k * k)


class Block:
    """Convolution, bias, relu and 2 x 2 maxima, with what their gradients need."""

    def __init__(self, x: Array, w: Array, b: Array) -> None:
        self.x, self.w = x, w
        self.columns = _columns(x, w.shape[2])
        self.active = np.maximum(self.columns @ w.reshape(len(w), -1).T + b, 0)
        n, rows, columns, o = self.active.shape
        blocks = self.active.reshape(n, rows // 2, 2, columns // 2, 2, o)
        self.blocks = blocks.transpose(0, 1, 3, 5, 2, 4).reshape(n, rows // 2, columns // 2, o, 4)
        self.winner = self.blocks.argmax(-1)
        largest = np.take_along_axis(self.blocks, self.winner[..., None], -1)[..., 0]
        self.y = np.ascontiguousarray(largest.transpose(0, 3, 1, 2))

    def back(self, dy: Array, inner: bool) -> tuple[Array, Array, Array]:
        """The gradients of w, b and (if `inner`) x."""
        spread = np.zeros_like(self.blocks)
        np.put_along_axis(spread, self.winner[..., None], dy.transpose(0, 2, 3, 1)[..., None], -1)
        n, rows, columns, o, _ = spread.shape
        d = spread.reshape(n, rows, columns, o, 2, 2).transpose(0, 1, 4, 2, 5, 3)
        d = d.reshape(self.active.shape) * (self.active > 0)
        dw = np.tensordot(d, self.columns, ((0, 1, 2), (0, 1, 2))).reshape(self.w.shape)
        dx = np.zeros_like(self.x)
        if inner:
            k = self.w.shape[2]
            for p in range(k):
                for q in range(k):
                    part = d @ self.w[:, :, p, q]
                    dx[:, :, p : p + d.shape[1], q : q + d.shape[2]] += part.transpose(0, 3, 1, 2)
        return dw, d.sum((0, 1, 2)), dx


def lenet_numpy(a: Arrays, h: Array) -> Passes:
    """All three passes."""
    y = a["y"]
    n = len(y)
    at = np.arange(n)
    padded = np.pad(a["x"], ((0, 0), (0, 0), (2, 2), (2, 2)))

    def layers() -> tuple[Block, Block, list[Array]]:
        one = Block(padded, a["c1"], a["d1"])
        two = Block(one.y, a["c2"], a["d2"])
        flat = two.y.reshape(n, -1)
        f1 = np.maximum(flat @ a["f1"] + a["e1"], 0)
        f2 = np.maximum(f1 @ a["f2"] + a["e2"], 0)
        z = f2 @ a["f3"] + a["e3"]
        return one, two, [flat, f1, f2, z - z.max(-1, keepdims=True)]

    def loss(z: Array) -> Array:
        return np.asarray((np.log(np.exp(z).sum(-1)) - z[at, y]).mean())

    def both() -> list[Array]:
        one, two, (flat, f1, f2, z) = layers()
        d = np.exp(z)
        d /= d.sum(-1, keepdims=True)
        d[at, y] -= 1
        d /= n
        d2 = (d @ a["f3"].T) * (f2 > 0)
        d1 = (d2 @ a["f2"].T) * (f1 > 0)
        dc2, dd2, inner = two.back((d1 @ a["f1"].T).reshape(two.y.shape), inner=True)
        dc1, dd1, _ = one.back(inner, inner=False)
        return [
            loss(z), dc1, dd1, dc2, dd2, flat.T @ d1, d1.sum(0),
            f1.T @ d2, d2.sum(0), f2.T @ d, d.sum(0),
        ]  # fmt: skip

    return Passes(lambda: [loss(layers()[2][3])], lambda: both()[1:], both)
