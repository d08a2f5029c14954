"""What the verifier has in the place of values, beside types of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorad.ir.dtypes import BOOL, WEAK_FLOAT, WEAK_INT
from tensorad.language.types import FunctionText, SumType, TensorType
from tensorad.language.values import Closure, Derived, Value, mapped
from tensorad.program.values import alone, dtype_of


@dataclass(frozen=True)
class Declared:
    """A function value of which only the type is known."""

    text: FunctionText


@dataclass(frozen=True, eq=False)
class Either:
    """One of several function values."""

    options: tuple[Value, ...]


def mapped_types(value: Value) -> Value:
    """The type of an adjoint."""

    def leaf(v: Any) -> Any:
        if isinstance(v, TensorType) and v.dtype.is_float:
            return TensorType(alone(v.dtype), v.shape)
        return v if isinstance(v, SumType) else ()

    return mapped(value, leaf, ())


def is_function_value(value: Value) -> bool:
    """Whether it stands for functions."""
    return isinstance(value, (Closure, Derived, Declared, Either))


def either(a: Value, b: Value) -> Value:
    """One of two function values; of one function with other captures, the first."""
    found = {
        (v.function if isinstance(v, Closure) else v): v
        for one in (b, a)
        for v in (one.options if isinstance(one, Either) else (one,))
    }
    return a if len(found) == 1 else Either(tuple(found.values()))


def has_changed(a: Value, b: Value) -> bool:
    """Whether a tensor has another dtype."""
    if isinstance(a, tuple):
        return any(map(has_changed, a, b))
    return isinstance(a, TensorType) and a.dtype is not b.dtype


def type_of_number(value: bool | int | float) -> TensorType:
    """The weak type of a number."""
    if isinstance(value, bool):
        return TensorType(BOOL, ())
    return TensorType(WEAK_INT if dtype_of(value) is WEAK_INT else WEAK_FLOAT, ())
