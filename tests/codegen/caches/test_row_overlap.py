"""Rows stored piece by piece beside the next row: the same bits, wherever rows begin and end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.codegen.caches import pipeline_stores
from tensorad.codegen.caches.pipeline_stores import with_rows_overlapped
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Assign, For, Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import Expr, axis, int_const, param, read
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import layer_norm, softmax
from tests.support.loops.small_loops import arrays_for, computed, kernel_of
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


R, J = axis("r", 0, 9), axis("j", 0, 300)
IN, OUT = (te.placeholder((9, 300), name=n) for n in ("I", "O"))
ROW, ONE = te.placeholder((320,), name="row"), te.placeholder((1,), name="one")
P = param("p", FLOAT32)
ZERO = int_const(0)


def rows_of(last: Expr, before: Stmt | None = None, made_at: Expr = J) -> Kernel:
    """Each row of `OUT` is stored last, from exponentials in a scratch row."""
    made = Store((ROW,), (made_at,), (te.exp(read(IN, (R, J))),))
    end = Store((OUT,), (R, J), (last,), streaming=True)
    passes = (For(J, (made,), "vector", 16), For(J, (end,), "vector", 16))
    return kernel_of([For(R, (*([before] if before else ()), *passes))], [OUT], [ROW, ONE])


OWN = read(ROW, (J,)) * 2.0
FIRST = read(IN, (R, int_const(3)))
ROWS_THAT_WAIT: dict[str, tuple[Kernel, bool]] = {
    "its own element": (rows_of(OWN), True),
    "a scalar of the row": (rows_of(OWN + P, Assign((P,), (FIRST,))), False),
    "an element made first": (
        rows_of(OWN + read(ONE, (ZERO,)), Store((ONE,), (ZERO,), (FIRST,))), False,
    ),
    "another lane's element": (rows_of(read(ROW, (299 - J,))), False),
    "a place for each row": (rows_of(read(ROW, (J + R,)), made_at=J + R), False),
    "changed by the row after": (
        rows_of(OWN, Store((OUT,), (te.maximum(R - 1, 0), int_const(5)), (FIRST,))), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS_THAT_WAIT)
def test_rows_wait_where_nothing_changes_what_they_see(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_stores, "ROWS", 3)
    monkeypatch.setattr(pipeline_stores, "FEWEST_BLOCKS", 2)
    monkeypatch.setattr(pipeline_stores, "PIECE", 256)
    kernel, waits = ROWS_THAT_WAIT[name]
    found = with_rows_overlapped(kernel, Schedules())
    assert (found is not kernel) == waits
    arrays = arrays_for(IN)
    for a, b in zip(computed(found, arrays), computed(kernel, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
