"""Training steps: a perceptron of two layers, and LeNet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.workloads.elements import CUBIC, SLOPE, gelu
from benchmarks.workloads.lenet_numpy import lenet_numpy
from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from tensorad import optim, te, topi
from tensorad.ir.tensor import Tensor


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x w + b."""
    k = te.reduce_axis(w.shape[0], name="k")
    y: Tensor = te.compute(
        (x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k) + b[j], name="z"
    )
    return y


def cross_entropy(z: Tensor, y: Tensor, n: int) -> Tensor:
    """The mean over the batch."""
    logs = topi.nn.log_softmax(z)
    r = te.reduce_axis(n, name="r")
    loss: Tensor = te.compute((), lambda: te.sum(-logs[r, y[r]], axis=r) * (1 / n), name="loss")
    return loss


def jax_cross_entropy(jax: Any, z: Any, y: Any) -> Any:
    """The same in JAX."""
    picked = jax.numpy.take_along_axis(jax.nn.log_softmax(z, -1), y[:, None], 1)
    return -picked.mean()


def mlp_step(n: int, features: int, hidden: int) -> Problem:
    """A GELU layer and ten classes."""
    d = Draw()
    inputs = {
        "W1": d.normal(features, hidden, scale=features**-0.5),
        "b1": d.normal(hidden, scale=0.1),
        "W2": d.normal(hidden, 10, scale=hidden**-0.5),
        "b2": d.normal(10, scale=0.1),
        "x": d.normal(n, features),
        "y": d.integers(10, n),
    }

    def define(W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor, x: Tensor, y: Tensor) -> Tensor:
        z = linear(x, W1, b1)
        active = te.compute((n, hidden), lambda i, j: gelu(z[i, j]), name="active")
        return cross_entropy(linear(active, W2, b2), y, n)

    def by_torch(t: Any, W1: Any, b1: Any, W2: Any, b2: Any, x: Any, y: Any) -> Any:
        f = t.nn.functional
        return f.cross_entropy(f.gelu(t.addmm(b1, x, W1), approximate="tanh") @ W2 + b2, y)

    def by_jax(jax: Any, W1: Any, b1: Any, W2: Any, b2: Any, x: Any, y: Any) -> Any:
        z = jax.nn.gelu(x @ W1 + b1, approximate=True) @ W2 + b2
        return jax_cross_entropy(jax, z, y)

    first, second = 2.0 * n * features * hidden, 2.0 * n * hidden * 10
    return Problem(
        inputs, ("W1", "b1", "W2", "b2"), np.ones((), np.float32), define, _mlp_numpy,
        {"torch": by_torch, "jax": by_jax}, (first + second, first + 2 * second),
        step=optim.SGD(1e-4),
    )  # fmt: skip


def _mlp_numpy(a: Arrays, h: Array) -> Passes:
    w1, b1, w2, b2, x, y = (a[name] for name in ("W1", "b1", "W2", "b2", "x", "y"))
    n = len(y)
    at = np.arange(n)
    kind = x.dtype.type
    slope, cubic, half, one = kind(SLOPE), kind(CUBIC), kind(0.5), kind(1)

    def layers() -> tuple[Array, Array, Array, Array, Array]:
        z = x @ w1
        z += b1
        t = np.tanh(slope * (z + cubic * z * z * z))
        active = half * z * (one + t)
        out = active @ w2 + b2
        out -= out.max(-1, keepdims=True)
        return z, t, active, out, np.log(np.exp(out).sum(-1))

    def loss(out: Array, total: Array) -> Array:
        return np.asarray((total - out[at, y]).mean())

    def both() -> list[Array]:
        z, t, active, out, total = layers()
        d = np.exp(out - total[:, None])
        d[at, y] -= one
        d *= kind(1 / n)
        slopes = half * (one + t) + half * z * (one - t * t) * slope * (one + 3 * cubic * z * z)
        dz = (d @ w2.T) * slopes
        return [loss(out, total), x.T @ dz, dz.sum(0), active.T @ d, d.sum(0)]

    return Passes(lambda: [loss(*layers()[3:])], lambda: both()[1:], both)


