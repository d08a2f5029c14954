"""Tensors made of numbers alone, and tensors of another type."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

import numpy as np

from tensorad import te
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler, equal_arrays
from tensorad.interop.onnx.values import (
    MAX_FOLDED,
    Array,
    Known,
    Value,
    as_tensor,
    check_extents,
    dtype_of,
    full,
)
from tensorad.ir.dtypes import BOOL, FLOAT32, INT64, to_dtype
from tensorad.ir.tensor import dim_expr, dim_of
from tensorad.topi.definition import define


def constant(call: Call) -> Value:
    """What the file holds."""
    attributes = call.node.attributes
    if len(attributes) != 1:
        raise OnnxError(f"it has {len(attributes)} attributes, not one.")
    (name,) = attributes
    if name == "value":
        return Known(call.array(name))
    kinds = {
        "value_float": FLOAT32,
        "value_floats": FLOAT32,
        "value_int": INT64,
        "value_ints": INT64,
    }
    if name not in kinds:
        raise OnnxError(f"there are no tensors for {name!r} here: strings, or sparse ones.")
    return Known(np.array(attributes[name].value, str(kinds[name])))


def constant_of_shape(call: Call) -> Value:
    """One value, in a shape that is known."""
    value = call.array("value") if call.attribute("value") is not None else np.zeros(1, "float32")
    if value.size != 1:
        raise OnnxError(f"its value has {value.size} elements, not one.")
    return full(call.extents(0), value.item(), Known(value).dtype)


def arange(call: Call) -> Value:
    """Numbers from a start, a step apart, up to a limit."""
    dtype = call.dtype(0)
    if any(call.known(n).is_symbolic for n in range(3)):
        start, limit, by = (call.extents(n)[0] for n in range(3))
        if not isinstance(by, int) or by == 0:
            raise OnnxError("its step must be a known number that is not 0.")
        way = dim_expr(limit) - start if by > 0 else dim_expr(start) - limit
        count = dim_of((way + (abs(by) - 1)) // abs(by) if abs(by) > 1 else way)
        return define((count,), lambda i: (i * by + start).astype(dtype), "range")
    start, limit, by = (call.numbers(n).item() for n in range(3))
    if by == 0 or not np.isfinite([start, limit, by]).all():
        raise OnnxError("its start, limit and step are no finite numbers, or the step is 0.")
    number = max(0, ceil((limit - start) / by) if dtype.is_float else -((start - limit) // by))
    check_extents("its output", (number,))
    if number <= MAX_FOLDED:
        return Known((np.arange(number) * by + start).astype(str(dtype)), dtype)
    return define((number,), lambda i: (i.astype(dtype) * by + start).astype(dtype), "range")


def cast(call: Call) -> Value:
    """Another type of elements."""
    return converted(call.value(0), call.integer("to", 0))


def cast_like(call: Call) -> Value:
    """The type of elements that another tensor has."""
    value = call.value(0)
    return value if value.dtype is call.dtype(1) else _astype(value, str(call.dtype(1)))


def converted(value: Value, code: int) -> Value:
    """A value in the type that ONNX numbers so."""
    dtype = dtype_of(code)
    return value if value.dtype is dtype else _astype(value, str(dtype))


def _astype(value: Value, dtype: str) -> Value:
    if isinstance(value, Known) and value.array.size <= MAX_FOLDED:
        if not value.is_symbolic:
            return Known(_cast_array(value.array, dtype))
        if dtype.startswith("int"):
            return Known(value.array, to_dtype(dtype))
    return as_tensor(value).astype(dtype)


def _cast_array(a: Array, dtype: str) -> Array:
    if a.dtype.kind == "f" and dtype.startswith(("int", "uint")):
        bounds = np.iinfo(dtype)
        found = np.trunc(np.nan_to_num(a.astype(float), nan=0.0))
        above, below = found >= float(bounds.max), found <= float(bounds.min)
        whole = np.where(above | below, 0.0, found).astype(dtype)
        return np.where(above, bounds.max, np.where(below, bounds.min, whole)).astype(dtype)
    return a.astype(dtype)


def nonzero(call: Call) -> Value:
    """Positions of elements that are not 0, of an array that is known."""
    value = call.known(0)
    if value.is_symbolic:
        chosen = ~equal_arrays(value.array, np.zeros((), int))
        return Known(np.stack(np.nonzero(chosen)).astype(np.int64))
    return Known(np.stack(np.nonzero(np.atleast_1d(value.array))).astype(np.int64))


def eye_like(call: Call) -> Value:
    """Ones on a diagonal."""
    rows, columns = call.shape(0) if len(call.shape(0)) == 2 else (0, 0)
    if len(call.shape(0)) != 2:
        raise OnnxError("its input must have two axes.")
    dtype = dtype_of(call.integer("dtype", 0)) if call.attribute("dtype") else call.dtype(0)
    k = call.integer("k", 0)
    one, zero = te.const(1, dtype), te.const(0, dtype)
    if dtype is BOOL:
        one, zero = te.const(True, BOOL), te.const(False, BOOL)
    return define((rows, columns), lambda i, j: te.select(j == i + k, one, zero), "eye")


HANDLERS: Final[Mapping[str, Handler]] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Range": arange,
    "Cast": cast,
    "CastLike": cast_like,
    "NonZero": nonzero,
    "EyeLike": eye_like,
}
