"""Gathering and scattering at positions that are data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorad import te
from tensorad.errors import DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import BOOL, result_type, to_dtype
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Shape, Tensor, format_shape
from tensorad.te.places import COMBINE
from tensorad.te.selection import from_start
from tensorad.topi.arguments import check_extents, check_integer, check_number, check_word
from tensorad.topi.checks import (
    check_equal,
    check_indices,
    check_same,
    check_tensor,
    normalize_axis,
)
from tensorad.topi.definition import define


def take(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """x at positions along `axis` that are data (NumPy's take).

    Indices below 0 count from the end of the axis; all are checked in the call.
    Shape: x.shape with that axis replaced by indices.shape.

    Raises:
        DTypeError: indices are not integers.
    """
    x = check_tensor("take", "x", x)
    indices = check_indices("take", "indices", indices)
    along = normalize_axis("take", axis, x.ndim)
    shape = (*x.shape[:along], *indices.shape, *x.shape[along + 1 :])

    def body(*i: Expr) -> Expr:
        where = position(indices[i[along : along + indices.ndim]], x.shape[along])
        return x[(*i[:along], where, *i[along + indices.ndim :])]

    return define(shape, body, "take")


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """out[i...] = x[i..., indices[i...], i...] along `axis` (NumPy's take_along_axis).

    Indices below 0 count from the end of the axis; all are checked in the call.

    Raises:
        ShapeError: another extent of indices than the axis exceeds that of x.
    """
    x = check_tensor("gather", "x", x)
    indices = check_indices("gather", "indices", indices, x.ndim)
    along = normalize_axis("gather", axis, x.ndim)
    _check_within("gather", x, indices, along)

    def body(*i: Expr) -> Expr:
        return x[(*i[:along], position(indices[i], x.shape[along]), *i[along + 1 :])]

    return define(indices.shape, body, "gather")


def gather_nd(x: Tensor, indices: Tensor, axis: int = 0, batch_dims: int = 0) -> Tensor:
    """out[i..., j...] = x[indices[0, i...], indices[1, i...], ..., j...].

    Indices below 0 count from the end of their axis; all are checked in the call.

    Args:
        indices: shape (m, ...), indices of m axes of x along its first axis.
        axis: another axis along which these m lie, e.g. -1 as in ONNX GatherND.
        batch_dims: how many leading axes x and the rest of indices have in common; the m axes
            of x come after them.
    Raises:
        ShapeError: m is symbolic or exceeds the rank of x, or batches differ.
    """
    x = check_tensor("gather_nd", "x", x)
    indices = check_indices("gather_nd", "indices", indices)
    batch = check_integer("gather_nd", "batch_dims", batch_dims, 0)
    points = _points("gather_nd", x, indices, axis, batch)
    rest = len(points.shape)
    for d in range(batch):
        check_equal("gather_nd", f"batch axis {d} of {x.name} and {indices.name}",
                    x.shape[d], points.shape[d])  # fmt: skip

    def body(*i: Expr) -> Expr:
        return x[(*i[:batch], *points.of(i[:rest]), *i[rest:])]

    return define((*points.shape, *x.shape[batch + points.count :]), body, "gather_nd")


@dataclass(frozen=True)
class _Points:
    """Points in some axes of x, one for each index of `shape`; their coordinates lie along `at`."""

    x: Tensor
    indices: Tensor
    at: int
    first: int
    count: int
    shape: Shape

    def of(self, i: Sequence[Expr]) -> list[Expr]:
        """The coordinates of one point."""
        extents = self.x.shape[self.first : self.first + self.count]
        return [
            position(self.indices[(*i[: self.at], n, *i[self.at :])], e)
            for n, e in enumerate(extents)
        ]


def _points(operator: str, x: Tensor, indices: Tensor, axis: int, first: int = 0) -> _Points:
    at = normalize_axis(operator, axis, indices.ndim) if indices.ndim else 0
    count = indices.shape[at] if indices.ndim else 0
    rest = (*indices.shape[:at], *indices.shape[at + 1 :])
    if not isinstance(count, int) or not 1 <= count <= x.ndim - first or first > len(rest):
        which = "first extent" if at == 0 else f"extent along axis {at}"
        raise ShapeError(
            f"{operator}: {indices.name} {format_shape(indices.shape)} cannot index {x.name} with "
            f"{x.ndim} axes{f', {first} of them batches' if first else ''}.",
            hint=f"its {which} is the number of leading indices of x.",
        )
    return _Points(x, indices, at, first, count, rest)


def position(index: Expr, extent: Dim) -> Expr:
    """An index that is data, counted from the end of its axis if it is below 0."""
    return from_start(index.astype("int64"), extent)


def _check_within(operator: str, x: Tensor, indices: Tensor, along: int) -> None:
    """Indices of one axis of x stand for elements of the others."""
    for d, (n, k) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if d != along and not (isinstance(n, int) and isinstance(k, int) and k <= n):
            check_same(operator, x, d, indices, d)


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


def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "set"
) -> Tensor:
    """x, with updates[i...] put at, or combined into, [i..., indices[i...], i...] along `axis`.

    An element that several updates meet takes them one after the other in row-major order: of
    "set" the last one stays (ONNX and torch leave open which), "max" and "min" send their
    gradient to the first of equal ones, x before the updates. Indices below 0 count from the end
    of the axis; all are checked in the call. Source: ONNX ScatterElements; torch.scatter_reduce.

    Args:
        reduction: "set", "add", "mul", "max" or "min".
    Raises:
        DefinitionError: another reduction.
        DTypeError: x does not hold the updates, or truth values are to be combined.
        ShapeError: updates and indices differ in shape, or another extent than the axis exceeds
            that of x.
    """
    operator = "scatter_elements"
    x = check_tensor(operator, "x", x)
    indices = check_indices(operator, "indices", indices, x.ndim)
    updates = check_tensor(operator, "updates", updates, x.ndim)
    along = normalize_axis(operator, axis, x.ndim)
    combiner = _combiner(operator, reduction, x, updates)
    _check_within(operator, x, indices, along)
    for d in range(x.ndim):
        check_same(operator, indices, d, updates, d)

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        at = position(indices[i], x.shape[along])
        return (*i[:along], at, *i[along + 1 :]), updates[i].astype(x.dtype)

    return te.scatter(x.shape, indices.shape, place, combiner, x, operator)


def scatter_nd(
    x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "set", axis: int = 0
) -> Tensor:
    """x, with updates[i..., j...] put at, or combined into, [indices[0, i...], ..., j...].

    What holds of duplicates and of indices below 0 is said in `scatter_elements`.
    Source: ONNX ScatterND.

    Args:
        indices: shape (m, ...), indices of the leading m axes of x along its first axis.
        updates: shape indices.shape without that axis, then x.shape without its first m.
        reduction: "set", "add", "mul", "max" or "min".
        axis: another axis of indices along which the m lie, e.g. -1 as in ONNX.
    Raises:
        DefinitionError: another reduction.
        DTypeError: x does not hold the updates, or truth values are to be combined.
        ShapeError: m is symbolic or exceeds the rank of x, or updates have another shape.
    """
    operator = "scatter_nd"
    x = check_tensor(operator, "x", x)
    indices = check_indices(operator, "indices", indices)
    updates = check_tensor(operator, "updates", updates)
    combiner = _combiner(operator, reduction, x, updates)
    points = _points(operator, x, indices, axis)
    wanted, rest = (*points.shape, *x.shape[points.count :]), len(points.shape)
    if len(wanted) != updates.ndim or not all(map(same_dim, wanted, updates.shape)):
        raise ShapeError(
            f"{operator}: {updates.name} has shape {format_shape(updates.shape)}, not "
            f"{format_shape(wanted)}.",
            hint=f"one element, or one part of {x.name}, for each point of {indices.name}.",
        )

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        return (*points.of(i[:rest]), *i[rest:]), updates[i].astype(x.dtype)

    return te.scatter(x.shape, wanted, place, combiner, x, operator)


def _combiner(operator: str, reduction: object, x: Tensor, updates: Tensor) -> object:
    """What combines updates with elements of x, which holds them."""
    word = check_word(operator, "reduction", reduction, tuple(COMBINE),
                      "write another one with scatter and comm_reducer.")  # fmt: skip
    if word != "set" and x.dtype is BOOL:
        raise DTypeError(
            f"{operator}: {x.name} holds truth values, which {word!r} does not combine.",
            hint=f"set them, or convert: {x.name}.astype('int64').",
        )
    both_floats = x.dtype.is_float and updates.dtype.is_float
    if not both_floats and result_type(updates.dtype, x.dtype) is not x.dtype:
        raise DTypeError(
            f"{operator}: {updates.name} of {updates.dtype} does not fit into {x.name} of "
            f"{x.dtype}.",
            hint=f"convert one of them: {updates.name}.astype({str(x.dtype)!r}).",
        )
    return COMBINE[word]


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
