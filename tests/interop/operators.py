"""Operators for tests of other systems, with the same in terms of NumPy-like functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import tensorad as ta
from tensorad import topi
from tensorad.ir.tensor import Tensor

Array = Any
F64: Final = "float64"


class Case(NamedTuple):
    """An operator.

    Attributes:
        outputs, inputs: tensors; `arrays`: for the inputs, far from kinks.
        reference: the outputs (one, or a tuple) of arrays of `xp`, which is torch, or jax.numpy.
    """

    outputs: Sequence[Tensor]
    inputs: Sequence[Tensor]
    arrays: Sequence[np.ndarray[Any, Any]]
    reference: Callable[..., Any]


def _x(name: str, *shape: Any, dtype: str = F64) -> Tensor:
    made: Tensor = ta.placeholder(shape, dtype=dtype, name=name)
    return made


def _rng(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(0.2, 1.4, shape)


def dense() -> Case:
    n, m = ta.size("n"), ta.size("m")
    x, w = _x("X", n, 4), _x("W", m, 4)
    k = ta.reduce_axis((0, 4), "k")
    y = ta.compute((n, m), lambda i, j: ta.sum(ta.sin(x[i, k]) * w[j, k], k), name="Y")
    return Case([y], [x, w], [_rng(3, 4), _rng(5, 4)], lambda xp, a, b: xp.sin(a) @ b.T)


def convolution() -> Case:
    x, w = _x("X", 1, 2, 5, 5), _x("W", 3, 2, 3, 3)
    y = topi.nn.conv2d(x, w, padding=1)

    def reference(xp: Any, a: Array, b: Array) -> Array:
        padded = xp.zeros((1, 2, 7, 7), dtype=xp.float64)
        if hasattr(padded, "at"):
            padded = padded.at[:, :, 1:6, 1:6].set(a)
        else:
            padded = xp.nn.functional.pad(a, (1, 1, 1, 1))
        parts = [
            xp.einsum("bcij,fc->bfij", padded[:, :, p : p + 5, q : q + 5], b[:, :, p, q])
            for p in range(3)
            for q in range(3)
        ]
        return sum(parts)

    return Case([y], [x, w], [_rng(1, 2, 5, 5), _rng(3, 2, 3, 3)], reference)


def max_pool() -> Case:
    n = ta.size("n")
    x = _x("X", n, 6)
    r = ta.reduce_axis((0, 2), "r")
    y = ta.compute((n, 3), lambda i, j: ta.max(x[i, 2 * j + r], r), name="Y")
    return Case([y], [x], [_rng(2, 6)], lambda xp, a: xp.amax(a.reshape(-1, 3, 2), -1))


def softmax() -> Case:
    x = _x("X", ta.size("n"), 5)

    def reference(xp: Any, a: Array) -> Array:
        e = xp.exp(a)
        return e / e.sum(-1)[:, None]

    return Case([topi.nn.softmax(x)], [x], [_rng(3, 5)], reference)


def min_plus() -> Case:
    n = ta.size("n")
    a, b = _x("A", n, 4), _x("B", 4, 3)
    k = ta.reduce_axis((0, 4), "k")
    y = ta.compute((n, 3), lambda i, j: ta.min(a[i, k] + b[k, j], k), name="Y")
    return Case(
        [y], [a, b], [_rng(2, 4), _rng(4, 3, seed=1)],
        lambda xp, p, q: xp.amin(p[:, :, None] + q[None], 1),
    )  # fmt: skip


def running() -> Case:
    x = _x("X", 6)
    y = ta.scan(x, 0, "sum")
    return Case([y], [x], [_rng(6)], lambda xp, a: xp.cumsum(a, 0))


INDICES: Final = np.array([2, 0, 2, 1])


def scattered() -> Case:
    index, v = _x("I", 4, dtype="int64"), _x("V", 4)
    y = ta.scatter((3,), 4, lambda i: (index[i], v[i] * v[i]))

    def reference(xp: Any, i: Array, a: Array) -> Array:
        one = (xp.arange(3)[:, None] == i[None]) * 1.0
        return (one * (a * a)[None]).sum(1)

    return Case([y], [index, v], [INDICES, _rng(4)], reference)


def gathered() -> Case:
    index, x = _x("I", 4, dtype="int64"), _x("X", 3, 2)
    y = ta.compute((4, 2), lambda i, j: ta.exp(x[index[i], j]), name="Y")
    return Case([y], [index, x], [INDICES, _rng(3, 2)], lambda xp, i, a: xp.exp(a[i]))


def custom_combiner() -> Case:
    x = _x("X", 3, 4)
    k = ta.reduce_axis((0, 4), "k")
    joined = ta.comm_reducer(lambda a, b: a + b - a * b, lambda dtype: 0.0, name="prob_or")
    y = ta.compute((3,), lambda i: joined(x[i, k] * 0.5, k), name="Y")
    return Case([y], [x], [_rng(3, 4)], lambda xp, a: 1 - xp.prod(1 - a * 0.5, -1))


def stencil() -> Case:
    n = ta.size("n")
    x = _x("X", n + 2)
    y = ta.compute((n,), lambda i: x[i] * x[i + 2] - 2.0 * x[i + 1], name="Y")
    return Case([y], [x], [_rng(7)], lambda xp, a: a[:-2] * a[2:] - 2 * a[1:-1])


def several() -> Case:
    n = ta.size("n")
    x, w = _x("X", n), _x("W", n)
    total = ta.compute((n,), lambda i: x[i] * w[i], name="P")
    larger = ta.compute((n,), lambda i: ta.exp(x[i]) + w[i], name="Q")
    return Case(
        [total, larger], [x, w], [_rng(4), _rng(4, seed=1)],
        lambda xp, a, b: (a * b, xp.exp(a) + b),
    )  # fmt: skip


def reshaped() -> Case:
    n, m = ta.size("n"), ta.size("m")
    x = _x("X", n, m)
    return Case(
        [topi.reshape(topi.tanh(x), (n * m,))], [x], [_rng(2, 3)],
        lambda xp, a: xp.tanh(a).reshape(-1),
    )  # fmt: skip


CASES: Final[dict[str, Callable[[], Case]]] = {
    f.__name__: f
    for f in (
        dense,
        convolution,
        max_pool,
        softmax,
        min_plus,
        running,
        scattered,
        gathered,
        custom_combiner,
        stencil,
        several,
        reshaped,
    )
}
