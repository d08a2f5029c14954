"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import ShapeError
from tensorad.ir.tensor import Tensor
from tensorad.topi.arguments import check_word
from tensorad.topi.checks import check_tensor, per_axis
from tensorad.topi.resampling import interpolate


def upsampling(x: Tensor, scale: object = 2, method: str = "nearest") -> Tensor:
    """`resize` to `scale` times the height and width (an integer or a pair)."""
    x = check_tensor("upsampling", "x", x, 4)
    sy, sx = per_axis("upsampling", "scale", scale, 1, 2)
    _check_extents("upsampling", x)
    height, width = x.shape[2:]
    return _resample("upsampling", x, (height * sy, width * sx), method)


def resize(x: Tensor, size: object, method: str = "nearest") -> Tensor:
    """x (n, channels, height, width) sampled at `size` = (height, width) points.

    Output point i lies at (i + 1/2)*n/m - 1/2 of n input elements (half-pixel centres), clamped
    to the image; "nearest" takes element floor(i*n/m), as PyTorch does.

    Args:
        size: an integer or a pair.
        method: "nearest" or "bilinear".
    Raises:
        DefinitionError: another method.
        ShapeError: height or width is symbolic or 0.
    """
    x = check_tensor("resize", "x", x, 4)
    return _resample("resize", x, per_axis("resize", "size", size, 1, 2), method)


def _resample(operator: str, x: Tensor, size: Sequence[int], method: str) -> Tensor:
    _check_extents(operator, x)
    check_word(operator, "method", method, ("nearest", "bilinear"),
               "interpolate has other ones.")  # fmt: skip
    if method == "nearest":
        return interpolate(x, size, None, (2, 3), "nearest", "asymmetric", "floor")
    return interpolate(x, size, None, (2, 3), "linear", "half_pixel")


def _check_extents(operator: str, x: Tensor) -> None:
    height, width = x.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int) or not height or not width:
        raise ShapeError(
            f"{operator}: the images of {x.name} have the extents {height} x {width}.",
            hint="images are resampled from constant extents of at least 1.",
        )
