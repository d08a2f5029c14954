"""NumPy's functions of tensors and expressions are those of formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.arrays.ufuncs import COMPOSED, INSTEAD, OTHER_NAMES, own_name
from tensorad.ir.expr import FUNCTIONS, OPERATIONS
from tensorad.ir.tensor import Tensor

_OWN = {*OTHER_NAMES, *COMPOSED, *OPERATIONS, *[f.ufunc or f.name for f in FUNCTIONS.values()]}
NAMES = sorted(n for n in _OWN if isinstance(getattr(np, n, None), np.ufunc))
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
    if "bitwise" in ufunc.__name__ or ufunc is np.invert:
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
    composed = {*COMPOSED} - {"clip"}  # `np.clip` is no elementwise function
    assert {own_name(n) for n in NAMES} == {*OPERATIONS, *FUNCTIONS} - without | composed


SPECIAL = np.array([-np.inf, -2.5, -0.0, 0.0, 1.5, np.inf, np.nan])


@pytest.mark.parametrize("name", ["isinf", "heaviside", "fmax", "fmin", "logical_xor", "fabs"])
def test_composed_ones_at_infinities_and_where_there_is_no_number(name: str) -> None:
    ufunc: Any = getattr(np, name)
    t = ta.placeholder((7,), "float64", name="t")
    u = ta.placeholder((7,), "float64", name="u")
    given = {t: SPECIAL, u: SPECIAL[::-1]}
    operands = [t, u][: ufunc.nin]
    found = ta.evaluate(ufunc(*operands), {o: given[o] for o in operands})
    np.testing.assert_array_equal(found, ufunc(*[given[o] for o in operands]))


SMOOTH = [n for n in NAMES if n not in ("bitwise_xor", "bitwise_and", "bitwise_or", "invert")]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_their_derivatives_are_those_of_their_values(name: str) -> None:
    ufunc: Any = getattr(np, name)
    t = operand(ufunc)
    y = ta.compute((3,), lambda i: ufunc(*[t[i], t[(i + 1) % 3]][: ufunc.nin]), name="y")
    if t.dtype.is_float and y.dtype.is_float:
        assert ta.gradcheck(y, [t], arrays=VALUES)


def others(ufunc: np.ufunc) -> bool:
    """Whether a function of NumPy is none of formulas."""
    known = {*_OWN, "matmul"}
    return ufunc.__name__ not in known


@pytest.mark.parametrize("name", sorted(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)))
def test_all_others_are_refused_in_words(name: str) -> None:
    ufunc: Any = getattr(np, name)
    if not others(ufunc):
        return
    with pytest.raises(DefinitionError) as caught:
        ufunc(*[X] * ufunc.nin)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"np.{ufunc.__name__} is no function of formulas."
    assert lines[-1].startswith("  hint: write ")


def test_what_to_write_instead_is_for_functions_that_there_are() -> None:
    assert not {*INSTEAD} & _OWN
    wanted = ta.compute((3,), lambda i: ta.sqrt(X[i] * X[i] + A[i] * A[i]))  # of np.hypot
    check(wanted, np.hypot(VALUES[X], VALUES[A]))


def test_those_of_scipy_are_there() -> None:
    for ufunc in (special.erf, special.erfc, special.erfinv, special.gammaln, special.psi):
        check(ufunc(X), ufunc(VALUES[X]))


def test_they_are_differentiated() -> None:
    y = ta.compute((3,), lambda i: np.exp(np.sin(X[i])) * np.float64(2))
    (dx,) = ta.vjp(y, [X], 1.0)
    x = VALUES[X]
    check(dx, 2 * np.cos(x) * np.exp(np.sin(x)))
    check(np.matmul(np.ones((2, 3)), X), np.ones((2, 3)) @ x)
