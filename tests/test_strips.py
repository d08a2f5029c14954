"""Sums over rows in the loop over those rows: one pass over memory, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.codegen import fusion
from tensorad.codegen.loop_verify import verify_loops
from tensorad.codegen.loopir import Kernel, LoopProgram
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import layer_norm

SMALL_CACHE = "l2=262144"


def normalised(rows: int, columns: int) -> tuple[list[Tensor], list[Tensor]]:
    """A layer normalisation with all its gradients, and what they read."""
    x = te.placeholder((rows, columns), name="X")
    g, b = (te.placeholder((columns,), name=n) for n in "gb")
    y = layer_norm(x, g, b, axis=1)
    head = te.placeholder((rows, columns), name="head")
    return [y, *vjp(y, [x, g, b], head)], [x, g, b, head]


def lowered(rows: int, columns: int) -> LoopProgram:
    with override(machine=SMALL_CACHE):
        program = lower_program(*normalised(rows, columns))
    verify_loops(program)
    return program


def readers(program: LoopProgram, name: str) -> list[Kernel]:
    return [k for k in program.kernels if any(t.name == name for t in k.reads)]


def test_sums_of_rows_read_them_beside_the_rows() -> None:
    program = lowered(2048, 256)
    assert len(readers(program, "X")) == 1
    assert len(readers(program, "head")) == 1
    assert [k.body[-1].kind for k in readers(program, "X")] == ["parallel"]  # type: ignore[union-attr]


def test_rows_that_do_not_fill_blocks_are_read_again() -> None:
    assert len(readers(lowered(2053, 256), "X")) == 2


def test_sums_beside_their_rows_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, inputs = normalised(2048, 256)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype("f4") for t in inputs]
    with override(machine=SMALL_CACHE, num_threads=2):
        joined = ta.build(outputs, inputs)(*arrays)
        monkeypatch.setattr(fusion, "join_strips", lambda kernels, _: list(kernels))
        apart = ta.build(outputs, inputs)(*arrays)
    for have, want in zip(joined, apart, strict=True):
        assert np.array_equal(have, want)
