"""Operators on the bits of integers, by quotients of powers of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler, Undecided, folded
from tensorad.interop.onnx.values import Known, Value, dtype_of
from tensorad.ir.arrays.elementwise import broadcast_shapes
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi.definition import define

_ON_ARRAYS: Final = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.invert,
}


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that leaves sizes to calls."""

    def on_arrays(*arrays: Any) -> Any:
        if any(a.dtype == object for a in arrays):
            raise Undecided
        return function(*arrays)

    return on_arrays


def _both(a: Expr, b: Expr, dtype: DType) -> Expr:
    """The bits that two int64 numbers from a narrower dtype have in common."""
    signed = dtype.kind == "int"
    found: Expr = te.const(0, INT64)
    for n in range(dtype.bits - signed):
        found += (a // 2**n % 2) * (b // 2**n % 2) * 2**n
    if signed:
        lowest, zero = te.const(dtype.lowest, INT64), te.const(0, INT64)
        found += te.select(te.all_of(a < 0, b < 0), lowest, zero)
    return found


def _together(call: Call) -> list[Tensor]:
    """Both inputs in the shape that they broadcast to."""
    shape = broadcast_shapes(call.node.operator, call.shape(0), call.shape(1))
    return [topi.broadcast_to(call.tensor(n), shape) for n in range(2)]


def bitwise(call: Call) -> Value:
    """Bits of two integers combined, by those that they have in common."""
    operator = call.node.operator
    known = folded(call, _of_numbers(_ON_ARRAYS[operator]))
    if known is not None:
        return known
    a, b = _together(call)
    dtype = a.dtype

    def body(*i: Expr) -> Expr:
        left, right = (t[i].astype(INT64) for t in (a, b))
        both = _both(left, right, dtype)
        if operator == "BitwiseOr":
            both = left + right - both
        elif operator == "BitwiseXor":
            both = left + right - 2 * both
        return both.astype(dtype)

    return define(a.shape, body, "bitwise")


def bitwise_not(call: Call) -> Value:
    """All bits of integers turned over."""
    known = folded(call, _of_numbers(np.invert))
    if known is not None:
        return known
    x = call.tensor(0)
    ones = te.const(x.dtype.highest if x.dtype.kind == "uint" else -1, x.dtype)
    return define(x.shape, lambda *i: ones - x[i], "bitwise_not")


def bit_shift(call: Call) -> Value:
    """Bits moved to the left, or to the right with copies of the sign."""
    left = call.word("direction", "", ("LEFT", "RIGHT")) == "LEFT"
    x, by = _together(call)
    width = x.dtype.bits

    def body(*i: Expr) -> Expr:
        start, places = (t[i].astype(INT64) for t in (x, by))
        value, far = start, te.const(0, INT64)
        for n in range((width - 1).bit_length()):
            power = 2 ** (2**n)
            moved = value * power if left else value // power
            value = te.select(places // 2**n % 2 == 1, moved, value)
        if not left:
            far = te.select(start < 0, te.const(-1, INT64), far)
        inside = te.all_of(places >= 0, places < width)
        chosen: Expr = te.select(inside, value, far)
        return chosen.astype(x.dtype)

    return define(x.shape, body, "bit_shift")


def bit_cast(call: Call) -> Value:
    """Bits as another type of as many: of integers, and of floats that are known while importing.

    Raises:
        OnnxError: one of the types is that of floats, whose bits no formula reads, and the input
            is computed in calls.
    """
    x, wanted = call.value(0), dtype_of(call.integer("to", 0))
    if x.dtype is wanted:
        return x
    if x.dtype.size_bytes != wanted.size_bytes or wanted.bits == 1:
        raise OnnxError(f"{x.dtype} and {wanted} have not the same number of bits.")
    if not (x.dtype.is_float or wanted.is_float):
        return call.tensor(0).astype(wanted)
    if isinstance(x, Tensor):
        raise OnnxError(
            "the bits of floats are not imported: no formula reads them.",
            hint="convert numbers with Cast, or give a model input a value while importing: "
            "load(path, constants={name: array}).",
        )
    return Known(np.ascontiguousarray(call.numbers(0)).view(str(wanted)).reshape(x.shape))


HANDLERS: Final[Mapping[str, Handler]] = {
    "BitwiseAnd": bitwise,
    "BitwiseOr": bitwise,
    "BitwiseXor": bitwise,
    "BitwiseNot": bitwise_not,
    "BitShift": bit_shift,
    "BitCast": bit_cast,
}
