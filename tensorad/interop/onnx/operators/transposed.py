"""Transposed convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad import topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.convolution import (
    kernel_of,
    numbers,
    padding,
    per_axis,
)
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.tensor import Tensor

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


HANDLERS: Final[Mapping[str, Handler]] = {"ConvTranspose": conv_transpose}
