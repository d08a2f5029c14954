"""Rows stored piece by piece beside the next row: the same bits, wherever rows begin and end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.codegen.caches import pipeline_stores
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import layer_norm, softmax
from tests.support.machines import described

SMALL = "l2=262144,l3=1048576"
Made = tuple[list[Tensor], list[Tensor]]


def forward(rows: int, columns: int, dtype: str = "float32") -> Made:
    x = te.placeholder((rows, columns), dtype, name="X")
    return [softmax(x)], [x]


def gradient(rows: int, columns: int, dtype: str = "float32") -> Made:
    (y,), (x,) = forward(rows, columns, dtype)
    head = te.placeholder((rows, columns), dtype, name="head")
    return [*vjp(y, [x], head)], [x, head]


def lowered(made: Made) -> LoopProgram:
    with described(SMALL):
        program = lower_program(*made)
    verify_loops(program)
    return program


def pieces(program: LoopProgram) -> list[For]:
    """The loops over pieces of a row."""
    found = [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    return [s for s in found if s.axis.name == "piece"]


def filled(made: Made) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(t.shape).astype(str(t.dtype)) for t in made[1]]


def test_a_row_is_stored_beside_the_exponentials_of_the_next() -> None:
    program = lowered(forward(300, 2048))
    (kernel,) = program.kernels
    blocks, left = kernel.body
    assert isinstance(blocks, For) and blocks.kind == "parallel" and blocks.axis.extent == 18
    assert isinstance(left, For) and left.axis.extent == 12
    (loop,) = pieces(program)
    stored, computed = loop.body
    assert loop.axis.extent == 8
    assert isinstance(stored, For) and stored.within is not None and stored.width == 64
    assert isinstance(computed, For) and computed.axis.extent == 256 and computed.lanes == 16


@pytest.mark.sampled(9)
@pytest.mark.parametrize("make", [forward, gradient])
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        (256, 1024, "float32"), (275, 1024, "float32"), (256, 1337, "float32"),
        (257, 1055, "float32"), (260, 1280, "float32"), (256, 777, "float64"),
    ],
)  # fmt: skip
def test_bits_are_those_of_whole_rows(
    make: Callable[[int, int, str], Made], rows: int, columns: int, dtype: str
) -> None:
    made = make(rows, columns, dtype)
    arrays = filled(made)
    arrays[0][3, columns // 2] = np.inf
    arrays[0][4, columns - 1] = np.nan
    arrays[0][rows - 1, 0] = -np.inf
    assert pieces(lowered(made))
    with described(SMALL):
        new = ta.build(*made)
        want = ta.build(*made, schedule=ta.Schedule(passes=False))(*arrays)
        for threads, start in ((1, 0), (1, 1), (1, 4), (2, 15), (3, 12)):
            room = np.full(rows * columns + 64, 7, dtype)
            start += -room.ctypes.data % 64 // room.itemsize
            got = room[start : start + rows * columns].reshape(rows, columns)
            with described(SMALL, num_threads=threads):
                new(*arrays, out=got)
            np.testing.assert_array_equal(got, want)
            assert (room[:start] == 7).all() and (room[start + rows * columns :] == 7).all()


def test_loops_say_what_the_formula_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_stores, "ROWS", 3)
    monkeypatch.setattr(pipeline_stores, "FEWEST_BLOCKS", 2)
    monkeypatch.setattr(pipeline_stores, "PIECE", 256)
    made = gradient(7, 300)
    choices = ta.Schedule(fuse=True, streaming=True)
    program = lower_program(*made, choices=choices)
    verify_loops(program)
    assert pieces(program)
    arrays = filled(made)
    (got,), _ = interpret_loops(program, dict(zip(made[1], arrays, strict=True)))
    want = ta.build(*made, schedule=choices)(*arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_rows_that_need_what_the_next_one_changes_do_not_wait() -> None:
    """The largest element of a row is replaced before the next row's exponentials."""
    n, m = 256, 2048
    x = te.placeholder((n, m), name="X")
    k, k1 = (te.reduce_axis(m, name=name) for name in ("k", "k1"))

    def rows(last: Callable[[Expr, Tensor], Expr]) -> list[For]:
        top = te.compute((n,), lambda i: te.max(x[i, k], axis=k), name="top")
        e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]), name="E")
        s = te.compute((n,), lambda i: te.sum(e[i, k1], axis=k1), name="S")
        y = te.compute((n, m), lambda i, j: e[i, j] * s[i] + last(i, top), name="Y")
        return pieces(lowered(([y], [x])))

    assert rows(lambda i, top: te.const(1.0))
    assert not rows(lambda i, top: top[i])


def test_passes_that_compute_little_do_not_store_rows_beside_them() -> None:
    x = te.placeholder((512, 2048), name="X")
    g, b = (te.placeholder((2048,), name=n) for n in "gb")
    assert not pieces(lowered(([layer_norm(x, g, b, axis=1)], [x, g, b])))
    assert not pieces(lowered(forward(200, 4096)))  # too few rows for blocks
    assert not pieces(lowered(forward(2048, 512)))  # short rows
