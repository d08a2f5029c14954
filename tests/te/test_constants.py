"""Arrays and numbers in formulas are constants."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.ir.tensor import Tensor

X = ta.placeholder((3, 4), "float64", name="X")
M = ta.placeholder((4, 4), "float64", name="M")
S = ta.placeholder((3, 4), name="S")
rng = np.random.default_rng(3)
x, m = rng.uniform(0.5, 2.0, (3, 4)), rng.uniform(0.5, 2.0, (4, 4))
ARRAYS = {
    "whole": rng.uniform(0.5, 2.0, (3, 4)),
    "row": rng.uniform(0.5, 2.0, 4),
    "column": np.arange(1, 4)[:, None],
    "strided": rng.uniform(0.5, 2.0, (4, 6))[:, ::2].T,
    "bytes swapped": np.array([1.0, 2.0, 3.0, 4.0], ">f8"),
}
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt,
    operator.le, operator.gt, operator.ge,
]  # fmt: skip
Operator = Callable[[Any, Any], Any]


def check(made: Tensor, expected: np.ndarray, rtol: float = 1e-14) -> None:
    found = ta.evaluate(made, {X: x, M: m, S: x.astype("float32")})
    assert found.dtype == expected.dtype == str(made.dtype)
    np.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_an_array_beside_a_tensor_is_a_constant_tensor(op: Operator, name: str) -> None:
    array = ARRAYS[name]
    check(op(X, array), op(x, array))
    check(op(array, X), op(array, x))


def test_products_and_integers_and_conditions() -> None:
    check(X @ m, x @ m)
    check(m @ (M @ m[0]), m @ (m @ m[0]))
    check(x @ M, x @ m)
    n = ta.placeholder((3,), "int64", name="N")
    given = np.array([7, 8, 9])
    three = np.array([3, 4, 5])
    np.testing.assert_array_equal(ta.evaluate(n // three + three % n, {n: given}), [5, 6, 6])
    mask = np.array([True, False, True, False])
    check((mask & (X > 1)) | (~mask & (X < 1)), (mask & (x > 1)) | (~mask & (x < 1)))


def test_functions_of_tensors_take_arrays() -> None:
    array, mask = ARRAYS["row"], np.array([True, False, True, False])
    check(ta.maximum(X, array), np.maximum(x, array))
    check(ta.atan2(array, X), np.arctan2(array, x))
    check(ta.select(X > 1, array, 0.0), np.where(x > 1, array, 0.0))
    check(ta.select(mask, X, array), np.where(mask, x, array))
    hypotenuse = ta.scalar_function(
        lambda a, b: ta.sqrt(a * a + b * b), partials=lambda y, a, b: (a / y, b / y), name="hypot"
    )
    check(hypotenuse(X, array), np.hypot(x, array))
    check(topi.maximum(X, array), np.maximum(x, array))
    check(topi.where(mask, X, array), np.where(mask, x, array))
    check(topi.clip(X, np.array(0.7), np.float64(1.5)), np.clip(x, 0.7, 1.5))
    start = np.arange(3.0)
    sums = ta.scatter((3,), (3, 4), lambda i, j: (i, X[i, j]), init=start)
    check(sums, start + x.sum(axis=1))


def test_the_array_is_copied_and_has_no_gradient() -> None:
    array = np.arange(1.0, 5.0)
    y = X * array
    (dx,) = ta.vjp(y, [X], 1.0)
    array[:] = 0
    check(y, x * np.arange(1.0, 5.0))
    check(dx, np.ones((3, 1)) * np.arange(1.0, 5.0))
    assert ta.gradcheck(np.arange(1.0, 5.0) / X, [X], order=2)


def test_the_init_of_a_scatter_takes_the_dtype_of_its_values() -> None:
    n = ta.placeholder((3,), "int32", name="N")
    for start in (np.arange(3.0), np.arange(3), np.array([False, True, True])):
        sums = ta.scatter((3,), (3, 4), lambda i, j: (i, S[i, j]), init=start)
        assert sums.dtype == "float32"
        check(sums, (start + x.astype("float32").sum(axis=1)).astype("float32"), 1e-6)
    for start in (np.arange(3), 2, 2.0):
        counts = ta.scatter((3,), (3,), lambda i: (i, n[i]), init=start)
        assert counts.dtype == "int32"
        found = ta.evaluate(counts, {n: np.array([4, 5, 6], np.int32)})
        np.testing.assert_array_equal(found, np.array([4, 5, 6]) + np.array(start, int))
    np.testing.assert_array_equal(ta.evaluate(ta.const([0, 255], "uint8"), {}), [0, 255])


def test_arrays_keep_their_dtype_and_scalars_are_numbers() -> None:
    assert (S * np.ones(4)).dtype == "float64"
    assert (S * np.ones(4, "float32")).dtype == "float32"
    for number in (2.0, np.float64(2), np.float32(2), np.int64(2), np.array(2.0), np.array(2)):
        for made in (S * number, number * S, S**number, number - S):
            assert made.dtype == "float32"
        element = ta.compute((3,), lambda i, n=number: n * S[i, 0] + S[i, 1] * n)
        assert element.dtype == "float32"
        check(number * X, 2 * x)
    assert ta.maximum(np.array(0.1), 0.2).dtype == "float32"
    check(ta.compute((4,), lambda i: X[np.array(1), i]), x[1])
