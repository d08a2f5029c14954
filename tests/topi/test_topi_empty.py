"""Operators of tensors without elements, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

E = te.placeholder((3, 0), "float64", name="E")
F = te.placeholder((0, 3), "float64", name="F")
I = te.placeholder((2, 0, 4, 4), "float64", name="I")  # noqa: E741  # an image
W = te.placeholder((0, 4, 3, 3), "float64", name="W")
V = te.placeholder((8, 0, 3, 3), "float64", name="V")
J = te.placeholder((2, 8, 4, 4), "float64", name="J")

Operator = Callable[[Any], Any]
CASES: dict[str, tuple[Tensor, Operator, Operator | tuple[int, ...]]] = {
    "repeat": (E, lambda x: topi.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "repeat beside": (E, lambda x: topi.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0)),
    "tile": (E, lambda x: topi.tile(x, (2, 2)), lambda x: np.tile(x, (2, 2))),
    "tile none": (F, lambda x: topi.tile(x, 0), lambda x: np.tile(x, 0)),
    "roll": (E, lambda x: topi.roll(x, 1, 1), lambda x: np.roll(x, 1, 1)),
    "roll backward": (F, lambda x: topi.roll(x, -2, 0), lambda x: np.roll(x, -2, 0)),
    "flip": (E, topi.flip, np.flip),
    "transpose": (E, topi.transpose, np.transpose),
    "reshape": (E, lambda x: topi.reshape(x, (0, 5)), lambda x: np.reshape(x, (0, 5))),
    "flatten": (I, topi.flatten, lambda x: x.reshape(2, 0)),
    "stack": (E, lambda x: topi.stack([x, x]), lambda x: np.stack([x, x])),
    "concatenate": (E, lambda x: topi.concatenate([x, x]), lambda x: np.concatenate([x, x])),
    "split": (E, lambda x: topi.split(x, 3)[0], lambda x: np.split(x, 3)[0]),
    "strided_slice": (E, lambda x: topi.strided_slice(x, (0, 0), (2, 3)), lambda x: x[:2, :3]),
    "pad": (E, lambda x: topi.pad(x, 1), lambda x: np.pad(x, 1)),
    "pad by nothing": (E, lambda x: topi.pad(x, (1, 0), mode="wrap"), (5, 0)),
    "broadcast_to": (E, lambda x: topi.broadcast_to(x, (2, 3, 0)), (2, 3, 0)),
    "space_to_depth": (I, lambda x: topi.space_to_depth(x, 2), (2, 0, 2, 2)),
    "depth_to_space": (I, lambda x: topi.depth_to_space(x, 2), (2, 0, 8, 8)),
    "resize": (I, lambda x: topi.resize(x, 3, "bilinear"), (2, 0, 3, 3)),
    "pool": (I, lambda x: topi.pool(x, 2, 2), (2, 0, 2, 2)),
    "adaptive_pool": (I, lambda x: topi.adaptive_pool(x, 3), (2, 0, 3, 3)),
    "conv2d without outputs": (W, lambda w: topi.conv2d(J, w, groups=2), (2, 0, 2, 2)),
    "conv2d_transpose without outputs": (
        V, lambda w: topi.conv2d_transpose(J, w, groups=2), (2, 0, 6, 6),
    ),
    "softmax": (E, topi.softmax, (3, 0)),
    "cumsum": (E, topi.cumsum, lambda x: np.cumsum(x, 1)),
    "sum": (E, lambda x: topi.sum(x, 1), lambda x: np.sum(x, 1)),
    "matmul": (E, lambda x: topi.matmul(x, topi.transpose(x)), lambda x: x @ x.T),
    "gather": (E, lambda x: topi.gather(x, topi.cast(x, "int64"), 1), (3, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_without_elements(name: str) -> None:
    x, operator, expected = CASES[name]
    values = np.zeros(x.shape)
    y = operator(x)
    wanted = np.zeros(expected) if isinstance(expected, tuple) else expected(values)
    known = {x: values, I: np.zeros(I.shape), J: np.ones(J.shape)}
    np.testing.assert_array_equal(interpret(y, known), wanted)
    heads = vjp(y, [x], np.ones(y.shape))
    inputs = [t for t in known if t is x or name.startswith("conv")]
    value, gradient = build([y, *heads], inputs)(*[known[t] for t in inputs])
    np.testing.assert_array_equal(value, wanted)
    assert gradient.shape == values.shape
