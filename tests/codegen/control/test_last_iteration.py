"""The last iteration leaves out what only another one would read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.control.last_iteration import Use, without_dead_ends
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import ButLast, Place, Repeat
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import outputs, saved
from tests.support.programs.build import loop

X = ta.placeholder((3,), "float64", name="x")
A = np.array([0.5, -1.0, 2.0])


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_value_that_nobody_reads_is_not_computed(trips: int, reverse: bool) -> None:
    op = loop(lambda t, a: [ta.topi.sin(a)], [X], trips=trips, reverse=reverse)
    rows = saved(op, op.blocks[0].params[0])
    program = lower_program([rows], [X], schedule=False)
    (found,), visits = interpret_loops(program, {X: A})
    assert visits == 3 * trips, "the first value is copied into its row"
    np.testing.assert_allclose(found, ta.interpret(rows, {X: A}))
    np.testing.assert_allclose(ta.build([rows], [X])(A), found)
    assert trips == 0 or ta.work(rows).iterations == visits


def test_carries_that_only_they_read_are_left_out() -> None:
    op = loop(lambda t, a, b, c: [a * 2.0, b + c, c + 1.0], [X, X, X], trips=4)
    assert ta.work(outputs(op)[0]).iterations == 4 * 3
    assert ta.work(outputs(op)[2]).iterations == 4 * 3
    assert ta.work(outputs(op)[1]).iterations == 4 * 3 + 3 * 3, "c is not needed after the last"


def test_nodes_are_dead_unless_something_wanted_lies_where_they_store() -> None:
    y, z = X * 2.0, X * 3.0
    kernels = lower_program([y, z], [X], schedule=False).kernels
    trips = local_size("trips")
    t = local_size("t", trips)
    store = buffer("store", (3,), FLOAT64)
    first, second = without_dead_ends(kernels, [y], t, trips, False)
    assert first is kernels[0] and isinstance(second, ButLast) and second.nodes == (kernels[1],)
    placed = (Place(z, store), *kernels)
    assert [type(n) for n in without_dead_ends(placed, [store], t, trips, False)] == [
        Place, ButLast, type(first),
    ]  # fmt: skip
    inner = Repeat(t, trips, store, (), (), None, tuple(kernels), (), (), False, "")
    assert without_dead_ends([inner], [], t, trips, False) == [inner], "it tells a size"
    assert list(Use().add(kernels).writes) == [z, y]


@pytest.mark.parametrize("trips", [1, 3])
def test_branches_and_loops_that_only_pass_values_on_are_run(trips: int) -> None:
    def by_branch(x: ta.Tensor, n: ta.Tensor) -> ta.Tensor:
        y = ta.topi.sin(x)
        arms = [lambda: x, lambda: y]
        return ta.for_loop(0, trips, lambda t, c: ta.topi.cos(c + ta.switch(n, arms)), x)

    def by_loop(x: ta.Tensor, n: ta.Tensor) -> ta.Tensor:
        def step(t: ta.Tensor, c: ta.Tensor) -> ta.Tensor:
            y = ta.topi.sin(c)
            return ta.for_loop(0, 4, lambda t, a: y, c) * x

        return ta.for_loop(0, trips, step, x)

    for f in (by_branch, by_loop):
        found = ta.function(f)(A, 1)
        np.testing.assert_allclose(found, ta.interpret(f, A, 1), rtol=1e-12)


def test_indices_are_checked_in_the_last_iteration_too() -> None:
    x, at = ta.placeholder((4,), "float64", name="x"), ta.placeholder((3,), "int64", name="at")
    first, second = (ta.compute((), lambda n=n: x[n]) for n in (0, 1))

    def step(t: ta.Expr, a: ta.Tensor, b: ta.Tensor) -> list[ta.Tensor]:
        return [a + b, ta.compute((), lambda: x[at[t]], name="b")]

    total = outputs(loop(step, [first, second], trips=3))[0]
    assert ta.evaluate(total, {x: np.arange(4.0), at: np.array([3, 2, 1])}) == 6.0
    with pytest.raises(BoundsError, match="x is read at index 9 of axis 0"):
        ta.evaluate(total, {x: np.arange(4.0), at: np.array([3, 2, 9])})
