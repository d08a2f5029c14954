"""Scans whose rows stand in lanes, a few elements of every row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import build
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Prefetch, Store
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.scan.vector_blocks import PIECE, ROWS
from tensorad.config import override
from tensorad.ir.tensor import Tensor
from tests.codegen.caches.test_memory_bound import RNG, array_at, text_of
from tests.codegen.llvm.test_targets import HAS_AVX2
from tests.support.guarded import guarded
from tests.support.machines import described

CPUS = ("", *(("cpu=haswell",) if HAS_AVX2 else ()))
SMALL = "l2=4096,l3=24576"
ROW_BY_ROW = ta.Schedule(tile=(4, 1))
Made = tuple[list[Tensor], list[Tensor]]


def scan(shape: tuple[Any, ...], dtype: str = "float32", kind: object = "sum", **how: bool) -> Made:
    x = te.placeholder(shape, dtype, name="X")
    return [te.scan(x, len(shape) - 1, kind, name="Y", **how)], [x]


def kernel_of(made: Made, **choices: Any) -> Kernel:
    (kernel,) = lower_program(*made, **choices).kernels
    return kernel


def in_lanes(kernel: Kernel) -> list[For]:
    """The loops over the rows of a register."""
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    return [s for s in loops if s.kind == "vector" and s.lanes == ROWS]


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    if dtype.startswith("int"):
        return RNG.integers(-9, 9, shape).astype(dtype)
    return (1 + RNG.standard_normal(shape) / 8).astype(dtype)


def test_pieces_of_rows_are_loaded_and_stored_together() -> None:
    (rows,) = in_lanes(kernel_of(scan((64, 43))))
    (blocks,) = [s for s in rows.body if isinstance(s, For)]
    assert (rows.axis.extent, blocks.axis.extent) == (ROWS, 43 // PIECE)
    assert [isinstance(s, Store) for s in blocks.body[-PIECE:]] == [True] * PIECE
    assert sum(isinstance(s, Store) for s in rows.body) == 43 % PIECE
    whole = text_of(*scan((64, 40)), "l3=100000000")
    assert "masked.gather" not in whole and "masked.scatter" not in whole
    assert whole.count("store <4 x float>") == ROWS
    assert text_of(*scan((64, 41)), "l3=100000000").count("call void @llvm.masked.scatter") == 1


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7, 40), "float32"), ((64, 1024), "float32"), ((64, 40), "int8"), ((64, te.size("m")), "f4")],
)
def test_other_rows_stay_side_by_side(shape: tuple[Any, ...], dtype: str) -> None:
    """Few rows, those that crowd the same places of a cache, short elements, unknown lengths."""
    assert not in_lanes(kernel_of(scan(shape, {"f4": "float32"}.get(dtype, dtype))))


@pytest.mark.sampled(21)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(8, 1), (9, 4), (16, 7), (21, 37), (3, 17, 12), (1, 8, 100)])
def test_blocks_have_the_bits_of_rows(shape: tuple[int, ...], dtype: str, cpu: str) -> None:
    a = numbers(shape, dtype)
    for kind in ("sum", "prod", "max"):
        for how in ({}, {"reverse": True}, {"exclusive": True}):
            made = scan(shape, dtype, kind, **how)
            want = build(*made, schedule=ROW_BY_ROW)(a)
            with described(cpu):
                f = build(*made)
            for offset in (0, 8, 56):
                around = array_at((a.size + 32,), str(want.dtype), offset)
                before = around.copy()
                f(a, out=around[16:-16].reshape(shape))
                np.testing.assert_array_equal(around[16:-16].reshape(shape), want)
                assert around[:16].tobytes() == before[:16].tobytes()
                assert around[-16:].tobytes() == before[-16:].tobytes()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("machine", ["", SMALL])
def test_rows_of_symbolic_number(machine: str, threads: int) -> None:
    with described(machine):
        f = build(*scan((te.size("n"), 37)))
    with override(num_threads=threads):
        for rows in (0, 1, 7, 8, 9, 31, 1003):
            a = numbers((rows, 37), "float32")
            want = build(*scan((rows, 37)), schedule=ROW_BY_ROW)(a) if rows else a
            for offset in (0, 20):
                got = array_at((rows, 37), "float32", offset)
                f(a, out=got)
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("machine", ["", SMALL])
@pytest.mark.parametrize("columns", [12, 37])
def test_blocks_stay_inside_of_their_arrays(columns: int, machine: str) -> None:
    for rows in (8, 19, 200):
        for at_end in (False, True):
            a, out = (guarded((rows, columns), "float32", at_end) for _ in range(2))
            a[...] = RNG.integers(-9, 9, a.shape)
            with described(machine):
                build(*scan(a.shape))(a, out=out)
            np.testing.assert_array_equal(out, np.cumsum(a, axis=1))


def test_states_of_several_numbers_stand_in_lanes() -> None:
    x, k = te.placeholder((24, 21), name="X"), te.placeholder((24, 21), "int32", name="K")
    first = te.comm_reducer(
        lambda a, b: (te.select(a[0] >= b[0], a[0], b[0]), te.select(a[0] >= b[0], a[1], b[1])),
        lambda p, q: (float("-inf"), 0),
        name="first",
    )
    outputs = list(te.scan((x, k), 1, first, name="Y"))
    assert in_lanes(kernel_of((outputs, [x, k])))
    a, b = numbers((24, 21), "float32"), numbers((24, 21), "int32")
    want = build(outputs, [x, k], schedule=ROW_BY_ROW)(a, b)
    for g, w in zip(build(outputs, [x, k])(a, b), want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_rows_of_later_iterations_are_prefetched_in_the_order_of_memory() -> None:
    def asked(rows: Any, machine: str) -> list[list[tuple[str, int]]]:
        with described(machine):
            kernel = kernel_of(scan((rows, 40)))
        blocks = [s for loop in in_lanes(kernel) for s in loop.body if isinstance(s, For)]
        fetched = [[c for c in s.body if isinstance(c, Prefetch)] for s in blocks]
        return [sorted([(c.tensor.name, c.count) for c in f]) for f in fetched]

    assert asked(64, "l2=1000000,l3=100000000") == [[]]
    assert asked(64, "l2=8192,l3=100000000") == [[("X", 32), ("Y", 32)]]
    text = text_of(*scan((64, 40)), "l2=8192,l3=100000000")
    assert text.count("call void @llvm.prefetch") == 4  # 32 elements are two lines
    near, beyond = asked(te.size("n"), "l2=8192,l3=100000")
    assert [t for t, _ in near] == ["X", "Y"] and beyond == [("X", 32)]


@pytest.mark.slow
def test_blocks_of_rows_stream() -> None:
    made = scan((1000, 36))
    with described(SMALL):
        kernel = kernel_of(made)
    copies = [s for s in statements(kernel.body) if isinstance(s, Store) and s.streaming]
    assert [t.name for s in copies for t in s.tensors] == ["Y"] and len(kernel.scratch) == 1
    x = numbers((1000, 36), "float64")
    program = lower_program(*scan((1000, 36), "float64"), choices=ta.Schedule(streaming=True))
    (got,) = interpret_loops(program, {program.inputs[0]: x}, {})[0]
    np.testing.assert_array_equal(got, np.cumsum(x, axis=1))
