"""Stencils that follow each other in one loop over blocks of rows: the same bits, fewer bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor
from tests.codegen.llvm.test_targets import HAS_AVX2
from tests.support.guarded import guarded
from tests.support.machines import described

SMALL = "l1=4096,l2=32768,l3=65536"
APART = ta.Schedule(fuse=False)
CPUS = ("", *(("cpu=haswell",) if HAS_AVX2 else ()))
RNG = np.random.default_rng(0)
Step = Callable[[Tensor, int], Tensor]


def padded(u: Tensor, *indices: ta.Expr) -> ta.Expr:
    """An element, 0 outside."""
    inside = [(0 <= i) & (i < n) for i, n in zip(indices, u.shape, strict=True)]
    condition = inside[0]
    for c in inside[1:]:
        condition = condition & c
    return te.select(condition, u[indices], 0)


def diffused(u: Tensor, number: int) -> Tensor:
    """Five points, nonlinear."""

    def body(i: ta.Expr, j: ta.Expr) -> ta.Expr:
        around = padded(u, i - 1, j) + padded(u, i + 1, j) + padded(u, i, j - 1)
        return u[i, j] * (1 - u[i, j]) + around / 8

    return te.compute(u.shape, body, f"U{number}")


def leaning(u: Tensor, number: int) -> Tensor:
    """Two rows before and none after."""
    return te.compute(u.shape, lambda i, j: padded(u, i - 2, j) - padded(u, i, j + 3), f"U{number}")


def box(u: Tensor, number: int) -> Tensor:
    """Nine points of three dimensions, and the element itself."""

    def body(i: ta.Expr, j: ta.Expr, k: ta.Expr) -> ta.Expr:
        return padded(u, i + 1, j - 1, k) + padded(u, i - 1, j, k + 1) - u[i, j, k]

    return te.compute(u.shape, body, f"U{number}")


def chain(step: Step, shape: tuple[int, ...], count: int, dtype: str = "float32") -> list[Tensor]:
    """The start and what each step makes of the one before."""
    found = [te.placeholder(shape, dtype, name="U")]
    for n in range(count):
        found.append(step(found[-1], n + 1))
    return found


def lowered(outputs: list[Tensor], inputs: list[Tensor], machine: str = SMALL) -> LoopProgram:
    with described(machine):
        program = lower_program(outputs, inputs)
    verify_loops(program)
    return program


def blocks_of(k: Kernel) -> int:
    """How many blocks of rows a kernel runs, 0 for another one."""
    loops = [s for s in k.body if isinstance(s, For) and s.axis.name == "block"]
    return loops[0].axis.extent or 0 if loops else 0


def test_stages_share_blocks_of_rows_in_scratch() -> None:
    u, *rest = chain(diffused, (400, 64), 8)
    program = lowered([rest[-1]], [u])
    assert [k.name for k in program.kernels] == ["U4", "U8"]
    assert [blocks_of(k) for k in program.kernels] == [16, 16]
    assert [[t.shape for t in k.scratch] for k in program.kernels] == [[(31, 64), (29, 64)]] * 2
    assert [t.name for t in program.kernels[0].writes] == ["U4"]
    assert blocks_of(lowered([rest[-1]], [u], "l2=32768,l3=1000000").kernels[0]) == 0


def test_what_others_read_is_stored_once() -> None:
    u, *rest = chain(diffused, (400, 64), 4)
    (kernel,) = lowered([rest[1], rest[3]], [u]).kernels
    assert [t.name for t in kernel.writes] == ["U2", "U4"]
    (loop,) = kernel.body
    assert isinstance(loop, For)
    rows = [s for s in loop.body if isinstance(s, For) and _stores(s, kernel.writes[0])]
    bounds = [(str(s.axis.lower), str(s.axis.upper)) for s in rows]
    assert bounds == [("25*block", "min(400, 25*block + 25)")]  # none of those around


def _stores(s: For, t: Tensor) -> bool:
    return any(isinstance(c, Store) and c.tensors == (t,) for c in statements((s,)))


def test_the_reason_is_told() -> None:
    u, *rest = chain(diffused, (400, 64), 3)
    with described(SMALL):
        text = ta.lower([rest[-1]], [u], schedule=True).report()
    assert "3 stencils in one loop over blocks of" in str(text)
    with described(SMALL):
        assert len(lower_program([rest[-1]], [u], choices=APART).kernels) == 3


@pytest.mark.sampled(12)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(
    ("step", "shape", "dtype"),
    [
        (diffused, (200, 64), "float32"),
        (diffused, (211, 37), "float64"),
        (leaning, (167, 65), "float32"),
        (leaning, (300, 33), "int32"),
        (box, (160, 5, 19), "float32"),
    ],
)
def test_the_same_bits_as_apart(
    step: Step, shape: tuple[int, ...], dtype: str, at_end: bool, cpu: str
) -> None:
    u, *rest = chain(step, shape, 6, dtype)
    a = guarded(shape, dtype, at_end)
    a[...] = RNG.integers(-9, 9, shape) / (1 if dtype == "int32" else 16)
    with described(",".join([SMALL, cpu]).strip(",")):
        assert any(blocks_of(k) > 1 for k in lower_program([rest[2], rest[5]], [u]).kernels)
        together = ta.build([rest[2], rest[5]], [u])
        apart = ta.build([rest[2], rest[5]], [u], schedule=APART)
        results = [guarded(shape, dtype, at_end) for _ in range(2)]
        together(a, out=results)
        for got, expected in zip(results, apart(a), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_gradients_have_the_same_bits_on_any_number_of_threads(threads: int) -> None:
    u, *rest = chain(diffused, (250, 40), 6)
    head = te.placeholder(u.shape, name="H")
    outputs = [rest[-1], *ta.vjp(rest[-1], [u], head)]
    arrays = [RNG.random(u.shape, "f4") for _ in range(2)]
    with described(SMALL):
        assert sum(blocks_of(k) > 1 for k in lower_program(outputs, [u, head]).kernels) > 2
        expected = ta.build(outputs, [u, head], schedule=APART)(*arrays)
    with described(SMALL, num_threads=threads):
        f = ta.build(outputs, [u, head], schedule=ta.Schedule(parallel=True, fuse=True))
        g = ta.build(outputs, [u, head])
        for _ in range(5):
            for h in (f, g):
                for got, e in zip(h(*arrays), expected, strict=True):
                    np.testing.assert_array_equal(got, e)


@pytest.mark.slow
def test_the_loops_say_the_same() -> None:
    u, *rest = chain(diffused, (130, 16), 5)
    a = RNG.random(u.shape, "f4")
    small = "l1=1024,l2=8192,l3=32768"
    program = lowered([rest[1], rest[-1]], [u], small)
    assert any(blocks_of(k) > 1 for k in program.kernels)
    with described(small):
        apart = lower_program([rest[1], rest[-1]], [u], choices=APART)
    results = [interpret_loops(p, {u: a})[0] for p in (program, apart)]
    for got, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_steps_that_read_two_before_them_keep_both() -> None:
    """A wave: each step reads the last two, whose scratch serves again only after both."""
    shape = (480, 48)
    u, v = te.placeholder(shape, name="U"), te.placeholder(shape, name="V")
    states = [u, v]
    for n in range(6):
        a, b = states[-2:]
        states.append(
            te.compute(
                shape,
                lambda i, j, a=a, b=b: b[i, j] - a[i, j] + padded(b, i + 1, j - 1) / 4,
                f"W{n}",
            )
        )
    arrays = [RNG.random(shape, "f4") for _ in range(2)]
    with described(SMALL):
        program = lower_program([states[-1]], [u, v])
        assert max(len(k.scratch) for k in program.kernels) == 3
        together = ta.build(states[-1], [u, v])(*arrays)
        apart = ta.build(states[-1], [u, v], schedule=APART)(*arrays)
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize(
    "second",
    [
        lambda u, n: te.compute(u.shape, lambda i, j: u[u.shape[0] - 1 - i, j] * 2, "B"),
        lambda u, n: te.compute((100, 64), lambda i, j: u[2 * i, j] + u[2 * i + 1, j], "B"),
        lambda u, n: te.compute(u.shape, lambda i, j: padded(u, i - 40, j) + u[i, j], "B"),
        lambda u, n: te.compute(u.shape, lambda i, j: u[i, j] + u[7, j], "B"),
    ],
    ids=["turned", "halved", "far", "one row"],
)
def test_other_reads_stay_apart(second: Step) -> None:
    u, first, *_ = chain(diffused, (200, 64), 1)
    last = second(first, 0)
    a = RNG.random(u.shape, "f4")
    assert not any(blocks_of(k) for k in lowered([last], [u]).kernels)
    with described(SMALL):
        got = ta.build(last, [u])(a)
        np.testing.assert_array_equal(got, ta.build(last, [u], schedule=APART)(a))


@pytest.mark.parametrize(("rows", "stages"), [(400, 4), (200, 2), (120, 1)])
def test_few_rows_are_made_twice(rows: int, stages: int) -> None:
    """Of eight rows at most one: blocks are at most a sixteenth of all."""
    u, *rest = chain(diffused, (rows, 200), 4)
    assert len(lowered([rest[-1]], [u], "l2=1048576,l3=65536").kernels) == 4 // stages


def test_border_rows_are_no_loops_that_threads_share() -> None:
    """Apart, threads share a long border row, too."""
    machine = "cores=4,l1=4096,l2=2097152,l3=65536"
    for step in (diffused, leaning):
        u, *rest = chain(step, (400, 30000), 2)
        with described(machine):
            (alone, *_) = lower_program([rest[0]], [u]).kernels
        assert sum(isinstance(s, For) and s.kind == "parallel" for s in alone.body) > 1
        (kernel,) = lowered([rest[-1]], [u], machine).kernels  # verifies the loops
        assert blocks_of(kernel) > 1


def test_sums_at_places_by_data_stay_apart() -> None:
    """A check names the sums before they are there, and they read what they store."""
    u = te.placeholder((300, 40), name="U")
    first = te.compute(u.shape, lambda i, j: u[i, j] - padded(u, i, j - 1), "F")
    at = te.placeholder((40,), "int32", name="K")
    y = te.compute(u.shape, lambda i, j: te.select(i < 1, first[i, j], first[i, at[j]]) * 2, "Y")
    head = te.placeholder(u.shape, name="H")
    outputs, inputs = ta.vjp(y, [u], head), [u, at, head]
    arrays = [RNG.random(u.shape, "f4"), RNG.integers(0, 40, 40).astype("i4")]
    arrays.append(RNG.random(u.shape, "f4"))
    with described("l1=4096,l2=32768,l3=2048"):
        lowered(outputs, inputs)
        got = ta.build(outputs, inputs)(*arrays)
        expected = ta.build(outputs, inputs, schedule=APART)(*arrays)
    np.testing.assert_array_equal(got, expected)
