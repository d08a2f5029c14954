"""Lists of some of the rows, and rows in the order of their numbers of iterations."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.batching.rows import bounded, in_order, listed, numbers_of, told
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.expr import int_const, read
from tensorad.ir.tensor import Tensor


def given(name: str, count: int, dtype: str = "int64") -> Tensor:
    return ta.placeholder((count,), dtype, name=name)


def summed(t: Tensor) -> Tensor:
    """What has a length that only the run tells is no result."""
    k = ta.reduce_axis((0, t.shape[0]))
    made: Tensor = ta.compute((), lambda: ta.sum(t[k] * (k + 1), axis=k))
    return made


def test_a_size_is_told_by_a_tensor() -> None:
    count = ta.placeholder((), "int64", name="count")
    size, again = told(count, "rows")
    (i,) = compute_axes((size,))
    ones = formula("ones", (i,), read(again, ()) * 1)
    for n in (0, 4, -3):
        wanted = n * n * (n + 1) // 2 if n > 0 else 0
        assert ta.evaluate(summed(ones), {count: np.array(n)}) == wanted
        assert ta.interpret(summed(ones), {count: np.array(n)}) == wanted


def test_rows_are_listed_in_order() -> None:
    flags, x = given("flags", 5, "bool"), given("x", 5)
    chosen = numbers_of(flags, None, 5)
    rows = listed(chosen.numbers, chosen.count)
    found = [summed(rows.at), summed(rows.gathered(x)), chosen.count, chosen.before]
    placed = rows.placed(rows.gathered(x), x, 5)
    values = {flags: np.array([False, True, True, False, True]), x: np.arange(10, 15)}
    at, gathered, count, before = ta.evaluate(found, values)
    assert (at, gathered, count) == (1 + 2 * 2 + 3 * 4, 11 + 2 * 12 + 3 * 14, 3)
    assert before.tolist() == [0, 0, 1, 2, 2]
    assert ta.evaluate(placed, values).tolist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("counts", [[2, 0, 3, 2, -1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
def test_rows_that_go_on_longest_come_first(counts: list[int]) -> None:
    n = given("n", 5)
    trips, most = bounded(n)
    order = in_order(trips, most)
    k = ta.reduce_axis((0, most))
    above = ta.compute((), lambda: ta.sum(order.above[k], axis=k))
    own = np.maximum(counts, 0)
    bound = {n: np.array(counts)}
    found, there, total = ta.evaluate([order.numbers, trips, above], bound)
    wanted = [i for i in np.argsort(-own, kind="stable") if own[i] > 0]
    assert found[: len(wanted)].tolist() == wanted
    assert there.tolist() == own.tolist()
    assert total == own.sum()
    (reference,) = ta.interpret([order.numbers], bound)
    assert reference[: len(wanted)].tolist() == wanted
    if wanted:
        first = summed(order.at(int_const(0)).at)
        assert ta.evaluate(first, bound) == sum([(k + 1) * row for k, row in enumerate(wanted)])
