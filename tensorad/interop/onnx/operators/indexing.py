"""Elements gathered at positions that are data; negative ones count from the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorad import topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import MAX_FOLDED, Known, Value, as_tensor, count_of
from tensorad.ir.tensor import Tensor
from tensorad.topi.definition import define


def gather(call: Call) -> Value:
    """Slices of an axis at positions."""
    value, index = call.value(0), call.value(1)
    axis = axis_of(call.integer("axis", 0), len(value.shape))
    extent = value.shape[axis]
    if isinstance(index, Known) and not index.is_symbolic and isinstance(extent, int):
        own = index.array.astype(np.int64)
        if own.size and not -extent <= own.min() <= own.max() < extent:
            raise OnnxError(f"an index is not in [-{extent}, {extent}), the extent of axis {axis}.")
        index = Known(np.where(own < 0, own + extent, own))
        if isinstance(value, Known) and _count(value, axis, index) <= MAX_FOLDED:
            return Known(np.take(value.array, index.array, axis), value.dtype)
        if index.array.size == 1:
            return _at_one(as_tensor(value), axis, int(index.array.item()), index.array.ndim)
        return topi.take(as_tensor(value), as_tensor(index), axis)
    return topi.take(as_tensor(value), as_tensor(index), axis)


def _count(value: Known, axis: int, index: Known) -> int:
    """The elements of the result."""
    return count_of((*value.shape[:axis], *index.shape, *value.shape[axis + 1 :]))


def _at_one(x: Tensor, axis: int, place: int, ndim: int) -> Tensor:
    """One slice of an axis, in place of which there are `ndim` axes of extent 1."""
    shape = (*x.shape[:axis], *(1,) * ndim, *x.shape[axis + 1 :])
    return define(shape, lambda *i: x[(*i[:axis], place, *i[axis + ndim :])], "gather")


HANDLERS: Final[Mapping[str, Handler]] = {"Gather": gather}
