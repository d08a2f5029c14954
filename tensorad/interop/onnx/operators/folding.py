"""Operators on arrays that are known while importing: elements are numbers, or sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensorad import te
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.values import MAX_FOLDED, Array, Known, Value, equal, objects
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.simplify.index.intervals import interval

Handler = Callable[[Call], Value | Sequence[Value]]
"""What an operator is: its outputs, by a node with its values."""


class Undecided(Exception):
    """A result depends on the numbers that sizes have in a call."""


def all_known(call: Call) -> list[Known] | None:
    """The inputs, if all of them are known and some are there."""
    found = [v for v in call.values if isinstance(v, Known)]
    return found if len(found) == len(call.values) and found else None


def folded(call: Call, function: Callable[..., Any], dtype: DType | None = None) -> Known | None:
    """An elementwise function of known inputs; None if it is to be computed in calls.

    Args:
        dtype: of the result; None: that of the first input.
    """
    values = all_known(call)
    if values is None:
        return None
    shape = np.broadcast_shapes(*[v.array.shape for v in values])
    wanted = values[0].dtype if dtype is None else dtype
    if int(np.prod(shape, dtype=object)) > MAX_FOLDED:
        return None
    if any(v.is_symbolic for v in values) and not all(_is_integer(v) for v in values):
        return None
    try:
        made = array_of_result(function(*[v.array for v in values]))
    except Undecided:
        return None
    if made.dtype == object and not wanted.is_integer:
        return None
    return Known(made, wanted)


def array_of_result(made: Any) -> Array:
    """What a function of arrays returned; of those without axes NumPy gives the element itself."""
    return objects([made]).reshape(()) if isinstance(made, Expr) else np.asarray(made)


def _is_integer(value: Known) -> bool:
    return value.is_symbolic or value.array.dtype.kind in "iub"


def elementwise(
    on_arrays: Callable[..., Any], on_tensors: Callable[..., Tensor], dtype: DType | None = None
) -> Handler:
    """The handler of an elementwise operator."""

    def handler(call: Call) -> Value:
        known = folded(call, on_arrays, dtype)
        return on_tensors(*call.tensors()) if known is None else known

    return handler


def _decided(decide: Callable[[Any, Any], bool]) -> Callable[[Array, Array], Array]:
    def on_arrays(a: Array, b: Array) -> Array:
        return np.asarray(np.frompyfunc(decide, 2, 1)(a, b)).astype(bool)

    return on_arrays


def _same(a: Any, b: Any) -> bool:
    found = equal(a, b)
    if found is None:
        raise Undecided
    return found


def _less(a: Any, b: Any) -> bool:
    if isinstance(a, Expr) or isinstance(b, Expr):
        raise Undecided
    return bool(a < b)


def _less_or_equal(a: Any, b: Any) -> bool:
    if isinstance(a, Expr) or isinstance(b, Expr):
        raise Undecided
    return bool(a <= b)


equal_arrays: Final = _decided(_same)
less_arrays: Final = _decided(_less)
less_equal_arrays: Final = _decided(_less_or_equal)


def larger(a: Any, b: Any) -> Any:
    """max of numbers or sizes."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return a if equal(a, b) else te.maximum(a, b)
    return max(a, b)


def smaller(a: Any, b: Any) -> Any:
    """min of numbers or sizes."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return a if equal(a, b) else te.minimum(a, b)
    return min(a, b)


def truncated_quotient(a: Array, b: Array) -> Array:
    """a / b of integers, towards 0, also of sizes."""
    if object in (a.dtype, b.dtype):
        return array_of_result(np.frompyfunc(_quotient, 2, 1)(a, b))
    down = a // b
    return np.asarray(down + ((down < 0) & (down * b != a)).astype(a.dtype))


def truncated_remainder(a: Array, b: Array) -> Array:
    """np.fmod of integers, also of sizes."""
    if object in (a.dtype, b.dtype):
        return array_of_result(np.frompyfunc(_remainder, 2, 1)(a, b))
    return array_of_result(np.fmod(a, b))


def _quotient(a: Any, b: Any) -> Any:
    """Of numbers or sizes; what may be below 0 is a case of its own."""
    if not isinstance(b, Expr):
        if b == 0:
            raise Undecided
        if b < 0:
            return -_quotient(a, -b)
    elif not _is_never_negative(b):
        raise Undecided
    if isinstance(a, Expr) and not _is_never_negative(a):
        return te.select(a >= 0, a // b, -((-a) // b))
    return a // b if isinstance(a, Expr) or a >= 0 else -(-a // b)


def _remainder(a: Any, b: Any) -> Any:
    is_plain = all(_is_never_negative(v) if isinstance(v, Expr) else v > 0 for v in (a, b))
    return a % b if is_plain else a - b * _quotient(a, b)


def _is_never_negative(e: Expr) -> bool:
    """Whether the ranges of its parts say so."""
    low = interval(e).lo
    return low is not None and low >= 0
