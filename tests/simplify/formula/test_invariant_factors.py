"""Which factors of a sum may stand beside it."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.ir.expr import Axis, Expr, axis, size_var
from tensorad.simplify.formula.invariant_factors import may_be_empty, movable
from tensorad.simplify.index.quasi_affine import starts_at_zero

N = size_var("n")
X = te.placeholder((6,), name="X")
DATA = te.placeholder((6,), "int64", name="D")
OUTER = axis("i", 0, 6)


@pytest.mark.parametrize(
    ("a", "empty"),
    [
        (axis("k", 0, 5), False),
        (axis("k", 3, 3), True),
        (axis("k", 0, OUTER), True),
        (axis("k", 0, OUTER + 1), False),
        (axis("k", 0, N + 1), False),
    ],
)
def test_axes_without_values(a: Axis, empty: bool) -> None:
    assert may_be_empty(a, [OUTER]) == empty


def test_axes_that_count_from_zero() -> None:
    assert starts_at_zero(axis("k", 0, 5))
    assert not starts_at_zero(axis("k", 1, 5))
    assert not starts_at_zero(axis("k", 0, 9, 2))


@pytest.mark.parametrize(
    ("e", "free"),
    [(X[OUTER] * 2.0, True), (X[OUTER - 1], False), (X[DATA[OUTER]], False)],
)
def test_reads_that_are_in_range_wherever_the_axes_are(e: Expr, free: bool) -> None:
    assert movable(e) == free
