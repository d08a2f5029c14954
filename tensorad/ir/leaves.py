"""Constants and leaves of expressions, and how numbers convert between dtypes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from tensorad.errors import DTypeError
from tensorad.ir.dtypes import BOOL, FLOAT32, INT64, WEAK_FLOAT, DType, wrap
from tensorad.ir.nodes import Axis, Const, Expr, LocalSize, Number, Param, Size

new_serial = iter(range(1, 1 << 62)).__next__


def const(value: Number, dtype: DType) -> Const:
    """The constant of `dtype`; integers must fit, float32 values are rounded."""
    if dtype is BOOL:
        return Const(dtype, bool(value))
    if dtype.is_integer:
        return int_const(value) if dtype is INT64 else Const(dtype, wrap(int(value), dtype))
    if dtype is FLOAT32:
        with np.errstate(over="ignore"):
            return Const(dtype, float(np.float32(value)))
    return Const(dtype, float(value))


@lru_cache(maxsize=1024)
def int_const(value: Number) -> Const:
    """An index constant; the last ones are kept, as few numbers occur often."""
    return Const(INT64, wrap(int(value), INT64))


TRUE: Final = const(True, BOOL)
FALSE: Final = const(False, BOOL)
ZERO: Final = const(0, INT64)
ONE: Final = const(1, INT64)


def axis(name: str, lower: int | Expr, upper: int | Expr, step: int | Expr = 1) -> Axis:
    """A new axis [lower, upper) with the given step."""
    start, stop, by = [int_const(b) if isinstance(b, int) else b for b in (lower, upper, step)]
    return Axis(INT64, name, start, stop, by, new_serial())


def param(name: str, dtype: DType) -> Param:
    """A new combiner operand."""
    return Param(dtype, name, new_serial())


def size_var(name: str) -> Size:
    """The symbolic size called `name`."""
    return Size(INT64, name)


def local_size(label: str, extent: Expr | None = None) -> LocalSize:
    """A new size that a loop gives its value."""
    return LocalSize(INT64, f"{label}'{new_serial()}", label, extent)


def weak_const(value: object, like: DType) -> Const:
    """A Python or NumPy number, or a 0-d array, beside an operand of dtype `like`."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise _whole_array(value)
        value = value.item()
    if isinstance(value, (bool, np.bool_)):
        return const(bool(value), BOOL)
    if isinstance(value, (int, np.integer)):
        number = int(value)
        dtype = INT64 if like is BOOL else like
        if dtype.is_integer and wrap(number, dtype) != number:
            raise DTypeError(
                f"the number {number} does not fit into {dtype}.",
                hint="convert the other operand first, e.g. x.astype('int64').",
            )
        return const(number, dtype)
    if isinstance(value, (float, np.floating)):
        return const(float(value), like if like.is_float else WEAK_FLOAT)
    raise DTypeError(
        f"{_class_of(value)} cannot stand in a formula: {_short(value)}.",
        hint="use expressions, Python numbers, or read a tensor at indices: X[i, j]."
        if not hasattr(value, "__array__")
        else "convert it to an array of NumPy first.",
    )


def _whole_array(array: np.ndarray) -> DTypeError:
    letters = ", ".join("ijklmnpq"[: array.ndim])
    return DTypeError(
        f"an array of shape {array.shape} cannot be combined with one element of a formula.",
        hint=f"make a tensor of it, A = ta.const(array), and read A[{letters}].",
    )


def _class_of(value: object) -> str:
    """Its name, with that of its package where there may be another such class here."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    is_ours = package in ("builtins", __name__.partition(".")[0])
    return kind.__name__ if is_ours else f"{package}.{kind.__name__}"


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def convert_number(value: Number, dtype: DType) -> Number:
    """The contract's conversion: float to int saturates, NaN to 0, int to int wraps."""
    if dtype is BOOL:
        return bool(value)
    if dtype.is_float or not isinstance(value, float):
        return value
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return dtype.lowest if value < 0 else dtype.highest
    return min(max(int(value), int(dtype.lowest)), int(dtype.highest))


reduce_axes: Final[WeakValueDictionary[int, Axis]] = WeakValueDictionary()
"""Axes made by `reduce_axis`: an error can tell them from the axes of another compute."""
bound_axes: Final[WeakValueDictionary[int, Axis]] = WeakValueDictionary()
"""Reduce axes that a compute binds already; another compute gets copies of them."""
