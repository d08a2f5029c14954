"""Interpolation along any axes, with the coordinates and rounding modes of ONNX Resize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from math import ceil, isfinite, lcm
from typing import Final

import numpy as np

from tensorad import te
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.arguments import (
    as_integer,
    as_integers,
    as_listed,
    as_number,
    check_flag,
    check_number,
    check_word,
    shown,
)
from tensorad.topi.checks import check_tensor, normalize_axes, normalize_axis
from tensorad.topi.definition import define

_NAME: Final = "interpolate"
_MOST_TAPS: Final = 256
"""Elements that one element of the output is mixed of along an axis."""
_WHOLE: Final = (Fraction(0), Fraction(1))
MODES: Final = ("nearest", "linear", "cubic")
COORDINATES: Final = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class _Axis:
    """How one axis is resampled: output element i lies at (slope*i + start) / unit of the input.

    Attributes:
        extent, points: elements of the input and of the output.
        scale: elements of the output for one of the input.
        cropped: elements that lie outside of the input are replaced.
    """

    along: int
    extent: Dim
    points: Dim
    slope: int
    start: int
    unit: int
    scale: Fraction
    cropped: bool

    def place(self, i: Expr) -> Expr:
        """Where element i lies, in units of 1/unit."""
        return i * self.slope + self.start

    def clamped(self, position: Expr) -> Expr:
        """The nearest element of the input."""
        within: Expr = te.minimum(te.maximum(position, 0), dim_expr(self.extent) - 1)
        return within


def interpolate(
    x: Tensor,
    sizes: object = None,
    scales: object = None,
    axes: object = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    cubic_coefficient: float = -0.75,
    exclude_outside: bool = False,
    roi: object = None,
    extrapolation: float = 0.0,
    antialias: bool = False,
) -> Tensor:
    """x resampled along axes as ONNX Resize.

    Output element i of m lies, of n input elements and with s = m/n or the given scale, at
    (i + 1/2)/s - 1/2 for half_pixel; half_pixel_symmetric adds n/2 * (1 - m/(s*n));
    pytorch_half_pixel: 0 for m = 1; asymmetric: i/s; align_corners: i*(n - 1)/(s*n - 1), 0 for
    s*n = 1; tf_crop_and_resize: start*(n - 1) + i*(end - start)*(n - 1)/(s*n - 1) of the roi, its
    middle for s*n = 1, and outside of the input there is `extrapolation`.
    Positions are exact: a number is taken as the fraction of a small denominator that float32
    rounds to the same.
    Elements beyond an end are the last one there.

    Source: ONNX Resize (opset 19); Keys, Cubic Convolution Interpolation (1981), equation 4.

    Args:
        sizes: output extents of the axes, positive integers.
        scales: s for each axis, positive; without sizes m is floor(s*n).
        axes: which ones; None means all.
        mode: "nearest", "linear" or "cubic".
        coordinates: one of the words above.
        rounding: which element is nearest: "round_prefer_floor" (of two equally near ones the
            first), "round_prefer_ceil", "floor" or "ceil".
        cubic_coefficient: a in the paper: -0.75, or -0.5.
        exclude_outside: elements beyond the ends have weight 0, the others add up to 1.
        roi: starts of all axes, then their ends, as shares of the input; needed by
            "tf_crop_and_resize".
        antialias: where an axis gets shorter, weights are as much wider and add up to 1.
    Raises:
        DefinitionError: another word; neither sizes nor scales, or not one for each axis.
        DTypeError: integers are to be interpolated.
        ShapeError: an axis is empty, or its extent symbolic where it has to be known: with
            sizes, and with other coordinates than half_pixel and asymmetric.
    """
    x = check_tensor(_NAME, "x", x)
    _check_words(x, mode, coordinates, rounding)
    a = check_number(_NAME, "cubic_coefficient", cubic_coefficient)
    exclude = check_flag(_NAME, "exclude_outside", exclude_outside)
    smooth = check_flag(_NAME, "antialias", antialias)
    filler = te.const(check_number(_NAME, "extrapolation", extrapolation), x.dtype)
    resampled = _axes(x, sizes, scales, axes, coordinates, roi)
    if mode == "nearest":
        return _nearest(x, resampled, rounding, filler)
    for axis in resampled:
        mixture = _wide_mixture if smooth and axis.scale < 1 else _mixture
        taps = mixture(axis, x, a if mode == "cubic" else None, exclude)
        x = _mixed(x, axis, taps, filler)
    return x


def _check_words(x: Tensor, mode: object, coordinates: object, rounding: object) -> None:
    check_word(_NAME, "mode", mode, MODES, "write another interpolation with compute.")
    check_word(_NAME, "coordinates", coordinates, COORDINATES, "half_pixel takes centres.")
    check_word(_NAME, "rounding", rounding, ROUNDINGS, "which element is the nearest one.")
    if mode != "nearest" and not x.dtype.is_float:
        raise DTypeError(
            f"{_NAME}: {x.name} has dtype {x.dtype}, which holds no mixtures of elements.",
            hint=f"convert it: {x.name}.astype('float32'), or use mode='nearest'.",
        )


def _nearest(x: Tensor, axes: Sequence[_Axis], rounding: str, filler: Expr) -> Tensor:
    """The elements that the places are rounded to."""
    if not axes:
        return x
    by_axis = {axis.along: axis for axis in axes}
    shape = [by_axis[d].points if d in by_axis else n for d, n in enumerate(x.shape)]

    def body(*i: Expr) -> Expr:
        index = [
            by_axis[d].clamped(_rounded(by_axis[d], k, rounding)) if d in by_axis else k
            for d, k in enumerate(i)
        ]
        return _cropped([(axis, i[axis.along]) for axis in axes], x[tuple(index)], filler)

    return define(shape, body, _NAME)


def _rounded(axis: _Axis, i: Expr, rounding: str) -> Expr:
    """The element nearest to where element i of the output lies."""
    place, unit = axis.place(i), axis.unit
    match rounding:
        case "floor":
            return place // unit
        case "ceil":
            return -(-place // unit)
        case "round_prefer_ceil":
            return (place * 2 + unit) // (2 * unit)
    return -((unit - place * 2) // (2 * unit))


def _cropped(points: Sequence[tuple[_Axis, Expr]], value: Expr, filler: Expr) -> Expr:
    """The value at a point of the output, another one where it lies outside of a cropped input."""
    conditions = []
    for axis, i in points:
        if axis.cropped:
            last = (dim_expr(axis.extent) - 1) * axis.unit
            conditions += [axis.place(i) >= 0, axis.place(i) <= last]
    return te.select(te.all_of(*conditions), value, filler) if conditions else value


Tap = tuple[int, Callable[[Expr], Expr]]
"""How far from the element before a place, and the weight by the output's index."""


