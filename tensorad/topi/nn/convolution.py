"""Convolutions in one, two and three dimensions, and their transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorad import te
from tensorad.errors import ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.arguments import check_integer
from tensorad.topi.checks import check_tensor, per_axis, sides
from tensorad.topi.definition import define
from tensorad.topi.nn.windows import SPATIAL, slide
from tensorad.topi.transform import divisor


def conv1d(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """1-d convolution (cross-correlation): x (n, channels, width), weight (out, in, k).

    Args and errors as in `conv2d`; padding is an integer or (left, right).
    """
    shape, element = _convolution("conv1d", x, weight, strides, padding, dilation, groups)
    return define(shape, lambda n, co, x: element(n, co, (x,)), "conv1d")


def conv2d(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """2-d convolution (cross-correlation), NCHW and OIHW.

    out[n, o, y, x] = sum over i, ky, kx of weight[o, i, ky, kx]
        * input[n, g + i, y*stride + ky*dilation - pad, x*stride + kx*dilation - pad]

    Args:
        x: shape (n, channels, height, width).
        weight: shape (out, channels / groups, kernel height, kernel width).
        strides, dilation: an integer or a pair.
        padding: an integer, a pair, or (top, left, bottom, right).
        groups: into how many parts the channels divide that do not see each other;
            groups=channels is the depthwise convolution.
    Raises:
        ShapeError: channels do not fit, or the kernel exceeds the padded input.
    """
    shape, element = _convolution("conv2d", x, weight, strides, padding, dilation, groups)
    return define(shape, lambda n, co, y, x: element(n, co, (y, x)), "conv2d")


def conv3d(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """3-d convolution (cross-correlation): x (n, channels, depth, height, width).

    Args and errors as in `conv2d`; padding is an integer, three, or six (front, top, left, back,
    bottom, right).
    """
    shape, element = _convolution("conv3d", x, weight, strides, padding, dilation, groups)
    return define(shape, lambda n, co, z, y, x: element(n, co, (z, y, x)), "conv3d")


Element = Callable[[Expr, Expr, Sequence[Expr]], Expr]


def _convolution(
    operator: str,
    x: Tensor,
    weight: Tensor,
    strides: object,
    padding: object,
    dilation: object,
    groups: int,
) -> tuple[tuple[Dim, ...], Element]:
    """The output's shape, and the formula of its element (n, channel, position)."""
    rank = int(operator[4])
    x = check_tensor(operator, "x", x, rank + 2)
    weight = check_tensor(operator, "weight", weight, rank + 2)
    step = per_axis(operator, "strides", strides, 1, rank)
    spread = per_axis(operator, "dilation", dilation, 1, rank)
    around = sides(operator, padding, rank)
    groups = _check_groups(operator, x, weight, groups)
    out, per_group, *kernel = weight.shape
    windows = slide(operator, x.shape[2:], kernel, step, spread, around)
    ci = te.reduce_axis(per_group, name="ci")
    taps = windows.taps()

    def element(n: Expr, co: Expr, position: Sequence[Expr]) -> Expr:
        channel = (
            ci if groups == 1 else co // divisor(dim_of(dim_expr(out) // groups)) * per_group + ci
        )
        indices = windows.indices(position, taps)
        inside = windows.inside(indices)
        product = x[(n, channel, *indices)] * weight[(co, ci, *taps)]
        return te.sum(product, axis=[ci, *taps], where=te.all_of(*inside) if inside else None)

    return (x.shape[0], out, *windows.shape), element


def _check_groups(operator: str, x: Tensor, weight: Tensor, given: object) -> int:
    """The number of groups, which divides the channels."""
    channels, out, per_group = x.shape[1], weight.shape[0], weight.shape[1]
    groups = check_integer(operator, "groups", given, 1, _ONE_GROUP)
    if groups > 1 and isinstance(out, int) and out % groups:
        raise ShapeError(
            f"{operator}: {out} output channels do not divide into {groups} groups.",
            hint="every group makes equally many output channels.",
        )
    expected = dim_of(dim_expr(per_group) * groups)
    if isinstance(channels, int) and isinstance(expected, int) and channels != expected:
        spatial = "height, width" if operator == "conv2d" else "kernel..."
        raise ShapeError(
            f"{operator}: {x.name} has {channels} channels, but {weight.name} of shape "
            f"{format_shape(weight.shape)} with groups={groups} needs {expected}.",
            hint=f"weights have shape (out, channels / groups, {spatial}).",
        )
    return groups


_ONE_GROUP: Final = "groups=1 connects all channels."


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    output_padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv1d`: x (n, channels, width), weight (channels, out / groups, k).

    Args and errors as in `conv2d_transpose`; padding is an integer or (left, right), or a word.
    """
    shape, element = _transposed(
        "conv1d_transpose", x, weight, strides, padding, output_padding, dilation, groups
    )
    return define(shape, lambda n, co, x_: element(n, co, (x_,)), "conv1d_transpose")


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    output_padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv2d` as a map of its input: what its gradient with respect to x does.

    out[n, o, y*stride + ky*dilation - pad, ...] += x[n, g + i, y, ...] * weight[g + i, o, ky, ...]

    Args:
        x: shape (n, channels, height, width).
        weight: shape (channels, out / groups, kernel height, kernel width).
        strides, dilation: an integer or a pair.
        padding: an integer, a pair, or (top, left, bottom, right), taken off the output; or
            "same_upper" or "same_lower": as much as leaves stride times the extents of x, halved,
            the odd one at the end or at the beginning (auto_pad of ONNX ConvTranspose).
        output_padding: an integer or a pair, rows and columns added at the end.
        groups: into how many parts the channels divide that do not see each other.
    Raises:
        ShapeError: channels do not fit, or nothing is left of the output.
    """
    shape, element = _transposed(
        "conv2d_transpose", x, weight, strides, padding, output_padding, dilation, groups
    )
    return define(shape, lambda n, co, y, x_: element(n, co, (y, x_)), "conv2d_transpose")


def conv3d_transpose(
    x: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    output_padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv3d`: x (n, channels, depth, height, width).

    Args and errors as in `conv2d_transpose`; padding is an integer, three, or six (front, top,
    left, back, bottom, right), or a word.
    """
    shape, element = _transposed(
        "conv3d_transpose", x, weight, strides, padding, output_padding, dilation, groups
    )
    return define(shape, lambda n, co, z, y, x_: element(n, co, (z, y, x_)), "conv3d_transpose")


