"""Formulas that choose among records: both modes give each record what its uses give."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.control.handles import moves_handles
from tensorad.errors import GradError
from tensorad.ir.arrays.elementwise import formula
from tensorad.ir.expr import axis, read, select
from tensorad.ir.records import fields_of, tag_of
from tensorad.ir.tensor import Block, Branch, Tensor, outputs
from tests.support.records import cons_list

X = ta.placeholder((), "float64", name="x")
PLACES = ta.placeholder((4,), "int64", name="places")


def first(values: Tensor) -> Tensor:
    """The first number of a list, squared."""
    zero = ta.compute((), lambda: ta.const(0.0, "float64"))
    head, _ = fields_of(values, 1)
    blocks = (Block((values,), (zero,)), Block((values,), (head * head,)))
    return outputs(Branch(("first",), (tag_of(values), values), blocks))[0]


def taken() -> Tensor:
    """Of two lists, [x] and [3x, x], those at four places: the sum of what they begin with."""
    one, two = cons_list([X]), cons_list([X * 3.0, X])
    of, k = axis("i", 0, 4), axis("k", 0, 4)
    chosen = formula("chosen", (of,), select(read(PLACES, (of,)) > 0, read(two, ()), read(one, ())))
    assert moves_handles(chosen.op)
    again = formula("again", (k,), read(chosen, (3 - k,)))
    param = cons_list([X])
    rows = ta.batched(first(param), {param: again})[0]
    total: Tensor = rows.sum()
    return total


@pytest.mark.parametrize("places", [[0, 0, 1, 0], [1, 1, 1, 1]])
def test_both_modes_go_where_records_are_from(places: list[int]) -> None:
    values = {X: np.array(0.5), PLACES: np.array(places)}
    y = taken()
    counts = np.bincount(places, minlength=2)
    slope = 2 * 0.5 * (counts[0] + 9 * counts[1])
    for made in (*ta.vjp(y, [X]), ta.jvp(y, {X: 1.0})):
        np.testing.assert_allclose(ta.interpret(made, values), slope)
        np.testing.assert_allclose(ta.evaluate(made, values), slope)


def test_more_axes_are_refused_in_words() -> None:
    y = taken()
    with pytest.raises(GradError, match="full Jacobian"):
        ta.jvp(y, {X: ta.const(np.ones(3))})
