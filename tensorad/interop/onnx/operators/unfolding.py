"""Parts of images put back where windows took them, elements in order, and determinants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.convolution import kernel_of, numbers, padding, per_axis
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.operators.shapes import Cut, cut
from tensorad.interop.onnx.values import Value, check_extents
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define

_TRANSPOSED: Final = {
    1: topi.nn.conv1d_transpose, 2: topi.nn.conv2d_transpose, 3: topi.nn.conv3d_transpose,
}  # fmt: skip


def conv_transpose(call: Call) -> Value:
    """The transpose of a convolution over one, two or three axes."""
    x, weight = call.tensor(0), call.tensor(1)
    rank = x.ndim - 2
    kernel = kernel_of(call, x, weight)
    step, spread = per_axis(call, "strides", rank), per_axis(call, "dilations", rank)
    added = call.integers("output_padding") or (0,) * rank
    if len(added) != rank or min(added) < 0:
        raise OnnxError(f"output_padding {added} are not {rank} integers >= 0.")
    around: object
    if call.attribute("output_shape") is not None:
        reach = [d * (k - 1) + 1 + e for k, d, e in zip(kernel, spread, added, strict=True)]
        around, added = _to_shape(call, x, step, reach, added)
    elif (rule := call.word("auto_pad", "NOTSET")) in ("SAME_UPPER", "SAME_LOWER"):
        around = rule.lower()
    else:
        sides = padding(call, x.shape[2:], kernel, step, spread)
        around = (*[a for a, _ in sides], *[b for _, b in sides])
    made = _TRANSPOSED[rank](x, weight, step, around, added, spread, call.integer("group", 1))
    return topi.nn.bias_add(made, call.tensor(2), 1) if call.has(2) else made


def _to_shape(
    call: Call, x: Tensor, step: Sequence[int], reach: Sequence[int], added: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is taken off on both sides, and what is added, so that the output has its shape."""
    extents = numbers(x.shape[2:], "with output_shape the extents of its input")
    wanted = (call.integers("output_shape") or ())[-len(extents) :]
    if len(wanted) != len(extents) or min(wanted) < 0:
        raise OnnxError(f"output_shape {wanted} are not {len(extents)} integers >= 0.")
    totals = [(n - 1) * s + r - m for n, s, r, m in zip(extents, step, reach, wanted, strict=True)]
    half = [max(t, 0) // 2 for t in totals]
    rest = [max(t, 0) - h for t, h in zip(totals, half, strict=True)]
    more = tuple([e + max(-t, 0) for e, t in zip(added, totals, strict=True)])
    upper = call.word("auto_pad", "NOTSET") == "SAME_UPPER"
    return ((*half, *rest) if upper else (*rest, *half)), more


_LARGEST: Final = 64
"""Rows of a matrix whose determinant is taken: for each there is a step of elimination."""
_FAR: Final = 2**31


def _pads(call: Call, rank: int) -> tuple[int, ...]:
    given = call.integers("pads") or (0,) * (2 * rank)
    if len(given) != 2 * rank or not 0 <= min(given) <= max(given) < _FAR:
        raise OnnxError(f"pads {given} are not {2 * rank} integers >= 0.")
    return given


def max_unpool(call: Call) -> Value:
    """Elements put to where a pooling found them; there is 0 around them."""
    x, places = call.tensor(0), call.tensor(1)
    rank = x.ndim - 2
    if rank < 1 or places.shape != x.shape:
        raise OnnxError(
            f"places {format_shape(places.shape)} are not one for each of {format_shape(x.shape)}."
        )
    kernel, step = per_axis(call, "kernel_shape", rank), per_axis(call, "strides", rank)
    pads = _pads(call, rank)
    own = numbers(x.shape, "the extents of its input")
    inner = [
        (n - 1) * step[d] + kernel[d] - pads[d] - pads[d + rank] for d, n in enumerate(own[2:])
    ]
    shape = (*own[:2], *inner)
    check_extents("its output", shape)
    nothing = topi.full((prod(shape),), 0, x.dtype)
    flat = topi.reshape(x, (prod(own),))
    put = topi.scatter_elements(nothing, topi.reshape(places, flat.shape), flat, 0, "set")
    made = topi.reshape(put, shape)
    if not call.has(2):
        return made
    wanted = call.whole(2)
    check_extents("its output", wanted)
    if len(wanted) != len(shape) or any(m < n for m, n in zip(wanted, shape, strict=True)):
        raise OnnxError(f"output_shape {wanted} has no place for {shape}.")
    after = [m - n for m, n in zip(wanted, shape, strict=True)]
    return topi.pad(made, [0] * len(shape), after)


def col2im(call: Call) -> Value:
    """Blocks as columns added up to images."""
    x, image, block = call.tensor(0), call.whole(1), call.whole(2)
    rank = len(image)
    if not rank or len(block) != rank or min(*image, *block) < 1 or max(*image, *block) >= _FAR:
        raise OnnxError(f"blocks {block} and an image {image} do not belong together.")
    step, spread = per_axis(call, "strides", rank), per_axis(call, "dilations", rank)
    pads = _pads(call, rank)
    wide = [n + pads[d] + pads[d + rank] for d, n in enumerate(image)]
    counts = [(n - spread[d] * (block[d] - 1) - 1) // step[d] + 1 for d, n in enumerate(wide)]
    rows = x.shape[1] if x.ndim == 3 else None
    if (
        not isinstance(rows, int)
        or rows % prod(block)
        or min(counts) < 1
        or x.shape[2] != prod(counts)
    ):
        raise OnnxError(
            f"{format_shape(x.shape)} are no columns of blocks {block} of an image {image}."
        )
    channels = rows // prod(block)
    shape = (x.shape[0], channels, *wide)
    check_extents("its output", shape)

    def place(n: Expr, c: Expr, *at: Expr) -> tuple[tuple[Expr, ...], Expr]:
        taps, blocks = at[:rank], at[rank:]
        row, column = c, blocks[0] * 0
        for d in range(rank):
            row, column = row * block[d] + taps[d], column * counts[d] + blocks[d]
        where = [blocks[d] * step[d] + taps[d] * spread[d] for d in range(rank)]
        return (n, c, *where), x[n, row, column]

    made = te.scatter(shape, (x.shape[0], channels, *block, *counts), place, name="col2im")
    cuts = {
        d + 2: Cut(wide[d], pads[d], pads[d] + n, 1) for d, n in enumerate(image) if wide[d] != n
    }
    return cut(made, cuts) if cuts else made


def top_k(call: Call) -> list[Value]:
    """The largest or smallest elements along an axis, and their positions."""
    x = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), x.ndim)
    told = call.extents(1)
    if len(told) != 1:
        raise OnnxError(f"its input 1 has {len(told)} elements, not one.")
    call.flag("sorted", True)
    return list(topi.top_k(x, told[0], axis, call.flag("largest", True)))


