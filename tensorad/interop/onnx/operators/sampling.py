"""Images read between their elements, at places that are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Final, NamedTuple

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.convolution import kernel_of, numbers, per_axis
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define

_MODES: Final = {"linear": 1, "bilinear": 1, "nearest": 0, "cubic": 2, "bicubic": 2}
_CUBIC: Final = -0.75
Weighted = tuple[Expr, Expr]
"""A position along an axis, and the weight of the element there."""


def _between(place: Expr) -> list[Weighted]:
    """The two elements around a place."""
    low = te.floor(place)
    first, part = low.astype(INT64), place - low
    return [(first, 1.0 - part), (first + 1, part)]


def _cubic(place: Expr) -> list[Weighted]:
    """The four elements around a place, by Keys's cubic."""
    low = te.floor(place)
    first, part, a = low.astype(INT64), place - low, _CUBIC

    def near(t: Expr) -> Expr:
        return ((a + 2) * t - (a + 3)) * t * t + 1.0

    def far(t: Expr) -> Expr:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    weights = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)]
    return [(first + n - 1, w) for n, w in enumerate(weights)]


def _inside(position: Expr, extent: int) -> Expr:
    """The nearest position that there is."""
    found: Expr = te.minimum(te.maximum(position, 0), extent - 1)
    return found


def _mixed(
    x: Tensor, lead: Sequence[Expr], around: Sequence[Sequence[Weighted]], zeros: bool
) -> Expr:
    """The sum of elements times the weights of their axes; outside of x they are 0 if told."""
    extents = [n for n in x.shape[-len(around) :] if isinstance(n, int)]
    terms = []
    for corner in product(*around):
        positions = [p for p, _ in corner]
        value = x[(*lead, *map(_inside, positions, extents))]
        if zeros:
            within = [te.all_of(p >= 0, p < n) for p, n in zip(positions, extents, strict=True)]
            value = te.select(te.all_of(*within), value, te.const(0, x.dtype))
        terms.append(reduce(lambda v, w: v * w, [w for _, w in corner], value))
    return reduce(lambda a, b: a + b, terms)


class _Axis:
    """One axis of what a grid points into."""

    def __init__(self, extent: int, corners: bool, padding: str) -> None:
        self.extent = extent
        self.corners = corners
        self.padding = padding

    def place(self, g: Expr) -> Expr:
        """Where a number from -1 to 1 lies."""
        n = self.extent
        return (g + 1.0) * (0.5 * (n - 1)) if self.corners else ((g + 1.0) * n - 1.0) * 0.5

    def moved(self, place: Expr) -> Expr:
        """A place brought inside, as padding says."""
        low = 0.0 if self.corners else -0.5
        high = self.extent - 1 - low
        outside = te.any_of(place < low, place > high)
        if self.padding == "border":
            within = te.minimum(te.maximum(place, 0.0), self.extent - 1.0)
            return te.select(outside, within, place)  # type: ignore[no-any-return]  # an element
        if self.padding == "reflection":
            length = high - low
            if length == 0:
                return place * 0.0
            rest = te.fmod(te.abs(place - low), 2 * length)
            turned = te.select(rest > length, 2 * length - rest, rest) + low
            return te.select(outside, turned, place)  # type: ignore[no-any-return]  # an element
        return place

    def far(self, place: Expr) -> Expr:
        """A place for cubics, which at a border mix elements that are brought inside."""
        return place if self.padding == "border" else self.moved(place)

    def position(self, p: Expr) -> Expr:
        """A position brought inside by reflection; others stay."""
        if self.padding != "reflection":
            return p
        n = self.extent
        period = 2 * (n - 1) if self.corners else 2 * n
        if period == 0:
            return p * 0
        rest = p % period
        last = period if self.corners else period - 1
        chosen: Expr = te.select(rest >= n, last - rest, rest)
        return chosen


