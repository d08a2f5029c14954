"""Contractions of formulas that share their parts: each part is looked at once."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.directives import Choices
from tensorad.ir.expr import Expr, Read
from tests.codegen.contraction.test_contraction import names, recognised


@pytest.mark.parametrize("squarings", [5, 60])
def test_a_product_that_doubles_its_factors_is_not_taken_apart(squarings: int) -> None:
    a, b = ta.placeholder((5, 6), name="A"), ta.placeholder((6, 7), name="B")
    k = ta.reduce_axis(6, name="k")

    def power(i: Expr, j: Expr) -> Expr:
        e = a[i, k] * b[k, j]
        for _ in range(squarings):
            e = e * e
        return ta.sum(e, axis=k)

    out = ta.compute((5, 7), power, name="C")
    found = recognised(out)
    assert names(found) == ("", "i", "j", "k")
    assert found is not None and isinstance(found.left.value, Read)
    x, y = [(1 - 2 * np.indices(t.shape)[n] % 4).astype(np.float32) for n, t in ((0, a), (1, b))]
    made = ta.build(out, [a, b], schedule=Choices(contract=True))(x, y)
    assert np.array_equal(made, np.full((5, 7), 6))


def test_bounds_that_share_their_least_are_looked_at_once() -> None:
    a, b = ta.placeholder((9, 9), name="A"), ta.placeholder((9, 9), name="B")

    def row(i: Expr, j: Expr) -> Expr:
        least = i + 1
        for n in range(40):
            least = ta.minimum(ta.minimum(least, j + n), ta.minimum(least, 2 * j + n))
        k = ta.reduce_axis(least, name="k")
        return ta.sum(a[i, k] * b[k, j], axis=k)

    assert recognised(ta.compute((9, 9), row, name="C")) is None