def determinant(call: Call) -> Value:
    """Of the last two axes, by elimination with the largest pivot of each column."""
    x = call.tensor(0)
    n = x.shape[-1] if x.ndim >= 2 else None
    if not isinstance(n, int) or x.shape[-2] != n or not n <= _LARGEST:
        raise OnnxError(
            f"{format_shape(x.shape)} are no square matrices of at most {_LARGEST} rows."
        )
    batch = x.shape[:-2]
    found: Tensor = topi.full(batch, 1.0, x.dtype)
    for left in range(n, 0, -1):
        found, x = _eliminated(x, found, left)
    return found


def _eliminated(x: Tensor, found: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The determinant times a pivot, and matrices without its row and the first column."""
    batch, lead = x.shape[:-2], x.ndim - 2

    def largest(*i: Expr) -> Expr:
        k = te.reduce_axis(n, name="k")
        return te.argmax(te.abs(x[(*i, k, 0)]), axis=k)

    pivot = define(batch, largest, "pivot")

    def times(*i: Expr) -> Expr:
        value = x[(*i, pivot[i], 0)] * found[i]
        chosen: Expr = te.select(pivot[i] == 0, value, -value)
        return chosen

    def rest(*at: Expr) -> Expr:
        i, row, column = at[:lead], at[lead] + 1, at[lead + 1] + 1
        p = pivot[i]
        own: Expr = te.select(row == p, 0, row)  # the first row takes the pivot's place
        head = x[(*i, p, 0)]
        share = te.select(head == 0.0, te.const(0, x.dtype), x[(*i, own, 0)] / head)
        value: Expr = x[(*i, own, column)] - share * x[(*i, p, column)]
        return value

    return define(batch, times, "determinant"), define((*batch, n - 1, n - 1), rest, "eliminated")


HANDLERS: Final[Mapping[str, Handler]] = {
    "ConvTranspose": conv_transpose,
    "MaxUnpool": max_unpool,
    "Col2Im": col2im,
    "TopK": top_k,
    "Det": determinant,
}
