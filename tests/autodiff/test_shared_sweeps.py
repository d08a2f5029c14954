"""The derivative applied to errors: what is shared, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.shared_sweeps import deriv
from tensorad.errors import GradError, ShapeError

X = ta.placeholder((3,), "float64", name="X")
W = ta.placeholder((3,), "float64", name="W")
Y = X * W
S = (Y * Y).sum()
AT = {X: np.array([1.0, 2.0, 3.0]), W: np.array([2.0, 0.5, -1.0])}


def test_inputs_share_a_sweep() -> None:
    assert deriv(S, X) is deriv(S, X)
    (dw,) = ta.vjp(S, [W])
    np.testing.assert_allclose(ta.evaluate(deriv(S, W), AT), ta.evaluate(dw, AT))
    np.testing.assert_allclose(ta.evaluate(deriv(S, Y), AT), 2 * AT[X] * AT[W])
    together, apart = ta.work([deriv(S, X), deriv(S, W)]), ta.work(ta.vjp(S, [X, W]))
    assert together == apart


def test_errors_are_tensors_arrays_and_numbers() -> None:
    head = np.array([1.0, -1.0, 2.0])
    for error in (head, ta.const(head)):
        np.testing.assert_allclose(ta.evaluate(deriv(Y, X, error), AT), head * AT[W])
    np.testing.assert_allclose(ta.evaluate(deriv([S, Y], X, [0.5, head]), AT),
                               AT[X] * AT[W] ** 2 + head * AT[W])  # fmt: skip
    assert (ta.evaluate(deriv(X * 2.0, W, head), AT) == 0).all()


def test_what_is_missing_is_said() -> None:
    def error(kind: type[Exception], *args: object) -> str:
        with pytest.raises(kind) as caught:
            deriv(*args)  # type: ignore[arg-type]
        return str(caught.value)

    assert error(ShapeError, Y, X) == (
        "deriv of mul of shape (3,) needs an error of this shape, got none.\n"
        "  hint: it may be left out where the tensor has no axes."
    )
    assert error(ShapeError, Y, X, np.zeros((2, 3))) == (
        "deriv of mul of shape (3,) needs an error of this shape, got (2, 3).\n"
        "  hint: it may be left out where the tensor has no axes."
    )
    assert error(GradError, [S, Y], X, [1.0]) == (
        "deriv of 2 tensors needs a list of 2 errors.\n"
        "  hint: write deriv([y, z], x, [error of y, error of z])."
    )
    assert error(GradError, S, [X]) == (
        "deriv takes one tensor to differentiate by, got list.\n"
        "  hint: call it for each of them: they share their sweep."
    )
