"""Shapes, and operators that move elements: reshape, transpose, slices, joining, repeating."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorad import topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler, all_known
from tensorad.interop.onnx.values import (
    MAX_FOLDED,
    Array,
    Known,
    Value,
    as_tensor,
    check_extents,
    count_of,
    objects,
)
from tensorad.ir.arrays.elementwise import broadcast_shapes, same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Shape, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.definition import define
from tensorad.topi.transform import product

_FAR: Final = 2**31 - 2
"""From here on the end of a slice is the end of an axis whose extent is a size."""


def either(
    value: Value, on_array: Callable[[Array], Array], on_tensor: Callable[[Tensor], Tensor]
) -> Value:
    """A function that moves elements, of an array that is known or of a tensor."""
    if isinstance(value, Known):
        return Known(on_array(value.array), value.dtype)
    return on_tensor(as_tensor(value))


def shape(call: Call) -> Value:
    """The extents of a tensor, from one axis to another."""
    own = call.shape(0)
    start, end = call.integer("start", 0), call.integer("end", len(own))
    return Known(objects(own[start:end]), INT64)


def size(call: Call) -> Value:
    """The number of elements of a tensor."""
    return Known(objects([product(call.shape(0))]).reshape(()), INT64)


def reshape(call: Call) -> Value:
    """The elements in another shape: 0 keeps an extent, -1 is what is left."""
    value = call.value(0)
    wanted = list(call.extents(1))
    if not call.flag("allowzero", False):
        for d, n in enumerate(wanted):
            if same_dim(n, 0):
                if d >= len(value.shape):
                    raise OnnxError(f"its shape keeps axis {d}, of {len(value.shape)} axes.")
                wanted[d] = value.shape[d]
    new = complete(value.shape, wanted)
    return reshaped(value, new)


def reshaped(value: Value, new: Shape) -> Value:
    """A value in another shape with as many elements."""
    if not same_dim(product(value.shape), product(new)):
        raise OnnxError(
            f"{format_shape(value.shape)} has {product(value.shape)} elements, but "
            f"{format_shape(new)} has {product(new)}."
        )
    return either(value, lambda a: a.reshape(new), lambda t: topi.reshape(t, new))


def complete(old: Shape, wanted: Sequence[Dim]) -> Shape:
    """A new shape with the extent for which -1 stands.

    Raises:
        OnnxError: there are several, or none fits.
    """
    unknown = [d for d, n in enumerate(wanted) if same_dim(n, -1)]
    if any(isinstance(n, int) and n < -1 for n in wanted) or len(unknown) > 1:
        raise OnnxError(f"{tuple(wanted)} is no shape.")
    if not unknown:
        return tuple(wanted)
    over: list[Dim] = []
    left = list(old)
    for n in wanted:
        match = next((k for k, m in enumerate(left) if same_dim(m, n)), None)
        if same_dim(n, -1):
            continue
        if match is None:
            over.append(n)
        else:
            del left[match]
    missing = _quotient(left, over)
    if missing is None:
        raise OnnxError(f"{format_shape(old)} has no shape {tuple(wanted)}.")
    return tuple([missing if d in unknown else n for d, n in enumerate(wanted)])


def _quotient(above: Sequence[Dim], below: Sequence[Dim]) -> Dim | None:
    """The product of extents divided by others; None if these do not divide it."""
    numbers = prod([n for n in above if isinstance(n, int)])
    sizes = [n for n in above if not isinstance(n, int)]
    if all(isinstance(n, int) for n in below):
        divisor = prod([n for n in below if isinstance(n, int)])
        if divisor and numbers % divisor == 0:
            return product([*sizes, numbers // divisor])
    if same_dim(product(above), product(below)):
        return 1
    return None


def flatten(call: Call) -> Value:
    """Two axes: those before an axis, and the others."""
    own = call.shape(0)
    axis = call.integer("axis", 1)
    at = len(own) if axis == len(own) else axis_of(axis, max(1, len(own)))
    return reshaped(call.value(0), (product(own[:at]), product(own[at:])))


def transpose(call: Call) -> Value:
    """Axes in another order."""
    own = call.shape(0)
    order = call.integers("perm", range(len(own))[::-1]) or ()
    if sorted(order) != list(range(len(own))):
        raise OnnxError(f"perm {order} is no permutation of {len(own)} axes.")
    return either(call.value(0), lambda a: a.transpose(order), lambda t: topi.transpose(t, order))


def _axes(call: Call, n: int, ndim: int) -> tuple[int, ...] | None:
    """Distinct axes that input n names; None if it is left out."""
    if not call.has(n):
        return None
    axes = tuple([axis_of(a, ndim) for a in call.whole(n)])
    if len(set(axes)) < len(axes):
        raise OnnxError(f"an axis is named twice in {axes}.")
    return axes


def squeeze(call: Call) -> Value:
    """Without axes of extent 1."""
    own = call.shape(0)
    given = _axes(call, 1, len(own))
    gone = [d for d, n in enumerate(own) if same_dim(n, 1)] if given is None else given
    if not all(same_dim(own[d], 1) for d in gone):
        raise OnnxError(f"axes {tuple(gone)} of {format_shape(own)} are not all of extent 1.")
    return reshaped(call.value(0), tuple([n for d, n in enumerate(own) if d not in gone]))


def unsqueeze(call: Call) -> Value:
    """With more axes of extent 1."""
    own = call.shape(0)
    count = len(call.whole(1))
    new = _axes(call, 1, len(own) + count) or ()
    rest = iter(own)
    return reshaped(
        call.value(0), tuple([1 if d in new else next(rest) for d in range(len(own) + count)])
    )


def concat(call: Call) -> Value:
    """One after the other along an axis."""
    axis = axis_of(call.integer("axis", 0), len(call.shape(0)))
    known = all_known(call)
    if known is not None and sum(v.array.size for v in known) <= MAX_FOLDED:
        return Known(np.concatenate([v.array for v in known], axis), known[0].dtype)
    values = [call.value(n) for n in range(len(call.values))]
    if len(values) == 1:
        return values[0]
    return topi.concatenate([as_tensor(v) for v in values], axis)


class Cut:
    """A slice of one axis: `count` elements from `start`, `step` apart."""

    def __init__(self, extent: Dim, start: Any, end: Any, step: int) -> None:
        self.step = step
        if all(isinstance(n, int) for n in (extent, start, end)):
            chosen = range(extent)[slice(*_bounds(extent, start, end, step))]  # type: ignore[arg-type]  # an integer
            self.start: Dim = chosen.start
            self.count: Dim = len(chosen)
            return
        first, last = _place(start, extent, step < 0), _place(end, extent, step < 0)
        way = last - first if step > 0 else first - last
        by = abs(step)
        self.start = dim_of(first)
        self.count = dim_of((way + (by - 1)) // by if by > 1 else way)
        if isinstance(self.count, Expr) and same_dim(self.count, extent):
            self.count = extent


def _bounds(extent: int, start: int, end: int, step: int) -> tuple[int, int, int]:
    """What Python's slice takes for the ends of ONNX's, which begin inside of the axis."""
    return max(start, -extent) if step < 0 else start, end, step


def _place(n: Any, extent: Dim, backwards: bool) -> Expr:
    """A position in an axis some of whose numbers are sizes; calls check that it is inside."""
    if isinstance(n, int):
        if n >= _FAR:
            return dim_expr(extent) - (1 if backwards else 0)
        if n <= -_FAR:
            return dim_expr(-1 if backwards else 0)
        return dim_expr(extent) + n if n < 0 else dim_expr(n)
    return dim_expr(n)


def slices(call: Call) -> Value:
    """Parts of axes, of sizes inside of their extents: calls check that."""
    value = call.value(0)
    own = value.shape
    starts, ends = call.extents(1), call.extents(2)
    axes = _axes(call, 3, len(own))
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = call.whole(4) if call.has(4) else (1,) * len(starts)
    if (
        not len(starts) == len(ends) == len(axes) == len(steps)
        or len(axes) > len(own)
        or 0 in steps
    ):
        raise OnnxError("its starts, ends, axes and steps do not belong together.")
    cuts = {
        a: Cut(own[a], start, end, step)
        for a, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }
    return cut(value, cuts)


def cut(value: Value, cuts: Mapping[int, Cut]) -> Value:
    """Slices of axes."""
    own = value.shape
    new = tuple([cuts[d].count if d in cuts else n for d, n in enumerate(own)])

    def on_array(a: Array) -> Array:
        for d, c in cuts.items():
            if not isinstance(c.start, int) or not isinstance(c.count, int):
                raise OnnxError("a slice of known numbers has an extent that is not known.")
            indices = range(c.start, c.start + c.count * c.step, c.step)
            a = np.take(a, indices, d)
        return a

    def on_tensor(t: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            return t[tuple([_moved(k, cuts.get(d)) for d, k in enumerate(i)])]

        return define(new, body, "slice")

    settled = all(isinstance(n, int) for c in cuts.values() for n in (c.start, c.count))
    if settled or not isinstance(value, Known):
        return either(value, on_array, on_tensor)
    return on_tensor(as_tensor(value))


def _moved(k: Expr, c: Cut | None) -> Expr:
    if c is None:
        return k
    place = k if c.step == 1 else k * c.step
    return place + c.start if not same_dim(c.start, 0) else place


def split(call: Call) -> list[Value]:
    """Parts along an axis: of extents that are told, or as equal as can be."""
    value = call.value(0)
    axis = axis_of(call.integer("axis", 0), len(value.shape))
    extent = value.shape[axis]
    if call.has(1):
        parts = list(call.extents(1))
    else:
        count = call.integer("num_outputs", call.outputs)
        if not isinstance(extent, int) or count < 1 or count != call.outputs:
            raise OnnxError(f"axis {axis} of extent {extent} does not divide into {count} parts.")
        each = -(-extent // count)
        parts = [max(0, min(each, extent - each * n)) for n in range(count)]
    if not same_dim(total(parts), extent):
        raise OnnxError(f"its parts {tuple(parts)} do not add up to {extent}.")
    if len(parts) != call.outputs or any(isinstance(n, int) and n < 0 for n in parts):
        raise OnnxError(f"its parts {tuple(parts)} are not one for each output.")
    made: list[Value] = []
    start: Dim = 0
    for n in parts:
        stop = dim_of(dim_expr(start) + n)
        made.append(cut(value, {axis: Cut(extent, start, stop, 1)}))
        start = stop
    return made


def total(parts: Sequence[Dim]) -> Dim:
    """The sum of extents; of numbers without a limit."""
    numbers = sum([n for n in parts if isinstance(n, int)])
    sizes = [n for n in parts if isinstance(n, Expr)]
    return dim_of(sum(sizes, dim_expr(numbers))) if sizes else numbers


def times_of(extent: Dim, times: int) -> Dim:
    """An extent a number of times; a number without a limit."""
    return extent * times if isinstance(extent, int) else dim_of(extent * times)


def expand(call: Call) -> Value:
    """Repeated along axes of extent 1, and new leading ones."""
    value = call.value(0)
    new = broadcast_shapes("Expand", value.shape, tuple(call.extents(1)))
    check_extents("its output", new)
    known = isinstance(value, Known) and all(isinstance(n, int) for n in new)
    if known and count_of(new) <= MAX_FOLDED:
        return either(value, lambda a: np.broadcast_to(a, new), lambda t: t)  # type: ignore[arg-type]  # integers
    return topi.broadcast_to(as_tensor(value), new)


def tile(call: Call) -> Value:
    """Repeated along all axes."""
    value = call.value(0)
    times = call.whole(1)
    if len(times) != len(value.shape) or any(n < 0 for n in times):
        raise OnnxError(
            f"repeats {times} are not one for each axis of {format_shape(value.shape)}."
        )
    new = tuple([times_of(n, t) for n, t in zip(value.shape, times, strict=True)])
    check_extents("its output", new)
    if isinstance(value, Known) and count_of(new) <= MAX_FOLDED:
        return Known(np.tile(value.array, times), value.dtype)
    return topi.tile(as_tensor(value), times)


def blocks(call: Call) -> Value:
    """Channels moved into blocks of rows and columns, or back."""
    x, block = call.tensor(0), call.integer("blocksize", 0)
    mode = call.word("mode", "DCR", ("DCR", "CRD"))
    if call.node.operator == "SpaceToDepth":
        return topi.space_to_depth(x, block) if mode == "DCR" else _to_channels(x, block)
    return topi.depth_to_space(x, block) if mode == "DCR" else _to_places(x, block)


def _to_channels(x: Tensor, block: int) -> Tensor:
    """Channels run slower than the places in a block."""
    n, c, h, w = x.shape
    if block < 1 or not isinstance(h, int) or not isinstance(w, int) or h % block or w % block:
        raise OnnxError(f"{h} rows and {w} columns do not divide into blocks of {block}.")
    cells = topi.reshape(x, (n, c, h // block, block, w // block, block))
    moved = topi.transpose(cells, (0, 1, 3, 5, 2, 4))
    deep = dim_of(dim_expr(c) * (block * block))
    return topi.reshape(moved, (n, deep, h // block, w // block))


def _to_places(x: Tensor, block: int) -> Tensor:
    """Channels run slower than the places in a block."""
    n, c, h, w = x.shape
    if block < 1 or not isinstance(c, int) or c % (block * block):
        raise OnnxError(f"{c} channels do not divide into blocks of {block}.")
    cells = topi.reshape(x, (n, c // (block * block), block, block, h, w))
    moved = topi.transpose(cells, (0, 1, 4, 2, 5, 3))
    tall, wide = (dim_of(dim_expr(e) * block) for e in (h, w))
    return topi.reshape(moved, (n, c // (block * block), tall, wide))


HANDLERS: Final[Mapping[str, Handler]] = {
    "Shape": shape,
    "Size": size,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Slice": slices,
    "Split": split,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": blocks,
    "SpaceToDepth": blocks,
}
