"""The eight timed workloads of the 2018 notebook, with float64 NumPy references.

Source: "TVM-level automatic differentiation" (notebook, 2018); the hand-written softmax has
X (60, 1000), since the notebook's (60, 100) does not fit its W (1000, 1000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.ir.tensor import Shape, Tensor

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Workload:
    """One operator: its formula, and what NumPy says its values and gradients are.

    Attributes:
        output: Y.
        inputs: the placeholders Y depends on.
        wrt: those to differentiate by.
        reference: named arrays -> Y, in the dtype of the arrays.
        gradients: named arrays (with "H") -> the adjoints of `wrt`, in order.
        seed_ms: forward and backward milliseconds printed in the notebook.
    """

    name: str
    output: Tensor
    inputs: tuple[Tensor, ...]
    wrt: tuple[Tensor, ...]
    reference: Callable[[Arrays], Array]
    gradients: Callable[[Arrays], list[Array]]
    seed_ms: tuple[int, int]

    def differentiate(self) -> tuple[Tensor, list[Tensor]]:
        """The head and the gradients."""
        head = te.placeholder(self.output.shape, name="H")
        return head, vjp(self.output, list(self.wrt), head)

    def arrays(self, seed: int = 0) -> Arrays:
        """Random float32 inputs by name, and a head "H"."""
        rng = np.random.default_rng(seed)
        shapes = {t.name: t.shape for t in self.inputs} | {"H": self.output.shape}
        return {n: _random(rng, s) for n, s in shapes.items()}


def _random(rng: np.random.Generator, shape: Shape) -> Array:
    fixed = [n for n in shape if isinstance(n, int)]
    return rng.uniform(-1, 1, fixed).astype(np.float32)


def dense_big() -> Workload:
    """Dense at the notebook's first shapes, gradients of W and B."""
    return _dense("dense W, B", (32, 10000), (3000, 10000), ("W", "B"), (858, 928))


def dense() -> Workload:
    """Dense with the gradients of all three inputs."""
    return _dense("dense X, W, B", (32, 1000), (1000, 1000), ("X", "W", "B"), (28, 60))


def _dense(
    name: str,
    x_shape: tuple[int, int],
    w_shape: tuple[int, int],
    wrt: tuple[str, ...],
    seed_ms: tuple[int, int],
) -> Workload:
    x = te.placeholder(x_shape, name="X")
    w = te.placeholder(w_shape, name="W")
    b = te.placeholder((w_shape[0],), name="B")
    named = {"X": x, "W": w, "B": b}

    def gradients(a: Arrays) -> list[Array]:
        found = {"X": lambda: a["H"] @ a["W"], "W": lambda: a["H"].T @ a["X"]}
        return [a["H"].sum(0) if n == "B" else found[n]() for n in wrt]

    return Workload(
        name, topi.nn.dense(x, w, b), (x, w, b), tuple(named[n] for n in wrt),
        lambda a: a["X"] @ a["W"].T + a["B"], gradients, seed_ms,
    )  # fmt: skip


def conv2d() -> Workload:
    """A 3x3 convolution without padding."""
    x = te.placeholder((32, 17, 28, 28), name="X")
    w = te.placeholder((19, 17, 3, 3), name="W")

    def reference(a: Arrays) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(a["X"], (3, 3), axis=(2, 3))
        return np.moveaxis(np.tensordot(windows, a["W"], ((1, 4, 5), (1, 2, 3))), 3, 1)

    def gradients(a: Arrays) -> list[Array]:
        dx, dw = np.zeros_like(a["X"]), np.zeros_like(a["W"])
        for ky in range(3):
            for kx in range(3):
                window = a["X"][:, :, ky : ky + 26, kx : kx + 26]
                dw[:, :, ky, kx] = np.tensordot(a["H"], window, ((0, 2, 3), (0, 2, 3)))
                part = np.tensordot(a["H"], a["W"][:, :, ky, kx], ((1,), (0,)))
                dx[:, :, ky : ky + 26, kx : kx + 26] += np.moveaxis(part, 3, 1)
        return [dx, dw]

    y = topi.nn.conv2d(x, w, [1, 1], [0, 0])
    return Workload("conv2d", y, (x, w), (x, w), reference, gradients, (52, 118))


