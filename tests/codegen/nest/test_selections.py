"""Folds of values and places: the same winners, fewer questions, narrow places."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.autodiff.local.rescaled import rescaled
from tensorad.autodiff.local.selections import selected_components, selection
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.combiner import Combiner, arg_combiner
from tensorad.ir.dtypes import FLOAT32, INT32
from tensorad.ir.expr import Call, Reduce, reduce_expr
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder
from tests.codegen.schedule.test_schedule import all_statements, loops

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def places(n: int, m: int, dtype: str = "float32") -> tuple[list[Tensor], Tensor]:
    """[largest's place, smallest's place] in each column of X."""
    x = te.placeholder((n, m), dtype, name="X")
    return [topi.argmax(x, 0), topi.argmin(x, 0)], x


def folds_of(outputs: list[Tensor], inputs: list[Tensor]) -> list[Fold]:
    program = lower_program(outputs, inputs)
    verify_loops(program)
    return [s for s in all_statements(program) if isinstance(s, Fold)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_winners_among_special_values(dtype: str) -> None:
    outputs, x = places(5, 400, dtype)
    rng = np.random.default_rng(0)
    if dtype.startswith("float"):
        values = rng.choice(SPECIAL, (5, 400)).astype(dtype)
    else:
        ends = np.iinfo(dtype)
        values = rng.choice([ends.min, ends.min + 1, 0, 1, ends.max], (5, 400)).astype(dtype)
    program = lower_program(outputs, [x])
    wanted = (np.argmax(values, 0), np.argmin(values, 0))
    for found in (interpret_loops(program, {x: values})[0], ta.build(outputs, [x])(values)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_no_step_asks_whether_there_is_a_place() -> None:
    outputs, x = places(9, 64)
    folds = folds_of(outputs, [x])
    assert folds
    for f in folds:
        assert f.targets[1].dtype is INT32
        compared = [e for e in postorder(*f.combiner.results) if isinstance(e, Call)]
        assert sorted(e.op for e in compared) in (
            ["and", "ge", "isnan", "not", "not"],
            ["and", "isnan", "le", "not", "not"],
        )


def test_places_of_doubles_stay_wide() -> None:
    outputs, x = places(9, 64, "float64")
    assert all(f.targets[1].dtype is not INT32 for f in folds_of(outputs, [x]))


def test_folds_that_may_be_empty_keep_their_question() -> None:
    n = te.size("n")
    x = te.placeholder((n, 8), name="X")
    k = te.reduce_axis((0, n), "k")
    y = te.compute((8,), lambda i: te.max(x[k, i], axis=k), "Y")
    h = te.placeholder((8,), name="H")
    (dx,) = ta.vjp(y, [x], h)
    for f in folds_of([dx], [x, h]):
        assert f.combiner.arity == 1 or f.targets[1].dtype is not INT32
    function = ta.build(dx, [x, h])
    for size in (0, 1, 3):
        values = np.random.default_rng(size).normal(size=(size, 8)).astype(np.float32)
        found = function(values, np.ones(8, np.float32))
        assert found.sum() == (8 if size else 0)


def test_a_place_over_two_axes_and_an_offset() -> None:
    x = te.placeholder((4, 3, 5), name="X")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 5), "q")
    best = te.comm_reducer(
        _larger,
        lambda t, u: (te.const(-np.inf, t), te.const(-1, u)),
        "best",
    )
    _, place = te.compute((4,), lambda i: best((x[i, p, q], p * 5 + q + 7), axis=[p, q]), "B")
    values = np.random.default_rng(0).normal(size=(4, 3, 5))
    program = lower_program([place], [x])
    verify_loops(program)
    (found,), _ = interpret_loops(program, {x: values})
    np.testing.assert_array_equal(found, values.reshape(4, 15).argmax(1) + 7)


def _larger(a: tuple, b: tuple) -> tuple:  # type: ignore[type-arg]
    take = (a[1] < 0) | (b[0] > a[0])
    return te.select(take, b[0], a[0]), te.select(take, b[1], a[1])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("m", [17, 64, 131])
def test_winners_of_rows_in_lanes(dtype: str, m: int) -> None:
    x = te.placeholder((12, m), dtype, name="X")
    outputs, given = [topi.argmax(x, 1), topi.argmin(x, 1)], ta.Schedule(vector="k")
    program = lower_program(outputs, [x], choices=given)
    verify_loops(program)
    axes = [f.axis for f in loops(program, "vector")]
    assert axes and all(a.extent == m for a in axes)
    rng = np.random.default_rng(m)
    if dtype.startswith("float"):
        values = rng.choice(SPECIAL, (12, m)).astype(dtype)
        values[4:] = rng.choice([-np.inf, 1.0, 2.0], (8, m))
        values[9] = -np.inf
        values[10] = np.inf
        values[11] = np.nan
    else:
        values = rng.integers(-2, 3, (12, m)).astype(dtype)
        values[0] = np.iinfo(dtype).min
    wanted = (np.argmax(values, 1), np.argmin(values, 1))
    compiled = ta.build(outputs, [x], schedule=given)
    for found in (interpret_loops(program, {x: values})[0], compiled(values)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_fold_that_keeps_the_last_of_equals_or_counts_down_keeps_its_order() -> None:
    x = te.placeholder((4, 64), name="X")
    k = te.reduce_axis((0, 64), "k")

    def last(a: tuple, b: tuple) -> tuple:  # type: ignore[type-arg]
        take = (a[1] < 0) | (b[0] >= a[0])
        return te.select(take, b[0], a[0]), te.select(take, b[1], a[1])

    values = np.random.default_rng(2).integers(0, 3, (4, 64)).astype(float)
    wanted = (values.argmax(1), 63 - values[:, ::-1].argmax(1))
    for keep, place, found in (
        (_larger, lambda k: 63 - k, 63 - wanted[0]),
        (last, lambda k: k, wanted[1]),
    ):
        best = te.comm_reducer(keep, lambda t, u: (te.const(-np.inf, t), te.const(-1, u)), "best")
        _, y = te.compute((4,), lambda i, b=best, p=place: b((x[i, k], p(k)), axis=k), "B")
        program = lower_program([y], [x])
        assert not any(f.axis.extent == 64 for f in loops(program, "vector"))
        np.testing.assert_array_equal(interpret_loops(program, {x: values})[0][0], found)
        np.testing.assert_array_equal(ta.build(y, [x])(values.astype(np.float32)), found)


@pytest.mark.parametrize("found_out", [selection, selected_components, rescaled])
def test_what_is_known_of_a_combiner_does_not_keep_it(
    found_out: Callable[[Combiner], object],
) -> None:
    x, k = te.placeholder((5,), name="X"), te.reduce_axis(5, "k")
    fold = te.argmax(x[k], axis=k) if found_out is not rescaled else te.logsumexp(x[k], axis=k)
    (combiner, *_) = [replace(e.combiner) for e in postorder(fold) if isinstance(e, Reduce)]
    first = found_out(combiner)
    assert first and found_out(combiner) is first
    gone = ref(combiner)
    del combiner
    gc.collect()
    assert gone() is None


def test_loops_that_are_gone_do_not_keep_their_combiner() -> None:
    def lowered() -> list[ref[Combiner]]:
        x, k = te.placeholder((4, 64), name="X"), te.reduce_axis(64, "k")
        largest = replace(arg_combiner("maximum", FLOAT32))
        y = te.compute((4,), lambda i: reduce_expr(largest, (x[i, k], k), (k,), index=1), "Y")
        used = [f.combiner for f in folds_of([y], [x])]
        assert used and largest not in used
        return [ref(largest), *map(ref, used)]

    gone = lowered()
    gc.collect()
    assert not any(r() for r in gone)
