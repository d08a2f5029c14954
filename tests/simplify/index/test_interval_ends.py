"""Intervals have the ends that enumeration finds, neither wider nor narrower."""

from __future__ import annotations

import operator
from itertools import product
from typing import Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.arrays.constants import constant
from tensorad.ir.dtypes import UINT8
from tensorad.ir.expr import Axis, axis, cast, floordiv, size_var
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.intervals import Interval, cut, interval, tensor_interval
from tensorad.te import select
from tests.support.oracles import evaluate, points

COMPARES: Final = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
}
A, B = axis("a", -4, 9), axis("b", -2, 5)
N = size_var("n")


@pytest.mark.parametrize("op", COMPARES)
def test_a_cut_keeps_what_may_hold(op: str) -> None:
    ends = range(-2, 3)
    for lo, hi, low, high in product(ends, ends, ends, ends):
        if lo > hi or low > high:
            continue
        kept = [
            x for x in range(lo, hi + 1) if any(COMPARES[op](x, y) for y in range(low, high + 1))
        ]
        want = Interval(min(kept), max(kept)) if kept else Interval(lo, hi)
        assert cut(Interval(lo, hi), op, Interval(low, high)) == want
    assert cut(Interval(0, None), op, Interval(None, None)) == Interval(0, None)


EXACT: Final = {
    "chosen where small": select(A < 3, A, 3),
    "either of two": select((A < -2) | (A > 5), A, 0),
    "both": select((A >= -2) & (A <= 5), A, 0),
    "more than": select(A > 5, A, 7),
    "by 2 to 6": floordiv(A, axis("d", 2, 7)),
    "of below 0": floordiv(axis("m", -9, -3), axis("d", 2, 7)),
    "by 0 or more": floordiv(axis("m", 3, 9), axis("d", 0, 3)),
    "remainders": A % axis("d", 3, 6),
    "its own remainder": axis("m", 0, 4) % axis("d", 3, 6),
    "of either sign": axis("m", -9, 10) % axis("d", -3, 4),
    "product": A * B,
}


@pytest.mark.parametrize("name", EXACT)
def test_ends_are_met(name: str) -> None:
    e = EXACT[name]
    found = interval(e)
    used = [a for a in free_leaves(e) if isinstance(a, Axis)]
    values = [evaluate(e, at) for at in points(used)]
    assert found == Interval(min(values), max(values))


def test_an_open_divisor_leaves_the_sign() -> None:
    assert interval(floordiv(axis("m", -9, -3), N + 1)) == Interval(-9, -1)
    assert interval(floordiv(axis("m", 3, 9), N + 2)) == Interval(0, 4)


def test_the_other_side_is_not_cut() -> None:
    found = interval(select(A < 3, 0, A))
    assert found.hi == 8


def test_bytes_that_wrap_may_be_any() -> None:
    assert interval(cast(axis("m", 0, 300), UINT8)) == Interval(0, 255)
    assert interval(cast(axis("m", 3, 30), UINT8)) == Interval(3, 29)


def test_sums_count_all_of_their_points() -> None:
    k, m = ta.reduce_axis(3, name="k"), ta.reduce_axis(5, name="m")
    table = constant(np.array([4, 9, -1, 6]))
    t = ta.compute((4,), lambda i: ta.sum(table[i], axis=[k, m]), name="t")
    assert tensor_interval(t) == Interval(-15, 135)
    j = ta.reduce_axis(3, name="j")
    high = constant(np.array([2, 5, 3]))
    some = ta.compute((4,), lambda i: ta.sum(high[j], axis=j, where=table[i] > 5), name="some")
    assert tensor_interval(some) == Interval(0, 15)
    largest = ta.compute((4,), lambda i: ta.max(high[j], axis=j, where=table[i] > 5), name="top")
    assert tensor_interval(largest).hi == 5
    low = tensor_interval(largest).lo
    assert low is not None and low <= -(1 << 63)


def test_scatters_and_scans_begin_somewhere() -> None:
    start = constant(np.array([9, 2, 40]))
    value = constant(np.array([5, 7, 3]))
    onto = ta.scatter(3, 2, lambda i: (i, value[i]), combine="max", init=start, name="onto")
    assert tensor_interval(onto).hi == 40
    assert tensor_interval(constant(np.array([1, -2, 3, 0]))) == Interval(-2, 3)
