"""Scratch buffers: each thread has its own, aligned, and they hold nothing between iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tensorad import Schedule
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Assign, For, Kernel, LoopKind, LoopProgram, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.scratch import STRIDE_BYTES, scratch_bytes
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.model import PAGE
from tensorad.codegen.runtime.arena import Lifetime, plan_arena
from tensorad.codegen.runtime.executable import Executable
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.config import override
from tensorad.errors import InternalError
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import Expr, axis, int_const, param, read, size_var, sub
from tensorad.ir.tensor import Dim, Tensor, dim_expr
from tensorad.te import placeholder
from tensorad.topi.nn import softmax
from tests.support.machines import described


def mirrored(n: Dim, m: Dim, kind: LoopKind = "parallel", spare: Dim = 3) -> LoopProgram:
    """Y[i, j] = X[i, m - 1 - j], each row through a buffer of the thread."""
    x = placeholder((n, m), name="X")
    y, pad, row = (placeholder(s, name=k) for s, k in (((n, m), "Y"), ((spare,), "P"), ((m,), "R")))
    i, j, k = (axis(name, 0, dim_expr(b)) for name, b in (("i", n), ("j", m), ("k", m)))
    last = sub(dim_expr(m), int_const(1))
    fill = For(j, (Store((row,), (j,), (read(x, (i, j)),)),), "vector")
    use = For(k, (Store((y,), (i, k), (read(row, (sub(last, k),)),)),), "vector")
    first = Store((pad,), (int_const(0),), (read(x, (i, int_const(0))),))
    kernel = Kernel("mirror", (For(i, (first, fill, use), kind),), (y,), (x,), (pad, row))
    return LoopProgram((x,), (y,), (kernel,))


def run(program: LoopProgram, x: np.ndarray, sizes: Mapping[Expr, int]) -> np.ndarray:
    executable = Executable(program)
    y = np.empty_like(x)
    layout = executable.layout(sizes, tuple(sizes.values()))
    executable.run(layout, [x.ctypes.data, y.ctypes.data])
    return y


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_every_thread_has_its_own(threads: int, kind: LoopKind) -> None:
    program = mirrored(200, 37, kind)
    verify_loops(program)
    x = np.random.default_rng(0).normal(size=(200, 37)).astype("f4")
    with override(num_threads=threads):
        for _ in range(20):
            np.testing.assert_array_equal(run(program, x, {}), x[:, ::-1])


def test_sizes_may_be_symbols() -> None:
    n, m = size_var("n"), size_var("m")
    program = mirrored(n, m, spare=m)  # where the second buffer begins depends on m
    x = np.random.default_rng(0).normal(size=(9, 21)).astype("f4")
    with override(num_threads=2):
        np.testing.assert_array_equal(run(program, x, {n: 9, m: 21}), x[:, ::-1])
    (got,), _ = interpret_loops(program, {program.inputs[0]: x})
    np.testing.assert_array_equal(got, x[:, ::-1])


def test_blocks_are_whole_lines_and_pages() -> None:
    program = mirrored(4, 5)
    kernel = program.kernels[0]
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    assert ", i64 64\n" in text  # the second buffer begins on the second line
    assert scratch_bytes(kernel, {}) == STRIDE_BYTES


def test_nothing_is_kept_between_iterations() -> None:
    program = mirrored(2, 5)
    x, (y,) = program.inputs[0], program.outputs
    (row,) = program.kernels[0].scratch[1:]
    acc, i, j = param("a", FLOAT32), axis("i", 0, 2), axis("j", 0, 5)
    write = Store((row,), (j,), (read(x, (i, j)),))
    load = Assign((acc,), (read(row, (j,)),))
    body = For(i, (For(j, (load, Store((y,), (i, j), (acc,)), write)),), "parallel")
    kernel = Kernel("keep", (body,), (y,), (x,), (row,))
    (got,), _ = interpret_loops(LoopProgram((x,), (y,), (kernel,)), {x: np.ones((2, 5))})
    assert np.isnan(got).all()


def test_scratch_is_part_of_the_text_and_of_the_key() -> None:
    program = mirrored(4, 5)
    assert "# scratch P : float32 [3]\n# scratch R : float32 [5]\n" in format_loops(program)
    k = program.kernels[0]
    key, tensors = kernel_key(k)
    assert tensors == (program.inputs[0], program.outputs[0])
    swapped = Kernel(k.name, k.body, k.writes, k.reads, k.scratch[::-1])
    assert kernel_key(swapped)[0] != key


def test_scratch_is_not_kept_elsewhere() -> None:
    k = mirrored(4, 5).kernels[0]

    def refuse(scratch: tuple[Tensor, ...], reads: tuple[Tensor, ...], message: str) -> None:
        kernel = Kernel(k.name, k.body, k.writes, reads, scratch)
        with pytest.raises(InternalError, match=message):
            verify_loops(LoopProgram(k.reads, k.writes, (kernel,)))

    refuse(k.scratch, (*k.reads, k.scratch[0]), "P is scratch and also kept")
    refuse(k.scratch[1:], k.reads, "P is stored but not among the writes")


@pytest.mark.parametrize("threads", [1, 3])
def test_scratch_lies_apart_from_what_streams(threads: int) -> None:
    """Wherever the output begins; the room for it is a page of each thread's block."""
    program = mirrored(70, 37)
    (kernel,) = program.kernels
    apart = replace(kernel, unaliased_with=program.outputs[0])
    assert scratch_bytes(apart, {}) == scratch_bytes(kernel, {}) + PAGE
    assert kernel_key(apart)[0] != kernel_key(kernel)[0]
    moved = replace(program, nodes=(apart,))
    verify_loops(moved)
    assert "# scratch apart from Y" in format_loops(moved)
    x = np.random.default_rng(0).normal(size=(70, 37)).astype("f4")
    room = np.empty(70 * 37 + 1024, "f4")
    executable = Executable(moved)
    with override(num_threads=threads):
        for start in (0, 1, 16, 200, 1008):
            y = room[start : start + 70 * 37].reshape(70, 37)
            executable.run(executable.layout({}, ()), [x.ctypes.data, y.ctypes.data])
            np.testing.assert_array_equal(y, x[:, ::-1])
    with pytest.raises(InternalError, match="R is not stored"):
        verify_loops(replace(program, nodes=(replace(kernel, unaliased_with=kernel.scratch[1]),)))


def test_rows_that_stream_have_scratch_apart_from_them() -> None:
    x = placeholder((64, 4096), name="X")
    y = softmax(x)
    for streaming in (True, False):
        choices = Schedule(streaming=streaming, fuse=True)
        with described("l2=65536"):
            (kernel,) = lower_program([y], [x], choices=choices).kernels
        assert kernel.unaliased_with is (y if streaming else None)


def test_temporaries_that_are_there_at_one_time_lie_apart() -> None:
    """Those of one kernel, too: what it reads, and what it stores."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        lives = [
            Lifetime(placeholder((int(n),), name="T"), first)
            for first, n in enumerate(rng.integers(1, 200, 12))
        ]
        for life in lives:
            life.last = life.first + int(rng.integers(0, 4))
        offsets, end = plan_arena(lives, {})
        places = [(o, o + 4 * int(t.tensor.shape[0])) for o, t in zip(offsets, lives, strict=True)]
        assert max(stop for _, stop in places) <= end
        for (a, one), (b, other) in combinations(zip(lives, places, strict=True), 2):
            if a.last >= b.first:
                assert one[1] <= other[0] or other[1] <= one[0]