def grid_sample(call: Call) -> Value:
    """x at places of a grid, which run from -1 to 1 along each axis."""
    x, grid = call.tensor(0), call.tensor(1)
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or grid.ndim != x.ndim or grid.shape[-1] != rank:
        raise OnnxError(
            f"a grid {format_shape(grid.shape)} has no places in {format_shape(x.shape)}."
        )
    extents = numbers(x.shape[2:], "the extents of what is sampled")
    if min(extents) < 1:
        raise OnnxError(f"an axis of {format_shape(x.shape)} is empty.")
    order = _MODES[call.word("mode", "linear", tuple(_MODES))]
    padding = call.word("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = call.flag("align_corners", False)
    axes = [_Axis(n, corners, padding) for n in extents]

    def body(n: Expr, c: Expr, *o: Expr) -> Expr:
        around: list[list[Weighted]] = []
        for d, axis in enumerate(axes):
            place = axis.place(grid[(n, *o, rank - 1 - d)])
            if order == 0:
                nearest = axis.moved(te.round(place))
                found = [(nearest.astype(INT64), te.const(1, x.dtype))]
            else:
                found = _cubic(axis.far(place)) if order == 2 else _between(axis.moved(place))
            around.append([(axis.position(p), w.astype(x.dtype)) for p, w in found])
        return _mixed(x, (n, c), around, padding == "zeros")

    return define((x.shape[0], x.shape[1], *grid.shape[1:-1]), body, "grid_sample")


def deformable(call: Call) -> Value:
    """A convolution of rows and columns each of whose taps is moved by an offset."""
    x, weight, offset = (call.tensor(n) for n in range(3))
    if x.ndim != 4:
        raise OnnxError(f"its input {format_shape(x.shape)} has not four axes.")
    kernel = kernel_of(call, x, weight)
    step, spread = per_axis(call, "strides", 2), per_axis(call, "dilations", 2)
    pads = call.integers("pads") or (0,) * 4
    if len(pads) != 4 or not 0 <= min(pads) <= max(pads) < 2**31:
        raise OnnxError(f"pads {pads} are not 4 integers >= 0.")
    _, channels, *extents = numbers((1, *x.shape[1:]), "channels, rows and columns")
    out, each = numbers(weight.shape[:2], "channels of the weight")
    groups, offsets = call.integer("group", 1), call.integer("offset_group", 1)
    taps = prod(kernel)
    divide = groups >= 1 and offsets >= 1 and not out % groups and not channels % offsets
    if not divide or each * groups != channels or not channels or min(extents) < 1:
        raise OnnxError(f"{channels} channels do not divide into groups {groups} and {offsets}.")
    shape = [
        (n + pads[d] + pads[d + 2] - (kernel[d] - 1) * spread[d] - 1) // step[d] + 1
        for d, n in enumerate(extents)
    ]
    if offset.ndim != 4 or offset.shape[1:] != (2 * offsets * taps, *shape):
        raise OnnxError(
            f"offsets {format_shape(offset.shape)} are not two of {offsets * taps} taps at "
            f"{shape[0]} rows and {shape[1]} columns."
        )
    mask = call.optional(4)
    if mask is not None and (mask.ndim != 4 or mask.shape[1:] != (offsets * taps, *shape)):
        raise OnnxError(f"a mask {format_shape(mask.shape)} is not one of {offsets * taps} taps.")
    per_offset = channels // offsets

    def sample(n: Expr, c: Expr, k: Expr, *o: Expr) -> Expr:
        tap = c // per_offset * taps + k
        coordinates = (k // kernel[1], k % kernel[1])
        around = [
            _between(
                (o[d] * step[d] - pads[d] + coordinates[d] * spread[d]).astype(x.dtype)
                + offset[(n, tap * 2 + d, *o)]
            )
            for d in range(2)
        ]
        value = _mixed(x, (n, c), around, True)
        return value if mask is None else value * mask[(n, tap, *o)]

    samples = define((x.shape[0], channels, taps, *shape), sample, "samples")

    def body(n: Expr, m: Expr, *o: Expr) -> Expr:
        c, k = te.reduce_axis(each, name="c"), te.reduce_axis(taps, name="k")
        group = m // (out // groups)
        part = weight[m, c, k // kernel[1], k % kernel[1]]
        return te.sum(samples[(n, group * each + c, k, *o)] * part, axis=[c, k])

    made = define((x.shape[0], out, *shape), body, "deformable")
    return topi.nn.bias_add(made, call.tensor(3), 1) if call.has(3) else made


class _Regions(NamedTuple):
    """Regions of images, cut into cells.

    Attributes:
        corners: (regions, 4), first columns, then rows. cells: of each, rows and columns.
        scale, shift: from corners to places in an image. centred: whether these are exact; if not,
            a region is one element long at least.
    """

    corners: Tensor
    cells: tuple[int, int]
    scale: float
    shift: float
    centred: bool

    def along(self, d: int) -> tuple[Tensor, Tensor]:
        """Where regions begin along an axis, and how long their cells are."""

        def ends(r: Expr) -> tuple[Expr, Expr]:
            start, end = (self.corners[r, k - d] * self.scale - self.shift for k in (1, 3))
            return start, end - start

        def cell(r: Expr) -> Expr:
            length = ends(r)[1] if self.centred else te.maximum(ends(r)[1], 1.0)
            return length / float(self.cells[d])

        shape = self.corners.shape[:1]
        return define(shape, lambda r: ends(r)[0], "starts"), define(shape, cell, "lengths")


def _points(lengths: Tensor) -> Tensor:
    """How many points a cell has along an axis: one for each element that it is long."""

    def body(r: Expr) -> Expr:
        whole: Expr = te.minimum(te.maximum(te.ceil(lengths[r]), 0.0), 2.0**31)
        return whole.astype(INT64)

    return define(lengths.shape, body, "points")


def roi_align(call: Call) -> Value:
    """Regions of images, each as so many cells, of which points are taken and folded."""
    x, corners, images = (call.tensor(n) for n in range(3))
    if x.ndim != 4 or corners.ndim != 2 or corners.shape[1] != 4 or images.ndim != 1:
        raise OnnxError(
            f"{format_shape(corners.shape)} are no regions of images {format_shape(x.shape)}."
        )
    extents = numbers(x.shape[2:], "rows and columns")
    ratio = call.integer("sampling_ratio", 0)
    cells = (call.integer("output_height", 1), call.integer("output_width", 1))
    if not 0 <= ratio < 2**15 or not 1 <= min(cells) <= max(cells) < 2**31 or not prod(extents):
        raise OnnxError(f"there are no {cells} cells of {ratio} points in {format_shape(x.shape)}.")
    largest = call.word("mode", "avg", ("avg", "max")) == "max"
    rule = ("half_pixel", "output_half_pixel")
    centred = call.version >= 16 and call.word(
        "coordinate_transformation_mode", *rule[:1], rule
    ) == ("half_pixel")
    scale = call.number("spatial_scale", 1.0)
    regions = _Regions(corners, cells, scale, 0.5 if centred else 0.0, centred)
    along = [regions.along(d) for d in range(2)]
    counts = [None if ratio else _points(lengths) for _, lengths in along]

    def body(r: Expr, c: Expr, *cell: Expr) -> Expr:
        of_each = [te.const(ratio, INT64) if n is None else n[r] for n in counts]
        points = [te.reduce_axis((0, n), name=name) for n, name in zip(of_each, "yx", strict=True)]
        many = [te.maximum(n, 1).astype(x.dtype) for n in of_each]
        places = []
        for d, (start, size) in enumerate([(s[r], n[r]) for s, n in along]):
            within = (points[d].astype(x.dtype) + 0.5) / many[d]
            places.append(start + (cell[d].astype(x.dtype) + within) * size)
        near = zip(places, extents, strict=True)
        inside = te.all_of(*[b for p, n in near for b in (p >= -1.0, p <= float(n))])
        around = [
            _between(te.minimum(te.maximum(p, 0.0), n - 1.0))
            for p, n in zip(places, extents, strict=True)
        ]
        lead, zero = (images[r].astype(INT64), c), te.const(0, x.dtype)
        if not largest:
            value = te.select(inside, _mixed(x, lead, around, False), zero)
            return te.sum(value, axis=points) / (many[0] * many[1])
        parts = [
            _mixed(x, lead, [[a], [b]], False) for a, b in product(around[0], around[1])
        ]  # ONNX takes the largest of weighted elements, not of their sums
        chosen = te.select(inside, reduce(te.maximum, parts), zero)
        some = te.all_of(*[n > 0 for n in of_each])
        found: Expr = te.select(some, te.max(chosen, axis=points), zero)
        return found

    return define((corners.shape[0], x.shape[1], *cells), body, "roi_align")


HANDLERS: Final[Mapping[str, Handler]] = {
    "GridSample": grid_sample,
    "DeformConv": deformable,
    "RoiAlign": roi_align,
}
