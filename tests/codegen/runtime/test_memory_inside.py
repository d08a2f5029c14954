"""Temporaries in the memory of outputs that are not written yet."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.alias_outputs import OutputAlias, alias_temporaries
from tensorad.codegen.runtime.executable import Executable
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import axis, const, int_const, mul, read, sub
from tensorad.ir.tensor import Tensor
from tensorad.te import placeholder
from tests.support.machines import described

MACHINE = "registers=32,vector_bytes=64,cores=2,l2=16384,l3=1048576"
SHALLOW = MACHINE.replace("l2=16384", "l2=131072")


def copied(y: Tensor, x: Tensor, rows: int, first: int = 0, factor: int = 1) -> For:
    """y[first + i, j] = factor * x[first + i, j] for so many rows."""
    i, j = axis("i", 0, rows), axis("j", 0, 8)
    where = (i + first, j)
    value = mul(const(float(factor), FLOAT32), read(x, where))
    return For(i, (For(j, (Store((y,), where, (value,)),)),), "parallel")


def program(main: int) -> tuple[LoopProgram, Tensor, Tensor]:
    """T = 2 X; the first rows of Y from T, then the last ones from X itself."""
    x, y = (placeholder((2048, 8), name=n) for n in "XY")
    t = placeholder((600, 8), name="T")
    body = (copied(t, x, 600, 0, 2), copied(y, x, main), copied(y, x, 2048 - main, main, 3))
    i = axis("i", 0, 600)
    seen = read(t, (sub(int_const(599), i), int_const(7)))
    use = For(i, (Store((y,), (i, int_const(0)), (seen,)),))
    kernel = Kernel("k", (body[0], body[1], use, body[2]), (y, t), (x,))
    return LoopProgram((x,), (y,), (kernel,)), y, t


def run(p: LoopProgram, x: np.ndarray) -> np.ndarray:
    executable = Executable(p)
    y = np.full_like(x, np.nan)
    executable.run(executable.layout({}, ()), [x.ctypes.data, y.ctypes.data])
    return y


@pytest.mark.sampled(9)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("main", [600, 1400, 1446, 1447, 1448])
def test_it_lies_behind_the_rows_that_are_written(main: int, threads: int) -> None:
    p, y, t = program(main)
    verify_loops(p)
    with described(MACHINE, num_threads=threads):
        found = alias_temporaries(p)
        room = 32 * main + 600 * 32 + 64 <= 2048 * 32
        assert found == ({t: OutputAlias(y, 32 * main)} if room else {})
        assert bool(Executable(p).temporaries) != room
        x = np.random.default_rng(main).normal(size=(2048, 8)).astype("f4")
        expected = interpret_loops(p, {p.inputs[0]: x})[0][0].astype("f4")
        for _ in range(5):
            assert np.array_equal(run(p, x), expected)


def test_two_lie_side_by_side() -> None:
    x, y = (placeholder((2048, 8), name=n) for n in "XY")
    a, b = (placeholder((600, 8), name=n) for n in "AB")
    i, j = axis("i", 0, 600), axis("j", 0, 8)
    both = mul(read(a, (i, j)), read(b, (i, j)))
    last = For(i, (For(j, (Store((y,), (i, j), (both,)),)),), "parallel")
    body = (copied(a, x, 600, 0, 2), copied(b, x, 600, 0, 3), last)
    p = LoopProgram((x,), (y,), (Kernel("k", body, (a, b, y), (x, a, b)),))
    with described(MACHINE):
        found = alias_temporaries(p)
    places = sorted(f.offset for f in found.values())
    assert all(second - first >= 600 * 8 * 4 for first, second in pairwise(places))


def test_small_ones_stay_in_the_arena() -> None:
    p, _, _ = program(600)
    with described("l2=1048576"):
        assert not alias_temporaries(p)


def test_outputs_of_symbolic_sizes_have_no_room() -> None:
    n = te.size("n")
    x, u = te.placeholder((600, 8), name="X"), te.placeholder((n, 8), name="U")
    t: Tensor = te.compute((600, 8), lambda i, j: te.exp(x[i, j]), "T")
    r = te.reduce_axis(600, name="r")
    y: Tensor = te.compute((n, 8), lambda i, j: u[i, j] + te.sum(t[r, j], axis=r), "Y")
    z: Tensor = te.compute((600, 8), lambda i, j: t[599 - i, j] * 2.0, "Z")
    given = [np.zeros((600, 8), np.float32), np.ones((5, 8), np.float32)]
    with described(MACHINE):
        f = build([y, z], [x, u], schedule=Choices(fuse=False))
        assert f.memory_at(n=5).temporaries >= 600 * 32
        first, second = f(*given)
    assert np.all(first == 601) and np.all(second == 2)


def product(n: int, k: int, m: int) -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((k, n), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis(k, name="k")
    y: Tensor = te.compute((n, m), lambda i, j: te.sum(a[r, i] * b[r, j], axis=r), name="Y")
    return y, [a, b]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("n", [577, 600])
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_packed_lanes_lie_beneath_the_last_rows(n: int, offset: int, threads: int) -> None:
    y, inputs = product(n, 32, 1100)
    chosen = Choices(contract=True, pack="panel", parallel=True)
    rng = np.random.default_rng(n)
    given = [rng.normal(size=t.shape).astype("f4") for t in inputs]
    given[0][3, n - 2], given[1][5, 7] = np.inf, np.nan
    with described(SHALLOW, num_threads=threads):
        (kernel,) = lower_program([y], inputs, choices=chosen).kernels
        assert [t.name for t in kernel.writes] == ["Y", "panel"]
        f = build(y, inputs, schedule=chosen)
        assert f.memory.temporaries == 0
        memory = np.full(n * 1100 + offset, 7, np.float32)
        f(*given, out=memory[offset:].reshape(n, 1100))
    other = build(y, inputs, schedule=Choices(contract=True, pack="place", parallel=False))
    assert memory[offset:].tobytes() == other(*given).tobytes()
    assert np.all(memory[:offset] == 7)


def test_results_that_leave_all_caches_come_last() -> None:
    x = te.placeholder((600, 600), name="X")
    large: Tensor = te.compute((600, 600), lambda i, j: x[i, j] + 1.0, "Large")
    small: Tensor = te.compute((600,), lambda i: x[i, 0] * 2.0, "Small")
    with described(MACHINE):
        names = [k.name for k in lower_program([large, small], [x]).kernels]
    assert names == ["Small", "Large"]


def test_what_was_read_before_a_store_is_read_again() -> None:
    """In a row of stores, and in a loop whose iterations go on from each other."""
    x, y = (placeholder((16, 8), name=n) for n in "XY")
    s = placeholder((1, 8), name="S")
    i, j, k = axis("i", 0, 16), axis("j", 0, 8), axis("k", 0, 16)
    place = (int_const(0), j)
    before = Store((s,), place, (read(x, (int_const(3), j)),))
    again = Store((s,), place, (mul(read(s, place), const(2.0, FLOAT32)),))
    more = Store((s,), place, (sub(read(s, place), read(x, (k, j))),))
    last = Store((y,), (i, j), (read(s, place),))
    rows = For(i, (For(k, (more,)), last))
    p = LoopProgram((x,), (y,), (Kernel("k", (For(j, (before, again, rows)),), (y, s), (x, s)),))
    given = np.arange(128.0, dtype="f4").reshape(16, 8)
    np.testing.assert_array_equal(run(p, given), interpret_loops(p, {x: given})[0][0])