def lenet_step(n: int) -> Problem:
    """Two convolutions of 5 x 5 with pools, three dense layers."""
    d = Draw()
    shapes = {
        "c1": ((6, 1, 5, 5), 0.2), "d1": ((6,), 0.1), "c2": ((16, 6, 5, 5), 0.08),
        "d2": ((16,), 0.1), "f1": ((400, 120), 0.05), "e1": ((120,), 0.1),
        "f2": ((120, 84), 0.09), "e2": ((84,), 0.1), "f3": ((84, 10), 0.1), "e3": ((10,), 0.1),
        "x": ((n, 1, 28, 28), 1.0),
    }  # fmt: skip
    inputs = {name: d.normal(*shape, scale=scale) for name, (shape, scale) in shapes.items()}
    inputs["y"] = d.integers(10, n)
    flops = 2.0 * n * (6 * 28 * 28 * 25 + 16 * 10 * 10 * 150 + 400 * 120 + 120 * 84 + 840)
    return Problem(
        inputs, tuple(shapes)[:-1], np.ones((), np.float32), _lenet, lenet_numpy,
        {
            "torch": _lenet_torch,
            "jax": lambda jax, **p: _lenet_jax(jax, _window_pool, **p),
            "jax_alt": lambda jax, **p: _lenet_jax(jax, _block_pool, **p),
        },
        (flops, 2 * flops - 2.0 * n * 6 * 28 * 28 * 25), step=optim.SGD(1e-4), tolerance=1e-3,
    )  # fmt: skip


def _lenet(**p: Tensor) -> Tensor:
    def block(x: Tensor, w: Tensor, b: Tensor, pad: int) -> Tensor:
        active = topi.nn.relu(topi.nn.bias_add(topi.nn.conv2d(x, w, 1, pad), b))
        return topi.nn.pool(active, [2, 2], [2, 2], [0, 0, 0, 0], "max")

    h = block(p["x"], p["c1"], p["d1"], 2)
    h = topi.nn.flatten(block(h, p["c2"], p["d2"], 0))
    h = topi.nn.relu(linear(h, p["f1"], p["e1"]))
    h = topi.nn.relu(linear(h, p["f2"], p["e2"]))
    n = p["x"].shape[0]
    assert isinstance(n, int)  # no symbolic sizes here
    return cross_entropy(linear(h, p["f3"], p["e3"]), p["y"], n)


def _lenet_torch(t: Any, **p: Any) -> Any:
    f = t.nn.functional
    h = f.max_pool2d(f.relu(f.conv2d(p["x"], p["c1"], p["d1"], padding=2)), 2)
    h = f.max_pool2d(f.relu(f.conv2d(h, p["c2"], p["d2"])), 2).flatten(1)
    h = f.relu(h @ p["f1"] + p["e1"])
    h = f.relu(h @ p["f2"] + p["e2"])
    return f.cross_entropy(h @ p["f3"] + p["e3"], p["y"])


def _lenet_jax(jax: Any, pool: Any, **p: Any) -> Any:
    relu = jax.nn.relu

    def block(x: Any, w: Any, b: Any, pad: int) -> Any:
        z = jax.lax.conv_general_dilated(
            x, w, (1, 1), [(pad, pad)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
        )
        return pool(jax, relu(z + b[None, :, None, None]))

    h = block(block(p["x"], p["c1"], p["d1"], 2), p["c2"], p["d2"], 0)
    h = relu(h.reshape(len(h), -1) @ p["f1"] + p["e1"])
    h = relu(h @ p["f2"] + p["e2"])
    return jax_cross_entropy(jax, h @ p["f3"] + p["e3"], p["y"])


def _window_pool(jax: Any, x: Any) -> Any:
    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(x, -math.inf, jax.lax.max, window, window, "VALID")


def _block_pool(jax: Any, x: Any) -> Any:
    n, c, rows, columns = x.shape
    return x.reshape(n, c, rows // 2, 2, columns // 2, 2).max((3, 5))


WORKLOADS = (
    Workload(
        "mlp_step", "layers", {"n": 128, "features": 784, "hidden": 512}, mlp_step,
        lambda rng: {
            "n": pick(rng, 32, 300), "features": pick(rng, 200, 1200),
            "hidden": pick(rng, 100, 900),
        },
    ),
    Workload("lenet_step", "layers", {"n": 64}, lenet_step, lambda rng: {"n": pick(rng, 16, 200)}),
)  # fmt: skip
