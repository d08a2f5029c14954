"""Jacobians in either mode and second derivatives of small formulas, by value."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.derivatives import hessian, hvp, jacobian
from tensorad.errors import GradError
from tensorad.ir.reference.interpret import interpret

X = te.placeholder((3,), "float64", name="X")
V = te.placeholder((3,), "float64", name="V")
Y = te.compute((2,), lambda i: X[i] * X[i + 1], name="Y")
VALUES, MOVED = np.array([2.0, 3.0, 5.0]), np.array([1.0, -1.0, 2.0])


@pytest.mark.parametrize("mode", [None, "reverse", "forward"])
def test_jacobians_of_both_modes(mode: str | None) -> None:
    (found,) = interpret([jacobian(Y, X, mode=mode)], {X: VALUES})
    np.testing.assert_array_equal(found, [[3.0, 2.0, 0.0], [0.0, 5.0, 3.0]])


def test_there_is_no_third_mode() -> None:
    with pytest.raises(GradError):
        jacobian(Y, X, mode="sideways")


def test_second_derivatives() -> None:
    k = te.reduce_axis(2, name="k")
    total = te.compute((), lambda: te.sum(X[k] * X[k + 1], axis=k), name="T")
    second = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    (found,) = interpret([hessian(total, X)], {X: VALUES})
    np.testing.assert_array_equal(found, second)
    (along,) = interpret([hvp(total, X, V)], {X: VALUES, V: MOVED})
    np.testing.assert_array_equal(along, second @ MOVED)