def average_pool() -> Workload:
    """2x2 average pooling of a large image batch."""
    x = te.placeholder((32, 17, 280, 280), name="X")

    def reference(a: Arrays) -> Array:
        means: Array = _blocks(a["X"]).mean((3, 5))
        return means

    def gradients(a: Arrays) -> list[Array]:
        return [np.repeat(np.repeat(a["H"], 2, 2), 2, 3) * a["H"].dtype.type(0.25)]

    y = topi.nn.pool(x, [2, 2], [2, 2], [0, 0, 0, 0], "avg")
    return Workload("average pool", y, (x,), (x,), reference, gradients, (14, 233))


def _blocks(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def softmax_by_hand() -> Workload:
    """exp of a dense layer over its sum, written with tensor operators."""
    x = te.placeholder((60, 1000), name="X")
    w = te.placeholder((1000, 1000), name="W")
    exps = topi.exp(topi.nn.dense(x, w))
    y = exps / topi.sum(exps, axis=-1, keepdims=True)

    def reference(a: Arrays) -> Array:
        e = np.exp(a["X"] @ a["W"].T)
        quotient: Array = e / e.sum(1, keepdims=True)
        return quotient

    def gradients(a: Arrays) -> list[Array]:
        p = reference(a)
        d = p * (a["H"] - (a["H"] * p).sum(1, keepdims=True))
        return [d @ a["W"], d.T @ a["X"]]

    return Workload("softmax by hand", y, (x, w), (x, w), reference, gradients, (10, 223))


def flatten() -> Workload:
    """(32, 10, 20, 25) to (32, 5000)."""
    x = te.placeholder((32, 10, 20, 25), name="X")
    return Workload(
        "flatten", topi.nn.flatten(x), (x,), (x,),
        lambda a: a["X"].reshape(32, 5000).copy(),
        lambda a: [a["H"].reshape(32, 10, 20, 25).copy()], (0, 1568),
    )  # fmt: skip


def max_pool() -> Workload:
    """2x2 max pooling."""
    x = te.placeholder((1, 2, 100, 100), name="X")

    def windows(a: Arrays) -> Array:
        return np.moveaxis(_blocks(a["X"]), 3, 4).reshape(1, 2, 50, 50, 4)

    def gradients(a: Arrays) -> list[Array]:
        w = windows(a)
        hit = np.arange(4) == w.argmax(-1)[..., None]
        d = (hit * a["H"][..., None]).reshape(1, 2, 50, 50, 2, 2)
        return [np.moveaxis(d, 4, 3).reshape(1, 2, 100, 100)]

    y = topi.nn.pool(x, [2, 2], [2, 2], [0, 0, 0, 0], "max")
    return Workload("max pool", y, (x,), (x,), lambda a: windows(a).max(-1), gradients, (0, 475))


def softmax() -> Workload:
    """topi's softmax, shifted by the maximum."""
    x = te.placeholder((60, 200), name="X")

    def reference(a: Arrays) -> Array:
        e = np.exp(a["X"] - a["X"].max(1, keepdims=True))
        quotient: Array = e / e.sum(1, keepdims=True)
        return quotient

    def gradients(a: Arrays) -> list[Array]:
        p = reference(a)
        return [p * (a["H"] - (a["H"] * p).sum(1, keepdims=True))]

    y = topi.nn.softmax(x)
    return Workload("topi softmax", y, (x,), (x,), reference, gradients, (0, 785))


WORKLOADS: tuple[Callable[[], Workload], ...] = (
    dense_big, dense, conv2d, average_pool, softmax_by_hand, flatten, max_pool, softmax,
)  # fmt: skip
