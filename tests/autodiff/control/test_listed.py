"""Carries of which an iteration changes listed rows: what is stored, and what is not."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad.autodiff.control.listed import in_lists
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.arrays.listed import kept_rows
from tensorad.ir.combiner import set_combiner
from tensorad.ir.expr import call, read
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs
from tensorad.ir.visit import topological_ops

CARRY = ta.placeholder((6,), "float64", name="carry")
LIST = ta.placeholder((2,), "int64", name="list")
VALUES = {CARRY: np.arange(6.0), LIST: np.array([4, 1])}


def following(*, distinct: bool) -> Tensor:
    """The carry with other numbers in the rows of the list."""
    (i,) = compute_axes((2,))
    place = read(LIST, (i,))
    update = Update((place,), call("sin", read(CARRY, (place,))))
    fold = set_combiner(CARRY.dtype)
    op = Scatter("next", (6,), CARRY.dtype, (i,), (update,), fold, CARRY, distinct=distinct)
    return outputs(op)[0]


def listed() -> Tensor:
    (i,) = compute_axes((2,))
    return formula("slope", (i,), call("cos", read(CARRY, (read(LIST, (i,)),))))


def in_place_of_carry(made: Tensor, result: Tensor) -> tuple[Tensor, dict[Tensor, Tensor]]:
    found, stored = in_lists([made], {CARRY: None, LIST: None}, {CARRY: result})
    return found[0], stored


def test_rows_of_the_list_are_stored_in_place_of_the_carry() -> None:
    found, stored = in_place_of_carry(listed(), following(distinct=True))
    rows = ta.interpret(stored[CARRY], VALUES)
    assert np.isnan(rows[[0, 2, 3, 5]]).all()
    assert rows[[4, 1]].tolist() == [4.0, 1.0]
    (_, taken) = [op for op in topological_ops([found]) if op.name in ("carry", "slope")][-2:]
    assert taken is found.op
    np.testing.assert_allclose(ta.evaluate(found, VALUES), np.cos([4.0, 1.0]))


def test_other_rows_and_lists_with_equal_rows_need_the_carry() -> None:
    whole = CARRY * 2.0
    for made, result in (
        (listed(), following(distinct=False)), (whole, following(distinct=True)), (listed(), whole)
    ):  # fmt: skip
        assert in_place_of_carry(made, result) == (made, {})


def test_kept_rows_are_where_they_were() -> None:
    t = ta.placeholder((4, 3), "float64", name="t")
    at = ta.placeholder((2,), "int64", name="at")
    a = np.arange(12.0).reshape(4, 3)
    found = ta.evaluate(kept_rows(t, at), {t: a, at: np.array([3, 0])})
    assert (found[[3, 0]] == a[[3, 0]]).all()
