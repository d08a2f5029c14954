"""What compiling costs, in counts: LLVM text, functions and modules of whole layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.kernel_key import kernel_key
from tensorad.codegen.kernels import kernel_text
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor

Layer = tuple[Tensor, Sequence[Tensor]]


def dense() -> Layer:
    x, w = te.placeholder((32, 100), name="X"), te.placeholder((64, 100), name="W")
    return topi.nn.dense(x, w), [x, w]


def convolution() -> Layer:
    x, w = te.placeholder((4, 8, 28, 28), name="X"), te.placeholder((16, 8, 3, 3), name="W")
    return topi.nn.conv2d(x, w, 1, 1), [x, w]


def symbolic_convolution() -> Layer:
    x = te.placeholder((4, 8, te.size("h"), 28), name="X")
    w = te.placeholder((16, 8, 3, 3), name="W")
    return topi.nn.conv2d(x, w, 1, 1), [x, w]


def pool() -> Layer:
    x = te.placeholder((4, 8, 28, 28), name="X")
    return topi.nn.pool(x, [2, 2], [2, 2], [0, 0, 0, 0], "max"), [x]


def softmax() -> Layer:
    x = te.placeholder((60, 200), name="X")
    return topi.nn.softmax(x), [x]


LIMITS: list[tuple[Callable[[], Layer], int, int]] = [
    (dense, 239_000, 4),
    (convolution, 173_000, 4),
    (symbolic_convolution, 1_262_000, 36),
    (pool, 15_000, 1),
    (softmax, 34_000, 1),
]
"""(layer, bytes of text, functions) of forward and gradients; a third above what they are."""


@pytest.mark.parametrize(("layer", "size_bytes", "functions"), LIMITS)
def test_text_stays_short(layer: Callable[[], Layer], size_bytes: int, functions: int) -> None:
    y, inputs = layer()
    head = te.placeholder(y.shape, name="H")
    program = lower_program([y, *ta.vjp(y, list(inputs), head)], [*inputs, head])
    made = [kernel_text(k, kernel_key(k)[1]) for k in program.kernels]
    assert sum(len(text) for text, _ in made) <= size_bytes
    assert sum(len(parts) for _, parts in made) <= functions
