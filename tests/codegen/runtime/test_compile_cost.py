"""What compiling costs, in counts: LLVM text, functions and modules of whole layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.contraction.register_tiles import row_tiles
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.nest import access as accesses
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir import leaves
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import const, int_const
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
    (dense, 107_000, 4),
    (convolution, 210_000, 12),
    (symbolic_convolution, 1_010_000, 36),
    (pool, 15_000, 1),
    (softmax, 34_000, 1),
]
"""(layer, bytes of text, functions) of forward and gradients; a third above what they are.

A loop that threads share is a function, and so is what stands before, between and after such
loops. The convolution has nine, of which the gradient of its weights has five: threads that are
awake share its small product, too, not only the copy of X.
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("layer", "size_bytes", "functions"), LIMITS)
def test_text_stays_short(layer: Callable[[], Layer], size_bytes: int, functions: int) -> None:
    y, inputs = layer()
    head = te.placeholder(y.shape, name="H")
    program = lower_program([y, *ta.vjp(y, list(inputs), head)], [*inputs, head])
    made = [kernel_text(k, kernel_key(k)[1]) for k in program.kernels]
    assert sum(len(text) for text, _ in made) <= size_bytes
    assert sum(len(parts) for _, parts in made) <= functions


def text_of(y: Tensor, inputs: Sequence[Tensor]) -> str:
    """The LLVM text of all kernels."""
    program = lower_program([y], inputs, choices=ta.Schedule(split=False))
    return "\n".join([kernel_text(k, kernel_key(k)[1])[0] for k in program.kernels])


def test_quotients_of_indices_take_one_instruction() -> None:
    x = te.placeholder((70,), name="X")
    low = te.compute((63, 5), lambda i, j: x[i // 7 + i % 7 + (i + j) // 9], name="Y")
    text = text_of(low, [x])
    assert text.count("sdiv") == 0 and text.count("udiv") > 0 and text.count("urem") > 0
    data = te.placeholder((63,), dtype="int64", name="D")
    signed = te.compute((63,), lambda i: data[i] // 7, name="Y")
    assert text_of(signed, [data]).count("sdiv") > 0  # what is read may be negative


def test_settled_quotients_take_none() -> None:
    x = te.placeholder((70,), name="X")
    y = te.compute((63,), lambda i: x[(i // 9) % 7 + (i % 9) // 9], name="Y")
    assert text_of(y, [x]).count("urem") == 0


@pytest.mark.parametrize(
    ("rows", "most", "least", "tiles"),
    [(64, 6, 0.6, 1), (64, 6, 0.8, 2), (6400, 30, 0.8, 1), (61, 6, 0.6, 2), (60, 6, 1.0, 1)],
)
def test_row_tiles_are_equal_where_that_costs_little(
    rows: int, most: int, least: float, tiles: int
) -> None:
    found = row_tiles(int_const(rows), most, least)
    assert len(found) == tiles
    at = 0
    for start, stop, step in found:
        assert start is int_const(at) and least * most - 1 < step <= most
        at = next(n for n in range(at + step, rows + 1, step) if int_const(n) is stop)
    assert at == rows


def test_collected_lanes_take_one_register() -> None:
    x = te.placeholder((64, 10), name="X")
    k = te.reduce_axis(10, name="k")
    y = te.compute((64,), lambda i: te.max(x[i, k], axis=k), name="Y")
    assert text_of(y, [x]).count("@llvm.masked.load") <= 16 + 1


def test_accesses_of_a_nest_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, looked = accesses.access, []

    def counted(tensor: Tensor, indices: Any) -> accesses.Access:
        looked.append((tensor, indices))
        return plain(tensor, indices)

    monkeypatch.setattr(accesses, "access", counted)
    x = te.placeholder((32, 10, 20, 25), name="X")
    head = te.placeholder((32, 5000), name="H")
    y = topi.nn.flatten(x)
    lower_program([y, *ta.vjp(y, [x], head)], [x, head])
    assert len(looked) <= 16  # a read and a store of five nests, and of forms in between


def test_numbers_used_lately_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(leaves, "wrap", lambda n, dtype: made.append(n) or n)
    for number in (123_457, 123_458, 123_457):
        const(number, INT64)
        int_const(number)
    assert made == [123_457, 123_458]