def _mixed(x: Tensor, axis: _Axis, taps: Sequence[Tap], filler: Expr) -> Tensor:
    """x with one axis resampled: the sum of elements by their weights."""
    d = axis.along

    def body(*i: Expr) -> Expr:
        low = axis.place(i[d]) // axis.unit
        terms = [x[(*i[:d], axis.clamped(low + k), *i[d + 1 :])] * w(i[d]) for k, w in taps]
        return _cropped([(axis, i[d])], _sum(terms), filler)

    return define((*x.shape[:d], axis.points, *x.shape[d + 1 :]), body, _NAME)


def _sum(terms: Sequence[Expr]) -> Expr:
    """The sum of terms, one after the other."""
    return reduce(lambda a, b: a + b, terms)


def _mixture(axis: _Axis, x: Tensor, a: float | None, exclude: bool) -> list[Tap]:
    """Two elements around a place, or four for cubics of coefficient a, with their weights."""
    offsets, dtype = (range(2) if a is None else range(-1, 3)), x.dtype

    def weight(k: int, i: Expr) -> Expr:
        t = (axis.place(i) % axis.unit).astype(dtype) * (1.0 / axis.unit)
        value = _cubic(k, t, a) if a is not None else t if k else 1.0 - t
        if not exclude:
            return value
        position = axis.place(i) // axis.unit + k
        inside = te.all_of(position >= 0, position < dim_expr(axis.extent))
        return te.select(inside, value, te.const(0, dtype))  # type: ignore[no-any-return]  # an element

    weights: list[Callable[[Expr], Expr]] = [partial(weight, k) for k in offsets]
    if exclude:
        weights = _adding_up(axis, weights)
    elif a is not None:
        weights = [_stored(axis, w) for w in weights]
    return list(zip(offsets, weights, strict=True))


