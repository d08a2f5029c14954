"""Elements gathered from places that are data, put there or combined, and moved along time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import MAX_FOLDED, Known, Value, as_tensor, count_of
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr, format_shape
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


_REDUCTIONS: Final = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def gather_elements(call: Call) -> Value:
    """For each index the element of its own row at that place of an axis."""
    x = call.tensor(0)
    return topi.gather(x, call.tensor(1), axis_of(call.integer("axis", 0), x.ndim))


def gather_nd(call: Call) -> Value:
    """Parts at points, whose coordinates are the last axis."""
    batches = call.integer("batch_dims", 0)
    return topi.gather_nd(call.tensor(0), call.tensor(1), -1, batches)


def _reduction(call: Call) -> str:
    return _REDUCTIONS[call.word("reduction", "none", tuple(_REDUCTIONS))]


def scatter_elements(call: Call) -> Value:
    """Updates put into, or combined with, elements at places of an axis."""
    x, indices, updates = (call.tensor(n) for n in range(3))
    axis = axis_of(call.integer("axis", 0), x.ndim)
    return topi.scatter_elements(x, indices, updates, axis, _reduction(call))


def scatter_nd(call: Call) -> Value:
    """Parts put at, or combined with those at, points whose coordinates are the last axis."""
    x, indices, updates = (call.tensor(n) for n in range(3))
    return topi.scatter_nd(x, indices, updates, _reduction(call), -1)


def reverse_sequence(call: Call) -> Value:
    """The first elements of each sequence in the opposite order, as many as are told."""
    x, lengths = call.tensor(0), call.tensor(1)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if x.ndim < 2 or {time, batch} != {0, 1}:
        raise OnnxError(f"axes {time} and {batch} are not those of time and batch, 0 and 1.")
    if lengths.ndim != 1 or not same_dim(lengths.shape[0], x.shape[batch]):
        raise OnnxError(f"lengths {format_shape(lengths.shape)} are not one for each sequence.")

    def body(*i: Expr) -> Expr:
        count, t = lengths[i[batch]], i[time]
        at: Expr = te.select(t < count, count - 1 - t, t)
        return x[(at, i[1], *i[2:])] if time == 0 else x[(i[0], at, *i[2:])]

    return define(x.shape, body, "reverse_sequence")


def tensor_scatter(call: Call) -> Value:
    """Updates written into a cache along an axis, from a place of each batch on."""
    cache, update = call.tensor(0), call.tensor(1)
    axis = axis_of(call.integer("axis", -2), cache.ndim)
    circular = call.word("mode", "linear", ("linear", "circular")) == "circular"
    fits = axis > 0 and update.ndim == cache.ndim and all(
        same_dim(m, n)
        for d, (m, n) in enumerate(zip(cache.shape, update.shape, strict=True))
        if d != axis
    )  # fmt: skip
    extents = (cache.shape[axis], update.shape[axis]) if fits else (0, 1)
    if all(isinstance(n, int) for n in extents) and extents[0] < extents[1]:
        fits = False
    if not fits:
        raise OnnxError(
            f"updates {format_shape(update.shape)} do not fit into {format_shape(cache.shape)} "
            f"along axis {axis}."
        )
    starts = call.optional(2)
    if starts is not None and (starts.ndim != 1 or not same_dim(starts.shape[0], cache.shape[0])):
        raise OnnxError(f"places {format_shape(starts.shape)} are not one for each batch.")

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        at = i[axis] if starts is None else starts[i[0]].astype(INT64) + i[axis]
        if circular:
            at = at % dim_expr(cache.shape[axis])
        return (*i[:axis], at, *i[axis + 1 :]), update[i]

    indices = define(update.shape, lambda *i: place(*i)[0][axis], "places")
    return topi.scatter_elements(cache, indices, update, axis, "set")


HANDLERS: Final[Mapping[str, Handler]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "ReverseSequence": reverse_sequence,
    "TensorScatter": tensor_scatter,
}
