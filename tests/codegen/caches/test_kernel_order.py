"""Kernels in an order in which temporaries take less memory at once."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.caches.kernel_order import in_peak_memory_order
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Dim, Tensor
from tensorad.ir.visit import op_inputs
from tests.random.generators import seeds
from tests.support.machines import described

SEPARATE = ta.Schedule(fuse=False)


def chain(n: Dim, steps: int, rows: int = 64) -> tuple[list[Tensor], Tensor]:
    """Rows of sums, one step after the other; the last step, and one column of each before it."""
    x = te.placeholder((n, rows), name="X")
    tensors = [x]
    for s in range(steps):
        k = te.reduce_axis(rows, name="k")
        before = tensors[-1]
        tensors.append(
            te.compute(
                (n, rows),
                lambda i, j, t=before, k=k: te.sum(abs(t[i, k] - t[i, j]), axis=k),
                f"T{s}",
            )
        )
    columns = [
        te.compute((n,), lambda i, t=t: t[i, 0] * 2.0, f"C{s}") for s, t in enumerate(tensors[1:-1])
    ]
    return [tensors[-1], *columns], x


def test_the_last_reader_runs_before_more_is_made() -> None:
    outputs, x = chain(100, 5)
    names = [k.name for k in lower_program(outputs, [x], choices=SEPARATE).kernels]
    assert names == ["T0", "T1", "C0", "T2", "C1", "T3", "C2", "T4", "C3"]
    f = ta.build(outputs, [x], schedule=SEPARATE)
    assert f.memory.temporaries == 2 * 100 * 64 * 4  # of four
    plain = lower_program(outputs, [x], schedule=False)
    assert [k.name for k in plain.kernels[:5]] == ["T0", "T1", "T2", "T3", "T4"]


def test_sizes_may_be_symbolic() -> None:
    outputs, x = chain(te.size("n"), 5)
    f = ta.build(outputs, [x], schedule=SEPARATE)
    assert f.memory_at(n=100).temporaries == 2 * 100 * 64 * 4


def test_an_order_stays_that_needs_no_more() -> None:
    outputs, x = chain(100, 3)
    program = lower_program(outputs, [x], schedule=False)
    assert in_peak_memory_order(program) is program  # two steps are there at once in any order


def test_results_that_leave_all_caches_stay() -> None:
    outputs, x = chain(100, 5)
    large: Tensor = te.compute((100, 4096), lambda i, j: outputs[1][i] + x[i, j % 64], "Large")
    wanted = [*outputs[:1], large, *outputs[2:]]
    with described("l3=1048576"):
        order = [k.name for k in lower_program(wanted, [x], choices=SEPARATE).kernels]
    assert order[-1] == "Large"


def test_indices_are_checked_in_order_before_they_are_used() -> None:
    (last, *_), x = chain(100, 5)
    q = [te.placeholder((100,), "int64", name=f"Q{n}") for n in range(4)]
    steps = [last]
    while steps[-1] is not x:
        steps.append(op_inputs(steps[-1].op)[0])
    picked: list[Tensor] = [
        te.compute((100,), lambda i, n=n, t=t: t[i, q[n][i]], f"P{n}")
        for n, t in enumerate(steps[-2:0:-1])
    ]
    found = lower_program([last, *picked], [*q, x], choices=SEPARATE)
    verify_loops(found)
    names = [kernel.name for kernel in found.kernels]
    assert [n for n in names if "check" in n] == [f"P{n}.check" for n in range(4)]
    assert all(names.index(f"P{n}.check") < names.index(f"P{n}") for n in range(4))


def test_a_check_waits_for_the_one_before_it() -> None:
    """Though it could run at once, and what it checks for would free memory early."""
    (last, *columns), x = chain(100, 5)
    first = op_inputs(op_inputs(op_inputs(op_inputs(last.op)[0].op)[0].op)[0].op)[0]
    late: Tensor = te.compute((100,), lambda i: te.floor(last[i, 0]).astype("int64"), "I")
    q = te.placeholder((100,), "int64", name="Q")
    a: Tensor = te.compute((100,), lambda i: x[i, late[i]], "A")
    b: Tensor = te.compute((100,), lambda i: first[i, q[i]], "B")
    found = lower_program([last, *columns, a, b], [x, q], choices=SEPARATE)
    verify_loops(found)
    names = [k.name for k in found.kernels]
    order = [n for n in names if n in ("A.check", "B.check", "B")]
    assert order == ["A.check", "B.check", "B"]


def random_program(rng: np.random.Generator, count: int) -> LoopProgram:
    """Tensors of some lengths, each from a few of those before it; some are outputs."""
    x = te.placeholder((7,), name="X")
    tensors = [x]
    for n in range(count):
        chosen = [tensors[m] for m in rng.integers(max(0, n - 6), n + 1, size=rng.integers(1, 4))]
        length = int(rng.choice([1, 2, 30, 50, 200]))
        tensors.append(
            te.compute(
                (length,),
                lambda i, chosen=chosen: sum([t[i % t.shape[0]] for t in chosen], te.const(1.0)),
                f"T{n}",
            )
        )
    outputs = [t for t in tensors[1:] if rng.random() < 0.3] or tensors[-1:]
    return lower_program(outputs, [x], schedule=False)


def peak(program: LoopProgram) -> int:
    """Bytes of the temporaries that are alive at once, by looking at all of them at each kernel."""
    outer = dict.fromkeys((*program.inputs, *program.outputs))
    users: dict[Tensor, list[int]] = {}
    for n, k in enumerate(program.kernels):
        for t in (*k.reads, *k.writes):
            if t not in outer:
                users.setdefault(t, []).append(n)
    sizes = {t: 4 * int(t.shape[0]) for t in users}  # type: ignore[arg-type]  # no symbols here
    return max(
        sum(sizes[t] for t, at in users.items() if at[0] <= n <= at[-1])
        for n in range(len(program.kernels))
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", seeds(10, 30))
def test_random_programs_need_no_more_than_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng, 25)
    found = in_peak_memory_order(program)
    verify_loops(found)
    assert sorted(map(id, found.kernels)) == sorted(map(id, program.kernels))
    assert found is program or peak(found) < peak(program)
    x = rng.normal(size=7).astype("f4")
    before, after = (interpret_loops(p, {p.inputs[0]: x})[0] for p in (program, found))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