def _wide_mixture(axis: _Axis, x: Tensor, a: float | None, exclude: bool) -> list[Tap]:
    """The mixture of an axis that gets shorter: all elements that the stretched weights reach."""
    support, scale = (1 if a is None else 2), axis.scale
    reach = ceil(support / scale)
    if 2 * reach > _MOST_TAPS:
        raise ShapeError(
            f"{_NAME}: an element of axis {axis.along} of {x.name} would be mixed of {2 * reach}.",
            hint=f"with antialias a scale is at least {support}/{_MOST_TAPS // 2}.",
        )

    def weight(k: int, i: Expr) -> Expr:
        t = (axis.place(i) % axis.unit).astype(x.dtype) * (1.0 / axis.unit)
        distance = te.abs(k - t) * float(scale)
        value = te.maximum(1.0 - distance, 0.0) if a is None else _stretched_cubic(distance, a)
        if not exclude:
            return value
        position = axis.place(i) // axis.unit + k
        inside = te.all_of(position >= 0, position < dim_expr(axis.extent))
        return te.select(inside, value, te.const(0, x.dtype))  # type: ignore[no-any-return]

    offsets = range(1 - reach, reach + 1)
    return list(zip(offsets, _adding_up(axis, [partial(weight, k) for k in offsets]), strict=True))


def _stretched_cubic(distance: Expr, a: float) -> Expr:
    """Keys's cubic of a distance, 0 from 2 on."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return te.select(distance < 1.0, near, te.select(distance < 2.0, far, distance * 0.0))  # type: ignore[no-any-return]


def _cubic(k: int, t: Expr, a: float) -> Expr:
    """The weight of the element k - t away, in [-1, 2] - [0, 1)."""
    distance = t + 1.0 if k < 0 else t if k == 0 else k - t
    if k in (0, 1):
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1.0
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _stored(axis: _Axis, weight: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """The weight as a tensor over the output's axis, so that it is computed once."""
    values = define((axis.points,), weight, "weight")
    return lambda i: values[i]


def _adding_up(
    axis: _Axis, weights: Sequence[Callable[[Expr], Expr]]
) -> list[Callable[[Expr], Expr]]:
    """The weights divided by their sum, if that is not 0."""

    def total(i: Expr) -> Expr:
        all_of_it = _sum([w(i) for w in weights])
        return te.select(all_of_it == 0, 1.0, all_of_it)  # type: ignore[no-any-return]  # an element

    divisor = _stored(axis, total)
    return [_stored(axis, lambda i, w=w: w(i) / divisor(i)) for w in weights]  # type: ignore[misc]


def _axes(
    x: Tensor, sizes: object, scales: object, axes: object, coordinates: str, roi: object
) -> list[_Axis]:
    """How each axis is resampled, but for those that stay as they are."""
    listed = range(x.ndim) if axes is None else as_integers(axes) or axes
    normalize_axes(_NAME, listed, x.ndim)  # type: ignore[arg-type]  # checks it
    numbers = [normalize_axis(_NAME, d, x.ndim) for d in listed]  # type: ignore[attr-defined]
    points = _per_axis("sizes", sizes, len(numbers), whole=True)
    factors = _per_axis("scales", scales, len(numbers), whole=False)
    starts, ends = _roi(roi, len(numbers), coordinates)
    if points is None and factors is None:
        raise DefinitionError(
            f"{_NAME}: neither sizes nor scales are given.", hint="e.g. scales=2, axes=(2, 3)."
        )
    made = []
    for n, d in enumerate(numbers):
        point = None if points is None else int(points[n])
        scale = None if factors is None else factors[n]
        axis = _axis(x, d, point, scale, coordinates, (starts[n], ends[n]))
        if axis is not None:
            made.append(axis)
    return made


