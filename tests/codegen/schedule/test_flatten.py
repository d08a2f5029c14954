"""Neighbouring axes that every access runs through as one become one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorad import te
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.schedule.flatten import LONG, flattened
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import check_stores, nest_for, plainly

X = te.placeholder((4, 5, 6), "float64", name="X")
V = te.placeholder((6,), "float64", name="V")
Make = Callable[[], Tensor]
CASES: dict[str, tuple[Make, int]] = {
    "alike": (lambda: te.compute((4, 5, 6), lambda a, b, c: X[a, b, c] * 2.0, name="Y"), 1),
    "a turn": (lambda: te.compute((4, 6, 5), lambda a, b, c: X[a, c, b], name="Y"), 3),
    "outer ones": (lambda: te.compute((4, 5, 6), lambda a, b, c: X[a, b, 5 - c], name="Y"), 2),
    "a broadcast": (lambda: te.compute((4, 5, 6), lambda a, b, c: X[a, b, c] + V[c], name="Y"), 2),
    "numbers": (lambda: te.compute((4, 5, 6), lambda a, b, c: X[a, b, c] * c, name="Y"), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_what_lies_in_step_is_one_axis(name: str) -> None:
    make, count = CASES[name]
    y = make()
    before = nest_for(y)
    nest = flattened(before, OPEN)
    assert len(nest.axes) == count
    if count == len(before.axes):
        assert nest is before
    check_stores(plainly([nest]), y, X, V)


def test_long_rows_and_folds_stay() -> None:
    wide = te.placeholder((3, LONG), name="W")
    rows = nest_for(te.compute(wide.shape, lambda i, j: wide[i, j] * 2.0))
    assert flattened(rows, OPEN) is rows
    assert len(flattened(rows, Choices(flat=True)).axes) == 1
    k = te.reduce_axis(6, name="k")
    sums = nest_for(te.compute((4, 5), lambda a, b: te.sum(X[a, b, k], axis=k)))
    assert flattened(sums, OPEN) is sums
