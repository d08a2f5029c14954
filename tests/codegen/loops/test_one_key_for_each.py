"""Kernels that differ in one thing alone are not taken for each other, in one process."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_each_dtype(dtype: str) -> None:
    x = te.placeholder((37,), dtype, name="x")
    array = (np.arange(37) % 2).astype(dtype) if dtype == "bool" else np.arange(37).astype(dtype)
    found = ta.build(te.compute((37,), lambda i: x[36 - i], name="y"), [x])(array)
    assert found.dtype == array.dtype and found.tolist() == array[::-1].tolist()


@pytest.mark.parametrize("start", [0.0, -1.0, 5.0])
def test_folds_from_each_identity(start: float) -> None:
    fold = te.comm_reducer(lambda x, y: x * 2 + y, lambda dtype: start, name="f")
    k = te.reduce_axis(3, name="k")
    x = te.placeholder((2, 3), "float64", name="x")
    t = te.compute((2,), lambda i: fold(x[i, k], axis=k), name="t")
    found = ta.build(t, [x])(np.arange(6.0).reshape(2, 3))
    assert found.tolist() == [8 * start + 4.0, 8 * start + 25.0]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_of_each_sign(zero: float) -> None:
    x = te.placeholder((9,), "float64", name="x")
    t = te.compute((9,), lambda i: te.select(x[i] > 4, x[i], te.const(zero, "float64")), name="t")
    found = ta.build(t, [x])(np.arange(9.0))
    assert np.signbit(found[:5]).tolist() == [np.signbit(zero)] * 5


@pytest.mark.parametrize("extent", [3, 7])
def test_checks_of_each_extent(extent: int) -> None:
    x = te.placeholder((extent,), "float64", name="x")
    p = te.placeholder((2,), "int64", name="p")
    f = ta.build(te.compute((2,), lambda i: x[p[i]], name="t"), [x, p])
    f(np.zeros(extent), np.array([0, extent - 1]))
    with pytest.raises(ta.errors.BoundsError):
        f(np.zeros(extent), np.array([0, extent]))
