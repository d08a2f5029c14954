"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi.arguments import check_word
from tensorad.topi.checks import check_tensor, per_axis
from tensorad.topi.definition import define


def upsampling(x: Tensor, scale: object = 2, method: str = "nearest") -> Tensor:
    """`resize` to `scale` times the height and width (an integer or a pair)."""
    x = check_tensor("upsampling", "x", x, 4)
    sy, sx = per_axis("upsampling", "scale", scale, 1, 2)
    height, width = _extents("upsampling", x)
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
    extents = _extents(operator, x)
    check_word(operator, "method", method, ("nearest", "bilinear"),
               "write another interpolation with compute.")  # fmt: skip

    def nearest(n: Expr, c: Expr, y: Expr, x_: Expr) -> Expr:
        position = [p * e // m for p, e, m in zip((y, x_), extents, size, strict=True)]
        return x[(n, c, *position)]

    def bilinear(n: Expr, c: Expr, y: Expr, x_: Expr) -> Expr:
        corners = [_neighbours(p, e, m, x) for p, e, m in zip((y, x_), extents, size, strict=True)]
        total: Expr | None = None
        for (row, a), (column, b) in product(*corners):
            term = x[n, c, row, column] * (a * b)
            total = term if total is None else total + term
        if total is None:
            raise DefinitionError(f"{operator}: an image has two axes.")
        return total

    return define((*x.shape[:2], *size), nearest if method == "nearest" else bilinear, operator)


def _neighbours(p: Expr, extent: int, points: int, x: Tensor) -> list[tuple[Expr, Expr]]:
    """The two elements around a sampling point, with their weights."""
    twice = (2 * p + 1) * extent - points  # the point, in units of 1/(2*points)
    low = twice // (2 * points)
    weight = (twice % (2 * points)).astype(x.dtype) * (1.0 / (2 * points))
    return [(_clamp(low, extent), 1.0 - weight), (_clamp(low + 1, extent), weight)]


def _clamp(index: Expr, extent: int) -> Expr:
    inside: Expr = te.minimum(te.maximum(index, 0), extent - 1)
    return inside


def _extents(operator: str, x: Tensor) -> tuple[int, int]:
    height, width = x.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int) or not height or not width:
        raise ShapeError(
            f"{operator}: the images of {x.name} have the extents {height} x {width}.",
            hint="images are resampled from constant extents of at least 1.",
        )
    return height, width
