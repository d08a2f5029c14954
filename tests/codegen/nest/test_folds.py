"""Reductions of a body become loops that fold into scalars."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorad import te
from tensorad.codegen.loops.ir import For, If, Store
from tensorad.codegen.nest.folds import lower_values
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import check_stores, loops_in, op_of

X = te.placeholder((5, 9), "float64", name="X")


def two_sums() -> Tensor:
    p, q = te.reduce_axis(9, name="p"), te.reduce_axis(9, name="q")
    return te.compute(
        (5,), lambda i: te.sum(X[i, p], axis=p) + 2 * te.max(X[i, q], axis=q), name="Y"
    )


def under_a_branch() -> Tensor:
    k = te.reduce_axis(9, name="k")
    return te.compute((5,), lambda i: te.select(i > 2, te.sum(X[i, k], axis=k), 0.0), name="Y")


def guarded() -> Tensor:
    k = te.reduce_axis(9, name="k")
    return te.compute((5,), lambda i: te.sum(X[i, k], axis=k, where=(k > i) & (i > 1)), name="Y")


def nested() -> Tensor:
    k, s = te.reduce_axis(9, name="k"), te.reduce_axis(5, name="s")
    return te.compute((5,), lambda i: te.sum(te.max(X[s, k] - X[i, k], axis=s), axis=k), name="Y")


@pytest.mark.parametrize(
    ("make", "loops", "branch"),
    [(two_sums, 2, False), (under_a_branch, 1, True), (guarded, 1, True), (nested, 2, False)],
)
def test_statements_compute_what_the_body_says(
    make: Callable[[], Tensor], loops: int, branch: bool
) -> None:
    y = make()
    op = op_of(y)
    before, values = lower_values(op.bodies)
    assert len(loops_in(before)) == loops
    assert any(isinstance(s, If) for s in before) == branch
    check_stores([For(op.axes[0], (*before, Store((y,), op.axes, values)))], y, X)
