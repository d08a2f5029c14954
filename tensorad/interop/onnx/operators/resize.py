"""Resampling along axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from tensorad import topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value, equal
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Shape
from tensorad.topi.resampling import COORDINATES, MODES, ROUNDINGS

_POLICIES: Final = ("stretch", "not_larger", "not_smaller")


def resize(call: Call) -> Value:
    """By scales or to sizes; axes that stay as they are may be symbolic."""
    x = call.tensor(0)
    axes = tuple([axis_of(d, x.ndim) for d in call.integers("axes", range(x.ndim)) or ()])
    coordinates = call.word("coordinate_transformation_mode", "half_pixel", COORDINATES)
    crops = coordinates == "tf_crop_and_resize"
    sizes, scales = _wanted(call, x.shape, axes)
    moving = [
        n
        for n, d in enumerate(axes)
        if crops or (equal(sizes[n], x.shape[d]) is not True if sizes else scales[n] != 1)
    ]
    roi = call.numbers(1).tolist() if crops and call.has(1) else ()
    return topi.interpolate(
        x,
        _numbers([sizes[n] for n in moving]) if sizes else None,
        [scales[n] for n in moving] if scales else None,
        [axes[n] for n in moving],
        call.word("mode", "nearest", MODES),
        coordinates,
        call.word("nearest_mode", "round_prefer_floor", ROUNDINGS),
        call.number("cubic_coeff_a", -0.75),
        call.flag("exclude_outside", False),
        roi,
        call.number("extrapolation_value", 0.0),
        call.flag("antialias", False),
    )


Scales = Sequence[float | Fraction]


def _wanted(call: Call, own: Shape, axes: Sequence[int]) -> tuple[tuple[Dim, ...], Scales]:
    """Sizes and scales of axes, one of them empty; by a policy there are both."""
    scales: Scales = call.numbers(2).tolist() if call.has(2) else ()
    sizes = call.extents(3) if call.has(3) else ()
    if bool(scales) is bool(sizes) or len(scales or sizes) != len(axes):
        raise OnnxError(f"it needs either scales or sizes, one for each of {len(axes)} axes.")
    policy = call.word("keep_aspect_ratio_policy", "stretch", _POLICIES)
    if scales or policy == "stretch":
        return sizes, scales
    extents = _numbers([own[d] for d in axes])
    if min(extents) < 1:
        raise OnnxError(f"an axis of {own} is empty.")
    ratios = [Fraction(m, n) for m, n in zip(_numbers(sizes), extents, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple([int(scale * n + Fraction(1, 2)) for n in extents]), [scale] * len(axes)


def _numbers(extents: Sequence[Dim]) -> list[int]:
    found = [n for n in extents if not isinstance(n, Expr)]
    if len(found) < len(extents):
        raise OnnxError(
            "its sizes depend on those of inputs.",
            hint="give numbers for them: load(path, sizes={...}).",
        )
    return found


HANDLERS: Final[Mapping[str, Handler]] = {"Resize": resize}
