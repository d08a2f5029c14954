"""Loops of symbolic sizes: threads share them where a call's sizes make it worth while."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.cost.parallel_work import PARALLEL_COST, SHARED_COST
from tensorad.codegen.llvm.call_block import LIGHT
from tensorad.codegen.loops.ir import For
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import compiled_kernel
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.expr import Const, size_var
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

N = size_var("n")


def scaled(n: object) -> tuple[Tensor, list[Tensor]]:
    x = te.placeholder((n, n), name="X")  # type: ignore[arg-type]  # a number or a size
    return te.compute((n, n), lambda i, j: x[i, j] * 2.0, name="Y"), [x]  # type: ignore[arg-type]


def rows(n: object) -> tuple[Tensor, list[Tensor]]:
    x, k = te.placeholder((n, n), name="X"), te.reduce_axis(n, name="k")  # type: ignore[arg-type]
    return te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="S"), [x]  # type: ignore[arg-type]


def triangle(n: object) -> tuple[Tensor, list[Tensor]]:
    x, k = te.placeholder((n, n), name="X"), te.reduce_axis(n, name="k")  # type: ignore[arg-type]
    y = te.compute((n,), lambda i: te.sum(te.exp(x[i, k]), axis=k, where=k <= i), name="T")  # type: ignore[arg-type]
    return y, [x]


def line(n: object) -> tuple[Tensor, list[Tensor]]:
    x = te.placeholder((n,), name="X")  # type: ignore[arg-type]
    return te.compute((n,), lambda i: te.tanh(x[i]), name="L"), [x]  # type: ignore[arg-type]


def shared(make: Callable[[object], tuple[Tensor, list[Tensor]]], n: object) -> list[For]:
    """The loops that threads share."""
    out, inputs = make(n)
    kernels = lower_program([out], inputs).kernels
    found = [s for k in kernels for s in statements(k.body) if isinstance(s, For)]
    return [s for s in found if s.kind == "parallel"]


@pytest.mark.parametrize("make", [scaled, rows, triangle, line], ids=lambda m: m.__name__)
def test_work_grows_with_sizes(make: Callable[[object], tuple[Tensor, list[Tensor]]]) -> None:
    loops = shared(make, te.size("n"))
    assert loops
    work = [loop.work for loop in loops if loop.work is not None]
    assert len(work) == len(loops)
    cycles = [sum(size_value(w, {N: n}) for w in work) for n in (0, 8, 64, 512, 4096)]
    assert cycles == sorted(cycles) and cycles[1] < PARALLEL_COST


def test_known_work_is_a_number() -> None:
    def work(n: int) -> int:
        (loop,) = shared(scaled, n)
        assert isinstance(loop.work, Const)
        return int(loop.work.value)

    assert work(2048) >= PARALLEL_COST
    assert SHARED_COST <= work(512) < PARALLEL_COST
    assert shared(scaled, 32) == []


def work_of(make: Callable[[object], tuple[Tensor, list[Tensor]]], n: object, at: int) -> int:
    """The cycles of the loops that threads share, at a size, beside a second cache of 512 kB."""
    with described(f"l2={1 << 19}"):
        return sum(size_value(s.work, {N: at}) for s in shared(make, n) if s.work is not None)


@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
def test_work_counts_the_bytes_that_memory_brings(symbolic: bool) -> None:
    size = te.size("n")
    beyond = work_of(rows, size if symbolic else 1000, 1000)
    within = work_of(rows, size if symbolic else 300, 300)
    assert beyond == 4 * (1000 * 1000 + 1000) // 8 > PARALLEL_COST
    assert within < 4 * 300 * 300 // 8


def test_only_what_a_loop_reads_of_a_tensor_counts() -> None:
    def few(n: object) -> tuple[Tensor, list[Tensor]]:
        x = te.placeholder((n, 64), name="X")  # type: ignore[arg-type]
        return te.compute((n, 64), lambda i, j: te.exp(x[i, j]), name="T"), [x]  # type: ignore[arg-type]

    def tops(n: object) -> tuple[Tensor, list[Tensor]]:
        x = te.placeholder((1 << 20, 64), name="X")
        return te.compute((n, 64), lambda i, j: te.exp(x[i, j]), name="T"), [x]  # type: ignore[arg-type]

    assert 0 < work_of(tops, 500, 500) == work_of(few, 500, 500)


def test_threads_asked_for_by_hand_always_start() -> None:
    out, inputs = scaled(32)
    (kernel,) = lower_program([out], inputs, choices=ta.Schedule(parallel=True)).kernels
    (loop,) = [s for s in statements(kernel.body) if isinstance(s, For) and s.kind == "parallel"]
    assert loop.work is None


def test_the_answer_says_whether_threads_pay() -> None:
    word = ctypes.c_int64

    def answer(n: int, size: object) -> int:
        out, inputs = rows(size)
        (kernel,) = lower_program([out], inputs).kernels
        compiled, _ = compiled_kernel(kernel)
        (phase,) = compiled.phases
        kind = ctypes.CFUNCTYPE(word, *[ctypes.c_void_p] * 3, word, word, ctypes.c_void_p)
        slots, index = (word * 4)(), (word * 4)(0, 1, 0, 0)
        found = kind(phase.address)(slots, index, (word * 2)(n, n), 0, -1, (word * 4)())
        return int(found)

    symbolic = te.size("n")
    assert answer(10, symbolic) == -10 and answer(100, symbolic) == -100
    for size in (symbolic, 500):
        assert answer(500, size) == 500 | LIGHT
    for size in (symbolic, 20_000):
        assert answer(20_000, size) == 20_000


@pytest.mark.parametrize("n", [0, 1, 5, 300, 2000])
def test_values_with_and_without_threads(n: int) -> None:
    for make in (scaled, rows, triangle):
        out, inputs = make(te.size("n"))
        f = ta.build(out, inputs)
        x = np.random.default_rng(n).integers(-4, 5, (n, n)).astype("f")
        want = {"Y": x * 2, "S": x.sum(1), "T": np.tril(np.exp(x)).sum(1)}[out.name]
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-4)


def test_a_long_line_is_cut_into_long_strips() -> None:
    (outer,) = shared(line, 1 << 20)
    assert outer.axis.extent is not None and 8 <= outer.axis.extent <= 4096
    x, inputs = line(1_000_003)
    values = np.linspace(-3, 3, 1_000_003, dtype="f")
    np.testing.assert_allclose(ta.build(x, inputs)(values), np.tanh(values), rtol=1e-6)
