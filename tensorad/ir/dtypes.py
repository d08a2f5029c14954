"""Element types: names, ranges and promotion."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad.errors import DTypeError


class DType(str):
    """A dtype's name (it *is* the string, e.g. "float32") with its kind and width."""

    kind: str
    """One of "bool", "uint", "int", "float", "record"."""
    bits: int
    is_float: bool
    is_integer: bool
    is_weak: bool
    """Of Python numbers and what is made of them alone: any other dtype of the kind wins."""
    size_bytes: int
    is_function = False
    """Of what stands for a function."""

    def __new__(cls, name: str, kind: str, bits: int, is_weak: bool = False) -> DType:
        self = super().__new__(cls, name)
        self.kind = kind
        self.bits = bits
        self.is_float = kind == "float"
        self.is_integer = kind in ("int", "uint")
        self.is_weak = is_weak
        self.size_bytes = max(1, bits // 8)
        return self

    def __reduce__(self) -> str:
        if self.is_weak:
            return "WEAK_FLOAT" if self.is_float else "WEAK_INT"
        return self.upper()  # the constant of this module

    def no_number(self, name: str) -> DTypeError:
        """What to say where a value of a data type is used as a number."""
        return DTypeError(
            f"{name} of the data type {self} is no number: it has no elements, and formulas cannot "
            "use it.",
            hint="take it apart with ta.match: its arms are functions of the fields.",
        )

    @property
    def is_differentiable(self) -> bool:
        """Whether there are derivatives by elements."""
        return self.is_float

    @property
    def lowest(self) -> int | float:
        """The identity of max: -inf or the smallest integer."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def highest(self) -> int | float:
        """The identity of min: +inf or the largest integer."""
        if self.is_float:
            return float("inf")
        return (1 << (self.bits - (self.kind == "int"))) - 1


BOOL: Final = DType("bool", "bool", 1)
UINT8: Final = DType("uint8", "uint", 8)
INT8: Final = DType("int8", "int", 8)
INT16: Final = DType("int16", "int", 16)
INT32: Final = DType("int32", "int", 32)
INT64: Final = DType("int64", "int", 64)
FLOAT32: Final = DType("float32", "float", 32)
FLOAT64: Final = DType("float64", "float", 64)

WEAK_INT: Final = DType("float32", "int", 64, is_weak=True)
WEAK_FLOAT: Final = DType("float32", "float", 64, is_weak=True)
"""Formulas of Python numbers (`ir/weak.py`), by the name of what they are alone. No tensor has
such a dtype, no table such a key: it equals FLOAT32 there."""

DTYPES: Final = (BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT32, FLOAT64)
_BY_NAME: Final = {str(d): d for d in DTYPES}
_ORDER: Final = {"bool": 0, "uint": 1, "int": 2, "float": 3}


def to_dtype(value: object) -> DType:
    """A DType from its name, a NumPy dtype or a Python type.

    Raises:
        DTypeError: the dtype is not one of `DTYPES`, or it is none at all (such as None).
    """
    if isinstance(value, DType):
        return FLOAT32 if value.is_weak else value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    name = value
    known = isinstance(value, (str, type, np.dtype))  # np.dtype(None) is float64
    if known and value not in ("float16", "bfloat16"):
        try:
            name = np.dtype(value).name  # type: ignore[call-overload]  # any name may come
        except TypeError:
            name = value
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    if isinstance(name, str) and name in ("float16", "bfloat16"):
        raise DTypeError(
            f"dtype {name} is not supported: there is no half-precision arithmetic.",
            hint="use float32 and convert at the boundary, e.g. x.astype('float32').",
        )
    raise DTypeError(f"dtype {name!r} is not supported.", hint=f"use one of {', '.join(DTYPES)}.")


def result_type(a: DType, b: DType) -> DType:
    """bool < uint8 < intN < float32 < float64; NumPy's result between integers.

    An integer with a float gives the float's dtype, whatever their widths; weak dtypes yield.
    """
    if a is b:
        return a
    if "record" in (a.kind, b.kind):
        raise (a if a.kind == "record" else b).no_number("a value")
    if a.is_weak or b.is_weak:
        return _beside_weak(a, b) if a.is_weak else _beside_weak(b, a)
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    low, high = sorted((a, b), key=lambda d: _ORDER[d.kind])
    if low is UINT8 and high is INT8:
        return INT16
    return high


def _beside_weak(weak: DType, other: DType) -> DType:
    if weak.is_float or other.is_weak:
        return other if other.is_float and not other.is_weak else WEAK_FLOAT
    return INT64 if other is BOOL else other


def float_type(dtype: DType) -> DType:
    """The float dtype of a true division or math function of `dtype` operands."""
    if dtype.is_float:
        return dtype
    if dtype.is_weak:
        return WEAK_FLOAT
    return FLOAT64 if dtype.bits == 64 else FLOAT32


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo 2**bits, in the range of the integer `dtype`; a weak one has all numbers."""
    if dtype.is_weak:
        return value
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value