def _transposed(
    operator: str,
    x: Tensor,
    weight: Tensor,
    strides: object,
    padding: object,
    output_padding: object,
    dilation: object,
    groups: int,
) -> tuple[tuple[Dim, ...], Element]:
    """The output's shape, and the formula of its element (n, channel, position)."""
    rank = int(operator[4])
    x = check_tensor(operator, "x", x, rank + 2)
    weight = check_tensor(operator, "weight", weight, rank + 2)
    step = per_axis(operator, "strides", strides, 1, rank)
    spread = per_axis(operator, "dilation", dilation, 1, rank)
    extra = per_axis(operator, "output_padding", output_padding, 0, rank)
    groups = _check_transposed_channels(operator, x, weight, groups)
    extents, kernel = x.shape[2:], weight.shape[2:]
    around, extra = _taken_off(operator, padding, weight, step, spread, extra)
    spatial = [
        _transposed_extent(operator, n, k, s, d, e - sum(pads))
        for n, k, s, d, e, pads in zip(extents, kernel, step, spread, extra, around, strict=True)
    ]
    per_group = weight.shape[1]
    ci = te.reduce_axis(dim_of(dim_expr(x.shape[1]) // groups), name="ci")
    names = SPATIAL[-rank:]
    taps = [te.reduce_axis(k, name=f"k{a}") for a, k in zip(names, kernel, strict=True)]

    def element(n: Expr, co: Expr, position: Sequence[Expr]) -> Expr:
        group = co // divisor(per_group)
        channel = ci if groups == 1 else group * (dim_expr(x.shape[1]) // groups) + ci
        shifted = [
            p + low - k * d
            for p, (low, _), k, d in zip(position, around, taps, spread, strict=True)
        ]
        source = [i // s for i, s in zip(shifted, step, strict=True)]
        where = [i % s == 0 for i, s in zip(shifted, step, strict=True) if s > 1]
        for i, extent in zip(source, extents, strict=True):
            where += [i >= 0, i < dim_expr(extent)]
        out = co if groups == 1 else co % divisor(per_group)
        product = x[(n, channel, *source)] * weight[(channel, out, *taps)]
        return te.sum(product, axis=[ci, *taps], where=te.all_of(*where))

    return (x.shape[0], dim_of(dim_expr(per_group) * groups), *spatial), element


def _taken_off(
    operator: str,
    padding: object,
    weight: Tensor,
    step: Sequence[int],
    spread: Sequence[int],
    extra: tuple[int, ...],
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """What is taken off the output on both sides of each axis, and what is added at its end."""
    if not isinstance(padding, str) or padding not in ("same_upper", "same_lower"):
        return sides(operator, padding, len(step)), extra
    around, added = [], []
    for k, s, d, e in zip(weight.shape[2:], step, spread, extra, strict=True):
        if not isinstance(k, int):
            raise ShapeError(
                f"{operator}: padding {padding!r} of the symbolic kernel "
                f"{format_shape(weight.shape)}.",
                hint="give the padding as integers.",
            )
        surplus = d * (k - 1) + 1 + e - s
        low, high = max(surplus, 0) // 2, -(-max(surplus, 0) // 2)
        around.append((low, high) if padding == "same_upper" else (high, low))
        added.append(e + max(-surplus, 0))
    return tuple(around), tuple(added)


def _transposed_extent(
    operator: str, extent: Dim, kernel: Dim, stride: int, dilation: int, extra: int
) -> Dim:
    """(extent - 1)*stride + dilation*(kernel - 1) + 1 + extra."""
    reach = dilation * (dim_expr(kernel) - 1) + 1
    result = dim_of((dim_expr(extent) - 1) * stride + reach + extra)
    if isinstance(result, int) and result < 0:
        raise ShapeError(
            f"{operator}: the padding leaves {result} elements of an axis of the output.",
            hint="use less padding.",
        )
    return result


def _check_transposed_channels(operator: str, x: Tensor, weight: Tensor, given: object) -> int:
    """The number of groups, which divides the channels."""
    groups = check_integer(operator, "groups", given, 1, _ONE_GROUP)
    channels, expected = x.shape[1], weight.shape[0]
    numbers = isinstance(channels, int) and isinstance(expected, int)
    if numbers and (channels != expected or channels % groups):
        spatial = "height, width" if operator == "conv2d_transpose" else "kernel..."
        raise ShapeError(
            f"{operator}: {x.name} has {channels} channels, but {weight.name} of shape "
            f"{format_shape(weight.shape)} with groups={groups} needs {expected}"
            f"{f', a multiple of {groups}' if groups > 1 else ''}.",
            hint=f"weights have shape (channels, out / groups, {spatial}).",
        )
    return groups