def _axis(
    x: Tensor,
    along: int,
    points: int | None,
    scale: Fraction | None,
    coordinates: str,
    roi: tuple[Fraction, Fraction],
) -> _Axis | None:
    """How one axis is resampled; None: it stays as it is."""
    extent = x.shape[along]
    cropped = coordinates == "tf_crop_and_resize"
    kept = points is None or same_dim(points, extent)
    if scale in (None, 1) and kept and not cropped:
        return None
    known = isinstance(extent, int)
    free = points is None and coordinates in ("half_pixel", "asymmetric")
    if (known and not extent) or not (known or free):
        raise ShapeError(
            f"{_NAME}: axis {along} of {x.name} {format_shape(x.shape)} has the extent {extent}.",
            hint="axes have a constant extent of at least 1; with scales and the coordinates "
            "half_pixel or asymmetric it may be symbolic.",
        )
    if scale is None:
        assert isinstance(extent, int) and points is not None, "checked above"
        scale = Fraction(points, extent)
    count: Dim = points if points is not None else dim_of(
        dim_expr(extent) * scale.numerator // scale.denominator
    )  # fmt: skip
    if scale == 1 and same_dim(count, extent) and (not cropped or roi == _WHOLE):
        return None
    slope, start = _map(extent, count, scale, coordinates, roi)
    unit = lcm(slope.denominator, start.denominator)
    return _Axis(along, extent, count, int(slope * unit), int(start * unit), unit, scale, cropped)


def _map(
    extent: Dim, points: Dim, scale: Fraction, coordinates: str, roi: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction]:
    """(slope, start): output element i lies at slope*i + start of the input."""
    centre = (1 / scale - 1) / 2
    if coordinates == "asymmetric":
        return 1 / scale, Fraction(0)
    if coordinates == "half_pixel" or not isinstance(extent, int) or not isinstance(points, int):
        return 1 / scale, centre
    length = scale * extent
    if coordinates == "half_pixel_symmetric":
        return 1 / scale, centre + Fraction(extent, 2) * (1 - points / length)
    if coordinates == "pytorch_half_pixel":
        return (1 / scale, centre) if points > 1 else (Fraction(0), Fraction(0))
    first, last = roi if coordinates == "tf_crop_and_resize" else _WHOLE
    if length != 1:
        return (last - first) * (extent - 1) / (length - 1), first * (extent - 1)
    middle = (first + last) / 2 if coordinates == "tf_crop_and_resize" else Fraction(0)
    return Fraction(0), middle * (extent - 1)


def _per_axis(argument: str, given: object, count: int, whole: bool) -> list[Fraction] | None:
    """One positive number for each axis; a single one stands for all of them."""
    if given is None:
        return None
    listed = as_listed(given)
    values = (given,) * count if listed is None else listed
    numbers = [fraction(v) for v in values]
    fits = [n for n in numbers if n is not None and n > 0 and (not whole or n.denominator == 1)]
    if len(fits) != count or len(numbers) != count:
        kind = "integer" if whole else "number"
        raise DefinitionError(
            f"{_NAME}: {argument} must be one positive {kind} for each of {count} axes, "
            f"got {shown(given)}.",
            hint=f"e.g. {argument}={2 if whole else 2.0} for all of them, or name fewer axes.",
        )
    return fits


def _roi(given: object, count: int, coordinates: str) -> tuple[list[Fraction], list[Fraction]]:
    """Starts and ends of the axes."""
    if coordinates != "tf_crop_and_resize":
        return [_WHOLE[0]] * count, [_WHOLE[1]] * count
    numbers = [fraction(v) for v in as_listed(given) or ()]
    shares = [n for n in numbers if n is not None]
    if len(shares) != 2 * count or len(numbers) != 2 * count:
        raise DefinitionError(
            f"{_NAME}: roi must be the starts of {count} axes, then their ends, "
            f"got {shown(given)}.",
            hint=f"e.g. roi={(0.0,) * count + (1.0,) * count} for all of the input.",
        )
    return shares[:count], shares[count:]


def fraction(value: object) -> Fraction | None:
    """A finite number as the fraction of a small denominator that float32 rounds to the same."""
    number = value if isinstance(value, Fraction) else as_integer(value)
    if number is not None:
        return Fraction(number)
    real = as_number(value)
    if real is None or isinstance(real, bool) or not isfinite(real):
        return None
    exact, denominator = Fraction(real), 1
    wanted = _in_float32(exact)
    found = exact.limit_denominator(denominator)
    while _in_float32(found) != wanted:
        denominator *= 2
        found = exact.limit_denominator(denominator)
    return found


def _in_float32(value: Fraction) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(float(value))
