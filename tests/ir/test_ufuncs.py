"""NumPy's functions of tensors and expressions are those of formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]

import tensorad as ta
from tensorad.ir.arrays.ufuncs import OTHER_NAMES, own_name
from tensorad.ir.expr import FUNCTIONS, OPERATIONS
from tensorad.ir.tensor import Tensor

_OWN = {*OTHER_NAMES, *OPERATIONS, *[f.ufunc or f.name for f in FUNCTIONS.values()]}
NAMES = sorted(_OWN & {*dir(np)} - {"round"})
"""`np.round` is none of them: it calls a method."""
X = ta.placeholder((3,), "float64", name="X")
A = ta.placeholder((3,), "float64", name="A")
N = ta.placeholder((3,), "int64", name="N")
B = ta.placeholder((3,), "bool", name="B")
VALUES = {
    X: np.array([0.3, 0.5, 0.75]),
    A: np.array([1.3, 1.5, 2.75]),
    N: np.array([5, 3, 2]),
    B: np.array([True, False, True]),
}


def operand(ufunc: np.ufunc) -> Tensor:
    """A tensor of the kind that a function is about."""
    if "logical" in ufunc.__name__ or "bitwise" in ufunc.__name__ or ufunc is np.invert:
        return B
    if ufunc is np.arccosh:
        return A
    return N if ufunc in (np.floor_divide, np.remainder) else X


@pytest.mark.parametrize("name", NAMES)
def test_they_give_what_they_give_of_arrays(name: str) -> None:
    ufunc: Any = getattr(np, name)
    t = operand(ufunc)
    array = VALUES[t]
    others: list[list[Any]] = [[], []] if ufunc.nin == 1 else [[array[::-1]], [t[1]]]
    if name not in ("equal", "not_equal"):
        check(ufunc(t, *others[0]), ufunc(array, *others[0]))
    values = [array[1]] if others[1] else []
    made = ta.compute((3,), lambda i: ufunc(t[i], *others[1]))
    check(made, ufunc(array, *values))
    if ufunc.nin == 2:
        number = array[2]
        check(ta.compute((3,), lambda i: ufunc(number, t[i])), ufunc(number, array))
        check(ta.compute((3,), lambda i: ufunc(np.array(number), t[i])), ufunc(number, array))


def check(made: Tensor, expected: np.ndarray) -> None:
    found = ta.evaluate(made, VALUES)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_all_that_numpy_has_is_there() -> None:
    without = {"rsqrt", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "trigamma"}
    assert {own_name(n) for n in NAMES} == {*OPERATIONS, *FUNCTIONS} - without


def test_those_of_scipy_are_there() -> None:
    for ufunc in (special.erf, special.erfc, special.erfinv, special.gammaln, special.psi):
        check(ufunc(X), ufunc(VALUES[X]))


def test_they_are_differentiated() -> None:
    y = ta.compute((3,), lambda i: np.exp(np.sin(X[i])) * np.float64(2))
    (dx,) = ta.vjp(y, [X], 1.0)
    x = VALUES[X]
    check(dx, 2 * np.cos(x) * np.exp(np.sin(x)))
    check(np.matmul(np.ones((2, 3)), X), np.ones((2, 3)) @ x)
