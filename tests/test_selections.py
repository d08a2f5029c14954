"""Folds of values and places: the same winners, fewer questions, narrow places."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.loop_interpret import interpret_loops
from tensorad.codegen.loop_verify import verify_loops
from tensorad.codegen.loopir import Fold
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import INT32
from tensorad.ir.expr import Call
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder
from tests.test_schedule import all_statements

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def places(n: int, m: int, dtype: str = "float32") -> tuple[list[Tensor], Tensor]:
    """[largest's place, smallest's place] in each column of X."""
    x = te.placeholder((n, m), dtype, name="X")
    return [topi.argmax(x, 0), topi.argmin(x, 0)], x


def folds_of(outputs: list[Tensor], inputs: list[Tensor]) -> list[Fold]:
    program = lower_program(outputs, inputs)
    verify_loops(program)
    return [s for s in all_statements(program) if isinstance(s, Fold)]


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
