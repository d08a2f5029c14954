"""Reduce loops written out four steps at a time, small taps whole, and requests once a line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.loops.ir import Fold, For, If, Kernel, Prefetch
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Axis, Const, Expr, int_const
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, reads, substitute
from tests.codegen.contraction.test_contraction_panels import product
from tests.support.machines import described

MACHINES = (
    "vector_bytes=64,registers=32,multiply_adds=1,cores=2,l1=32768,l2=1048576,l3=33554432",
    "vector_bytes=64,registers=32,multiply_adds=2,cores=2,l1=49152,l2=2097152,l3=33554432",
    "vector_bytes=32,registers=16,multiply_adds=2,cores=2,l1=32768,l2=524288,l3=33554432",
)


def lowered(y: Tensor, inputs: list[Tensor], machine: str) -> Kernel:
    with described(machine):
        program = lower_program([y], inputs)
    verify_loops(program)
    return program.kernels[-1]


def loops_of(kernel: Kernel) -> list[For]:
    """The innermost loops that hold sums, but for those that add up again beside NaN."""
    usual = [s for s in kernel.body if not (isinstance(s, If) and s.rare)]
    found = [s for s in statements(usual) if isinstance(s, For) and s.kind != "vector"]
    return [s for s in found if any(isinstance(c, Fold) for c in s.body)]


def number(e: Expr) -> int:
    found = substitute(e, {a: int_const(0) for a in free_leaves(e)})
    assert isinstance(found, Const)
    return int(found.value)


def steps_of(loop: For, row: Tensor, dim: int) -> list[list[int]]:
    """For each sum of the loop's body the steps it takes, in order."""
    found: dict[object, list[int]] = {}
    for s in loop.body:
        if isinstance(s, Fold):
            (e,) = [e for e in reads(*s.values) if e.tensor is row]
            found.setdefault(s.targets, []).append(number(e.indices[dim]))
    return list(found.values())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("k", [600, 601, 603])
def test_long_sums_take_four_steps_together_in_their_order(machine: str, k: int) -> None:
    y, inputs = product(120, k, 256)
    for loop in loops_of(lowered(y, inputs, machine)):
        steps = steps_of(loop, inputs[0], 1)
        if loop.axis.step is int_const(4):
            assert all(taken == [0, 1, 2, 3] for taken in steps)
        else:
            assert all(taken == steps[0] and len(taken) == 1 for taken in steps)
            assert (loop.axis.extent or 0) < 16
    small, given = product(12, 60, 64)
    assert all(loop.axis.step is int_const(1) for loop in loops_of(lowered(small, given, machine)))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("line", [8, 16, 32, 128])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_step_is_taken_once_whatever_a_line_holds(line: int, dtype: str) -> None:
    a, b = te.placeholder((130, 401), dtype, name="A"), te.placeholder((401, 257), dtype, name="B")
    with described(f"line={line},l1=8192,l2=65536"):
        program = lower_program([topi.matmul(a, b)], [a, b])
        asked = [s for s in statements(program.kernels[-1].body) if isinstance(s, Prefetch)]
        assert any(s.tensor is a for s in asked)
        f = ta.build(topi.matmul(a, b), [a, b])
    rng = np.random.default_rng(0)
    x, y = rng.integers(-3, 4, (130, 401)), rng.integers(-3, 4, (401, 257))
    assert np.array_equal(f(x.astype(dtype), y.astype(dtype)), x @ y)


@pytest.mark.parametrize("machine", MACHINES)
def test_panels_of_long_rows_take_one_step_at_a_time(machine: str) -> None:
    """A prefetcher sees one load with one stride."""
    x, w = te.placeholder((8, 64, 56, 56), name="X"), te.placeholder((128, 64, 1, 1), name="W")
    found = loops_of(lowered(topi.nn.conv2d(x, w), [x, w], machine))
    assert found and all(loop.axis.step is int_const(1) for loop in found)


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_are_prefetched_once_a_line(machine: str) -> None:
    y, inputs = product(2048, 2048, 2048)
    kernel = lowered(y, inputs, machine)
    found = [s for s in statements(kernel.body) if isinstance(s, For)]
    asking = [s for s in found if any(isinstance(c, Prefetch) and c.tensor is inputs[0]
                                      for c in s.body)]  # fmt: skip
    assert asking
    for loop in asking:
        assert loop.axis.step is int_const(16)  # float32 elements of a line
        (inner,) = [c for c in loop.body if isinstance(c, For)]
        assert number(inner.axis.lower) == 0 and number(inner.axis.upper) == 16


@pytest.mark.parametrize("machine", MACHINES)
def test_pieces_of_more_than_two_pages_are_not_prefetched(machine: str) -> None:
    a, b = te.placeholder((32, 10_000), name="A"), te.placeholder((3000, 10_000), name="B")
    k = te.reduce_axis(10_000, name="k")
    y: Tensor = te.compute((32, 3000), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="Y")
    body = lowered(y, [a, b], machine).body
    assert not [s for s in statements(body) if isinstance(s, Prefetch) and s.tensor is b]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("size", "taps"), [(3, 9), (5, 5)])
def test_small_taps_are_written_out(machine: str, size: int, taps: int) -> None:
    x = te.placeholder((4, 32, 58, 58), name="X")
    w = te.placeholder((32, 32, size, size), name="W")
    found = loops_of(lowered(topi.nn.conv2d(x, w, padding=size // 2), [x, w], machine))
    assert found
    for loop in found:
        sums: dict[object, int] = {}
        for s in loop.body:
            if isinstance(s, Fold):
                sums[s.targets] = sums.get(s.targets, 0) + 1
        assert set(sums.values()) == {taps}
        assert isinstance(loop.axis, Axis) and loop.axis.extent == (32 if taps == 9 else size)


@pytest.mark.parametrize("machine", MACHINES)
def test_terms_that_take_many_operations_are_not_written_out(machine: str) -> None:
    a, b = te.placeholder((300, 600), name="A"), te.placeholder((600, 256), name="B")

    def folded(term: Callable[[Expr, Expr], Expr]) -> Tensor:
        k = te.reduce_axis(600, name="k")
        return te.compute((300, 256), lambda i, j: te.sum(term(a[i, k], b[k, j]), axis=k), name="Y")

    def steps(y: Tensor) -> set[int]:
        loops = loops_of(lowered(y, [a, b], machine))
        return {len(taken) for loop in loops for taken in steps_of(loop, a, 1)}

    assert 4 in steps(folded(lambda x, y: x * y))
    assert steps(folded(lambda x, y: te.exp(x - y))) == {1}
    assert steps(folded(lambda x, y: te.tanh(x * y))) == {1}
