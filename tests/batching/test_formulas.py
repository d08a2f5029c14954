"""Formulas of rows that have extents of their own: what lies beyond the extent of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.batching.formulas import with_rows
from tensorad.batching.level import Level
from tensorad.batching.rewrite import give_images
from tensorad.ir.expr import int_const
from tensorad.ir.tensor import outputs

COUNTS = np.array([2, 0, 4])
X = np.arange(1.0, 13.0).reshape(3, 4)
K = 5


BELOW = COUNTS[:, None] > np.arange(4)
SUM_AND_PRODUCT = ta.comm_reducer(
    lambda a, b: (a[0] + b[0], a[1] * b[1]), lambda s, t: (0.0, 1.0), name="sum_and_product"
)


def of_rows(formula: Callable[[Any, Any], Any]) -> list[Any]:
    """The results of a formula of an element and of k in 0..K - 1 for all rows; each row has as
    many elements as its count says, of at most four."""
    n, k = ta.size("n"), ta.reduce_axis((0, K))
    x = ta.placeholder((n,), "float64", name="x")
    made = ta.compute((n,), lambda i: formula(x[i], k))
    one = made[0] if isinstance(made, (tuple, list)) else made
    xs = ta.placeholder((3, 4), "float64", name="xs")
    counts = ta.placeholder((3,), "int64", name="counts")
    level = Level(3, give_images, {x: xs}, most={n: int_const(4)}, each={n: counts})
    tensors = list(outputs(with_rows(one.op, level, level.row())))
    found = ta.interpret(tensors, {xs: X, counts: COUNTS})
    f = ta.build(tensors, [xs, counts])
    compiled = f(X, COUNTS)
    for a, b in zip(found, [compiled] if len(tensors) == 1 else compiled, strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def test_formulas_are_0_beyond_the_extent_of_a_row() -> None:
    (found,) = of_rows(lambda e, k: e + 1.0)
    np.testing.assert_array_equal(found, np.where(BELOW, X + 1.0, 0.0))


@pytest.mark.parametrize("fold", ["sum", "prod", "max"])
def test_folds_are_0_beyond_the_extent_of_a_row(fold: str) -> None:
    """Whatever they start from."""
    (found,) = of_rows(lambda e, k: getattr(ta, fold)(e + k, axis=k))
    wanted = getattr(np, fold)(X[..., None] + np.arange(K), axis=-1)
    np.testing.assert_array_equal(found, np.where(BELOW, wanted, 0.0))


def test_components_of_one_fold_are_what_they_start_from_beyond_it() -> None:
    """So that they still are one fold."""
    total, product = of_rows(lambda e, k: SUM_AND_PRODUCT((e + k, e + k), axis=k))
    terms = X[..., None] + np.arange(K)
    np.testing.assert_array_equal(total, np.where(BELOW, terms.sum(-1), 0.0))
    np.testing.assert_array_equal(product, np.where(BELOW, terms.prod(-1), 1.0))
