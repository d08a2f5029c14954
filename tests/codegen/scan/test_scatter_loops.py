"""The loops of single scatters: updates keep their order, threads and lanes share none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import evaluate
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.loops.ir import If, Store
from tensorad.codegen.scan.parts import lower_point
from tensorad.codegen.scan.scatter import conflict_free_strip, schedule_scatter, wants_threads
from tensorad.codegen.scan.scatter_ranges import indirect_row, shared_by_rows
from tensorad.ir.combiner import max_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import TRUE, Expr, axis, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs
from tests.support.loops.small_loops import branches_in, computed, loops_in
from tests.support.machines import described

N, ROWS, WIDTH = 9, 16, 6
X = te.placeholder((N, WIDTH), "float64", name="X")
PICK = te.placeholder((N,), "int64", name="I")
START = te.placeholder((ROWS, WIDTH), "float64", name="A")
Make = Callable[[], Scatter]


def scatter(where: Callable[[Expr, Expr], tuple[Expr, Expr]], condition: bool = False) -> Scatter:
    a, b = axis("a", 0, N), axis("b", 0, WIDTH)
    update = Update(where(a, b), read(X, (a, b)), a > 2 if condition else TRUE)
    return Scatter("S", (ROWS, WIDTH), FLOAT64, (a, b), (update,), sum_combiner(FLOAT64))


def picked() -> Scatter:
    return scatter(lambda a, b: (read(PICK, (a,)), b))


def reached_once() -> Scatter:
    return scatter(lambda a, b: (a + 2, b))


def guarded() -> Scatter:
    return scatter(lambda a, b: (read(PICK, (a,)), b), condition=True)


def largest() -> Scatter:
    a, b = axis("a", 0, N), axis("b", 0, WIDTH)
    update = Update((read(PICK, (a,)), b), read(X, (a, b)))
    best = max_combiner(FLOAT64)
    return Scatter("M", (ROWS, WIDTH), FLOAT64, (a, b), (update,), best, START)


def arrays() -> dict[Tensor, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        X: rng.normal(size=(N, WIDTH)),
        PICK: rng.integers(0, ROWS, N),
        START: rng.normal(size=(ROWS, WIDTH)),
    }


@pytest.mark.parametrize("choices", [OPEN, Choices(parallel=True), Choices(vector=False)], ids=str)
@pytest.mark.parametrize("make", [picked, reached_once, guarded, largest])
def test_the_kernel_adds_in_the_written_order(make: Make, choices: Choices) -> None:
    op = make()
    (t,) = outputs(op)
    kernel = schedule_scatter(op, t, choices)
    given = {k: v for k, v in arrays().items() if k in kernel.reads}
    (got,) = computed(kernel, given)
    np.testing.assert_array_equal(got, interpret([t], given)[0])
    kinds = {s.kind for s in loops_in(kernel.body)}
    assert ("vector" in kinds) == (choices.vector is not False)
    assert branches_in(kernel.body) == (make is guarded)


def test_updates_of_a_point_share_their_condition() -> None:
    a = axis("a", 0, N)
    updates = tuple([Update((a + d, axis("b", 0, 1).lower), a * 1.0, a > 2) for d in range(3)])
    op = Scatter("S", (ROWS, WIDTH), FLOAT64, (a,), updates, sum_combiner(FLOAT64))
    (found,) = lower_point(op, outputs(op)[0])
    assert isinstance(found, If)
    assert [type(s) for s in found.then] == [Store] * 3


def test_few_points_want_no_threads_unasked() -> None:
    assert not wants_threads(10, None)
    assert wants_threads(10, True)
    assert wants_threads(1e12, None)
    assert not wants_threads(1e12, False)


@described()
def test_planes_a_page_apart_are_cut_into_short_strips() -> None:
    def planes(height: int) -> int:
        p, i = axis("p", 0, 64), axis("i", 0, 5)
        update = Update((p, i), i * 1.0)
        op = Scatter("S", (64, height), FLOAT64, (i, p), (update,), sum_combiner(FLOAT64))
        return conflict_free_strip(op, p)

    assert planes(512) == 8  # 4 kB
    assert planes(513) == 0


@described()
def test_long_rows_picked_by_data_are_shared_by_ranges() -> None:
    n, rows, width = 40, 64, 32
    x, i = te.placeholder((n, width), "float64", name="X"), te.placeholder((n,), "int64", name="I")
    a, b = axis("a", 0, n), axis("b", 0, width)
    update = Update((read(i, (a,)), b), read(x, (a, b)))
    op = Scatter("S", (rows, width), FLOAT64, (a, b), (update,), sum_combiner(FLOAT64))
    assert indirect_row(op, b) is update.indices[0]
    assert indirect_row(picked(), picked().axes[1]) is None  # short rows
    (t,) = outputs(op)
    kernel = schedule_scatter(op, t, Choices(parallel=True))
    assert [s.name for s in kernel.scratch] == ["S.rows", "S.points"]
    rng = np.random.default_rng(1)
    given = {x: rng.normal(size=(n, width)), i: rng.integers(0, rows, n)}
    np.testing.assert_array_equal(computed(kernel, given)[0], interpret([t], given)[0])
    loop, scratch = shared_by_rows(t, update.indices[0], a, loops_in(kernel.body)[-1])
    assert loop.kind == "parallel"
    assert len(scratch) == 2


def test_lanes_whose_updates_data_switch_off() -> None:
    rows, pick = te.placeholder((8, 64), "float64", name="R"), te.placeholder((8,), "int64")
    mask = te.placeholder((64,), "float64", name="M")
    y = te.compute((8, 64), lambda n, d: te.select(mask[d] > 0, rows[pick[n], d] * 2, 0.0))
    given = {
        rows: np.ones((8, 64)),
        pick: np.array([1, 1, 3, 0, 1, 2, 2, 7]),
        mask: np.cos(np.arange(64.0)),
    }
    found = evaluate(vjp(y, [rows], np.ones((8, 64)))[0], given)
    counts = np.bincount(given[pick], minlength=8)
    np.testing.assert_array_equal(found, np.outer(counts, 2.0 * (given[mask] > 0)))


@pytest.mark.parametrize("by_data", [False, True])
def test_a_scatter_whose_values_read_its_start(by_data: bool) -> None:
    z, at = te.placeholder((64,), "float64", name="Z"), te.placeholder((64,), "int64", name="I")
    start = te.compute((64,), lambda i: te.exp(z[i]) * 2, name="start")

    def place(k: Expr) -> tuple[Expr, Expr]:
        return at[k] if by_data else 63 - k, start[k]

    y = te.scatter((64,), (64,), place, init=start)
    values = np.linspace(-1.0, 1.0, 64)
    found = evaluate(y, {z: values, at: np.arange(64)[::-1].copy()})
    np.testing.assert_allclose(found, 2 * (np.exp(values) + np.exp(values[::-1])), rtol=1e-12)
