"""Gathering and scattering at positions that are data."""

from __future__ import annotations

from typing import Any

from tensorad import te
from tensorad.errors import ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.topi.arguments import check_extents, check_number
from tensorad.topi.checks import (
    check_equal,
    check_indices,
    check_same,
    check_tensor,
    normalize_axis,
)
from tensorad.topi.definition import define


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """out[i...] = x[i..., indices[i...], i...] along `axis` (NumPy's take_along_axis).

    Raises:
        ShapeError: another extent of indices than the axis differs from x.
    """
    x = check_tensor("gather", "x", x)
    indices = check_indices("gather", "indices", indices, x.ndim)
    along = normalize_axis("gather", axis, x.ndim)
    for d in range(x.ndim):
        if d != along:
            check_same("gather", x, d, indices, d)

    return define(indices.shape, lambda *i: x[(*i[:along], indices[i], *i[along + 1 :])], "gather")


def gather_nd(x: Tensor, indices: Tensor) -> Tensor:
    """out[i..., j...] = x[indices[0, i...], indices[1, i...], ..., j...].

    Args:
        indices: shape (m, ...), the first m indices of x along its first axis.
    Raises:
        ShapeError: m is symbolic or exceeds the rank of x.
    """
    x = check_tensor("gather_nd", "x", x)
    indices = check_indices("gather_nd", "indices", indices)
    count = indices.shape[0] if indices.ndim else 0
    if not isinstance(count, int) or not 1 <= count <= x.ndim:
        raise ShapeError(
            f"gather_nd: {indices.name} {format_shape(indices.shape)} cannot index {x.name} with "
            f"{x.ndim} axes.",
            hint="its first extent is the number of leading indices of x.",
        )
    rest = indices.ndim - 1

    def body(*i: Expr) -> Expr:
        where = [indices[(n, *i[:rest])] for n in range(count)]
        return x[(*where, *i[rest:])]

    return define((*indices.shape[1:], *x.shape[count:]), body, "gather_nd")


def embedding(indices: Tensor, weight: Tensor) -> Tensor:
    """weight[indices[i...], j]: rows of a table; shape indices.shape + (features,)."""
    indices = check_indices("embedding", "indices", indices)
    weight = check_tensor("embedding", "weight", weight, 2)

    shape = (*indices.shape, weight.shape[1])
    return define(shape, lambda *i: weight[indices[i[:-1]], i[-1]], "embedding")


def one_hot(indices: Tensor, depth: Dim, dtype: object = "float32") -> Tensor:
    """1 at [i..., indices[i...]], otherwise 0; shape indices.shape + (depth,)."""
    indices = check_indices("one_hot", "indices", indices)
    one, zero = te.const(1, to_dtype(dtype)), te.const(0, to_dtype(dtype))

    (classes,) = check_extents("one_hot", (depth,))
    shape = (*indices.shape, classes)
    return define(shape, lambda *i: te.select(indices[i[:-1]] == i[-1], one, zero), "one_hot")


def scatter_add(x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """x, plus updates[i...] at [i..., indices[i...], i...] along `axis`; duplicates add up.

    Raises:
        ShapeError: updates and indices differ in shape, or another extent than the axis from x.
    """
    x = check_tensor("scatter_add", "x", x)
    indices = check_indices("scatter_add", "indices", indices, x.ndim)
    updates = check_tensor("scatter_add", "updates", updates, x.ndim)
    along = normalize_axis("scatter_add", axis, x.ndim)
    for d in range(x.ndim):
        check_same("scatter_add", indices, d, updates, d)
        if d != along:
            check_same("scatter_add", x, d, indices, d)

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        return (*i[:along], indices[i], *i[along + 1 :]), updates[i].astype(x.dtype)

    return te.scatter(x.shape, indices.shape, place, init=x, name="scatter_add")


def segment_sum(x: Tensor, segments: Tensor, count: Dim) -> Tensor:
    """out[s, j...] = sum of x[i, j...] over the rows i with segments[i] = s; shape (count, ...).

    Raises:
        ShapeError: not one segment per row.
    """
    x = check_tensor("segment_sum", "x", x)
    segments = check_indices("segment_sum", "segments", segments, 1)
    if not x.ndim or not same_dim(x.shape[0], segments.shape[0]):
        raise ShapeError(
            f"segment_sum: {x.name} {format_shape(x.shape)} has no {segments.shape[0]} rows, "
            f"one for each of {segments.name}.",
            hint="segments are numbered per row, along axis 0.",
        )

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        return (segments[i[0]], *i[1:]), x[i]

    (rows,) = check_extents("segment_sum", (count,))
    return te.scatter((rows, *x.shape[1:]), x.shape, place, name="segment_sum")


def sequence_mask(x: Tensor, lengths: Tensor, axis: int = 1, value: float = 0.0) -> Tensor:
    """x where the position along `axis` is below lengths[batch], otherwise `value`.

    Args:
        x: axis 0 is the batch (or axis 1, for axis=0).
        lengths: integers, shape (batch,).
    Raises:
        ShapeError: not one length per batch element.
    """
    x = check_tensor("sequence_mask", "x", x)
    lengths = check_indices("sequence_mask", "lengths", lengths, 1)
    along = normalize_axis("sequence_mask", axis, x.ndim)
    filler = te.const(check_number("sequence_mask", "value", value), x.dtype)
    if x.ndim < 2:
        raise ShapeError(
            f"sequence_mask: {x.name} {format_shape(x.shape)} has no batch axis.",
            hint="x has a batch axis and a time axis.",
        )
    batch = 1 if along == 0 else 0
    check_equal("sequence_mask", f"the batches of {x.name} and {lengths.name}",
                x.shape[batch], lengths.shape[0])  # fmt: skip

    def body(*i: Expr) -> Any:
        return te.select(i[along] < lengths[i[batch]], x[i], filler)

    return define(x.shape, body, "sequence_mask")
