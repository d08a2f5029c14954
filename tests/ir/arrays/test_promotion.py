"""Which dtype two operands have together: the whole table, Python numbers, functions, ranges."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.dtypes import (
    DTYPES,
    WEAK_FLOAT,
    WEAK_INT,
    DType,
    float_type,
    result_type,
    to_dtype,
    wrap,
)

TABLE: Final = """
bool    bool    uint8   int8    int16   int32   int64   float32 float64
uint8   uint8   uint8   int16   int16   int32   int64   float32 float64
int8    int8    int16   int8    int16   int32   int64   float32 float64
int16   int16   int16   int16   int16   int32   int64   float32 float64
int32   int32   int32   int32   int32   int32   int64   float32 float64
int64   int64   int64   int64   int64   int64   int64   float32 float64
float32 float32 float32 float32 float32 float32 float32 float32 float64
float64 float64 float64 float64 float64 float64 float64 float64 float64
"""
"""A row and a column for each dtype, in one order."""
ROWS: Final = {name: rest for name, *rest in (line.split() for line in TABLE.split("\n")[1:-1])}
BESIDE: Final = {
    "bool": ("int64", "float32"),
    "uint8": ("uint8", "float32"),
    "int8": ("int8", "float32"),
    "int16": ("int16", "float32"),
    "int32": ("int32", "float32"),
    "int64": ("int64", "float32"),
    "float32": ("float32", "float32"),
    "float64": ("float64", "float64"),
}
"""Beside 1 and beside 1.0."""


@pytest.mark.parametrize("name", ROWS)
def test_two_operands(name: str) -> None:
    found = [str(result_type(to_dtype(name), to_dtype(other))) for other in ROWS]
    assert found == ROWS[name]
    assert [str(result_type(to_dtype(other), to_dtype(name))) for other in ROWS] == ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_beside_python_numbers(name: str) -> None:
    d, (by_int, by_float) = to_dtype(name), BESIDE[name]
    assert str(result_type(WEAK_INT, d)) == str(result_type(d, WEAK_INT)) == by_int
    assert str(result_type(WEAK_FLOAT, d)) == str(result_type(d, WEAK_FLOAT)) == by_float
    x = ta.placeholder((2,), name, name="x")
    for number, want in zip((1, 1.0), BESIDE[name], strict=True):
        for made in (x + number, number + x):
            assert made.dtype == want
            (one,) = [ta.evaluate(made, {x: np.ones(2, name)})]
            assert np.asarray(one).tolist() == [2, 2]


def test_values_of_mixed_bytes() -> None:
    a, b = ta.placeholder((2,), "uint8", name="a"), ta.placeholder((2,), "int8", name="b")
    given = {a: np.array([200, 0], "uint8"), b: np.array([-1, -128], "int8")}
    assert np.asarray(ta.evaluate(a + b, given)).tolist() == [199, -128]


@pytest.mark.parametrize("d", DTYPES)
def test_functions_and_ranges(d: DType) -> None:
    wide = d in ("int64", "float64")
    assert float_type(d) == ("float64" if wide else "float32")
    if d.is_integer:
        info: Any = np.iinfo(str(d))
        assert (d.lowest, d.highest) == (info.min, info.max)
        for n in (info.min - 1, info.min, -1, 0, info.max, info.max + 1, 3 * info.max + 5):
            size = info.max - info.min + 1
            assert wrap(int(n), d) == (int(n) - int(info.min)) % size + info.min
