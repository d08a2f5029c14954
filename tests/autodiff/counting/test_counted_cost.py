"""What derivatives do is counted, and large Jacobians are refused by their size."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.checks import (
    as_direction,
    check_output,
    check_outputs,
    check_wrt,
    leading_axes,
)
from tensorad.autodiff.counting.cost import cost, listed_points, width
from tensorad.autodiff.counting.dense import check_dense, check_dense_shape
from tensorad.errors import DTypeError, GradError, LimitError, ShapeError
from tensorad.ir.expr import axis, size_var
from tensorad.ir.tensor import Tensor

X = te.placeholder((30,), "float64", name="X")
N = size_var("n")


def doubled(times: int) -> Tensor:
    t = X
    for _ in range(times):
        t = te.compute((30,), lambda i, t=t: t[i] * 2.0)
    return t


def test_more_loops_cost_more() -> None:
    assert cost([X]) == 0
    assert 0 < cost([doubled(1)]) < cost([doubled(2)])
    y = doubled(2)
    assert cost([y, y]) == cost([y])


def test_points_that_are_listed() -> None:
    i, j = axis("i", 0, 10), axis("j", 0, 20)
    assert width(i, {}) == 10
    assert width(axis("k", 0, N), {N: 7}) == 7
    assert width(axis("k", i, 10), {}) == 10
    apart, linked = listed_points([i, j], {}), listed_points([i, axis("k", 0, i + 1)], {})
    assert apart <= 10 + 20
    assert linked >= 10


def test_large_jacobians_are_refused() -> None:
    small = te.placeholder((30,), name="S")
    y = te.compute((30,), lambda i: small[i] * 2.0, name="Y")
    (jacobian,) = ta.vjp(y, [small])
    check_dense([jacobian])
    check_dense_shape(jacobian, (30, 30))
    with pytest.raises(LimitError):
        check_dense_shape(jacobian, (1 << 20, 1 << 20))
    check_dense_shape(X, (1 << 30,))  # no Jacobian


def test_arguments_of_derivatives() -> None:
    index = te.placeholder((3,), "int64", name="I")
    check_output(X)
    assert check_outputs([X]) == [X]
    assert check_wrt(X) == [X]
    with pytest.raises(DTypeError):
        check_output(index)
    for wrong in ([], [X, X]):
        with pytest.raises(GradError):
            check_wrt(wrong)
    head = te.placeholder((5, 30), "float64", name="H")
    assert as_direction("the head", "head", "H", X, head, "") is head
    assert leading_axes("head", [(X, head), (X, 1.0)]) == (5,)
    with pytest.raises(ShapeError):
        as_direction("the head", "head", "H", X, te.placeholder((30, 5), "float64"), "")
    with pytest.raises(ShapeError):
        leading_axes("head", [(X, head), (X, X)])
