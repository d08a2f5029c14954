"""Transposes that stream: rows that begin at different places of a line, and strips of few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import build
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Store
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

RNG = np.random.default_rng(11)
SMALL = "l1=32768,l2=4096,l3=16384"


def transposed(rows: int, columns: int, kind: str, dtype: str) -> tuple[list[Tensor], list[Tensor]]:
    shape = (columns, rows)
    a, b = te.placeholder(shape[::-1], dtype, name="A"), te.placeholder(shape, dtype, name="B")
    if kind == "copy":
        return [te.compute(shape, lambda i, j: a[j, i], "Y")], [a]
    if kind == "product":
        return [te.compute(shape, lambda i, j: a[j, i] * b[i, j], "Y")], [a, b]
    both = te.compute(shape, lambda i, j: (a[j, i], a[j, i] + b[i, j]), "Y")
    return list(both), [a, b]


def wanted(kind: str, x: Any, w: Any) -> list[Any]:
    first = x.T * w if kind == "product" else x.T
    return [first, x.T + w] if kind == "both" else [first]


def kernel_of(outputs: list[Tensor], inputs: list[Tensor], machine: str = SMALL) -> Kernel:
    with described(machine):
        (kernel,) = lower_program(outputs, inputs).kernels
    return kernel


def loops_of(kernel: Kernel) -> list[For]:
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def inside(x: Any, offset: int) -> tuple[Any, Any]:
    """An array like x that begins `offset` bytes behind a line, and the bytes around it."""
    block = np.full(x.nbytes + 256, 255, np.uint8)
    start = -block.ctypes.data % 64 + 64 + offset
    around = np.concatenate([np.arange(start), np.arange(start + x.nbytes, block.size)])
    return block[start : start + x.nbytes].view(x.dtype).reshape(x.shape), (block, around)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("kind", ["copy", "product", "both"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(601, 50), (520, 17), (777, 33)])
def test_ragged_rows_are_those_of_numpy(shape: tuple[int, int], dtype: str, kind: str) -> None:
    outputs, inputs = transposed(*shape, kind, dtype)
    arrays = [RNG.integers(-99, 99, [int(n) for n in t.shape]).astype(dtype) for t in inputs]
    expected = wanted(kind, arrays[0], arrays[-1])
    f = build(outputs, inputs, schedule=ta.Schedule(streaming=True))
    for offset in (0, 16, 40):
        given = [inside(x, offset) for x in expected]
        out = [x for x, _ in given]
        f(*arrays, out=out if len(out) > 1 else out[0])
        for (got, (block, around)), want in zip(given, expected, strict=True):
            np.testing.assert_array_equal(got, want)
            assert (block[around] == 255).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copy", "product", "both"])
def test_the_loops_say_the_same(kind: str) -> None:
    outputs, inputs = transposed(601, 20, kind, "float32")
    choices = ta.Schedule(streaming=True)
    with described(SMALL):
        program = lower_program(outputs, inputs, choices=choices)
    arrays = [RNG.integers(-99, 99, [int(n) for n in t.shape]).astype("f") for t in inputs]
    got, _ = interpret_loops(program, dict(zip(inputs, arrays, strict=True)))
    for have, want in zip(got, wanted(kind, arrays[0], arrays[-1]), strict=True):
        np.testing.assert_array_equal(have, want)


def test_a_strip_goes_through_a_buffer_with_a_line_in_front() -> None:
    kernel = kernel_of(*transposed(601, 50, "copy", "float32"))
    (strip,) = kernel.scratch
    _, tiles, lanes, rows, copy = loops_of(kernel)
    assert strip.shape == (16, 16 + 64) and tiles.covering and rows.axis.extent == 16
    tile = [s for s in lanes.body if isinstance(s, Store)]
    assert len(tile) == 16 and not any(s.streaming for s in tile)
    assert copy.within is not None and all(isinstance(s, Store) and s.streaming for s in copy.body)


@pytest.mark.parametrize(("rows", "buffers"), [(608, 0), (600, 1), (604, 1), (601, 1)])
def test_rows_of_whole_lines_need_no_buffer(rows: int, buffers: int) -> None:
    assert len(kernel_of(*transposed(rows, 50, "copy", "float32")).scratch) == buffers


def test_neither_do_rows_that_do_not_stream_or_buffers_beyond_the_first_cache() -> None:
    made = transposed(601, 50, "copy", "float32")
    assert not kernel_of(*made, "l1=32768,l2=4096,l3=100000000").scratch
    assert not kernel_of(*made, "l1=4096,l2=4096,l3=16384").scratch


def test_buffers_of_unlike_elements_fit_the_first_cache_together() -> None:
    """In front of a strip of float64 lie as many elements as a line has of int8."""
    a = te.placeholder((1201, 50), "int8", name="A")
    b = te.placeholder((1201, 50), "float64", name="B")
    made = list(te.compute((50, 1201), lambda i, j: (a[j, i], b[j, i]), "Y")), [a, b]
    used = []
    for l1 in range(4096, 40000, 2048):
        strips = kernel_of(*made, f"l1={l1},l2=4096,l3=16384").scratch
        used.append(sum(fixed_bytes(t) or 0 for t in strips))
        assert used[-1] <= l1
    assert used[0] == 0 and used[-1] > 0


def test_few_rows_are_read_side_by_side_from_memory() -> None:
    """Two or three lines of what is stored; from the caches, or beside rows, as many as before."""

    def width(kind: str, dtype: str, machine: str = SMALL) -> int:
        outer = loops_of(kernel_of(*transposed(2048, 64, kind, dtype), machine))[0]
        return -(-2048 // int(outer.axis.extent or 1))

    assert width("copy", "float32") == 48
    assert width("copy", "float64") == 16
    assert width("copy", "float32", "l2=4096,l3=100000000") == 256
    assert width("product", "float32") == 256
