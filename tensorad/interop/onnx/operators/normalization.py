"""Normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value, dtype_of
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define


def batch_norm(call: Call) -> list[Value]:
    """By moments that are given, one for each channel; in training mode by those of the batch."""
    x, scale, shift, mean, variance = (call.tensor(n) for n in range(5))
    if x.ndim < 2:
        raise OnnxError(f"its input {format_shape(x.shape)} has no axis of channels.")
    epsilon = call.number("epsilon", 1e-5)
    if not call.flag("training_mode", False):
        return [topi.nn.batch_norm(x, scale, shift, mean, variance, 1, epsilon)]
    rest = tuple([d for d in range(x.ndim) if d != 1])
    own_mean, own_variance = topi.mean(x, rest), topi.variance(x, rest)
    keep = call.number("momentum", 0.9)
    return [
        topi.nn.batch_norm(x, scale, shift, own_mean, own_variance, 1, epsilon),
        mean * keep + own_mean * (1.0 - keep),
        variance * keep + own_variance * (1.0 - keep),
    ]


def layer_norm(call: Call) -> list[Value]:
    """Over all axes from one on; also the means, and one divided by the deviations."""
    x = call.tensor(0)
    first = axis_of(call.integer("axis", -1), x.ndim)
    axes = tuple(range(first, x.ndim))
    epsilon = call.number("epsilon", 1e-5)
    mean = topi.mean(x, axes, keepdims=True)
    variance = topi.variance(x, axes, keepdims=True, mean_of=mean)
    inverse = define(
        variance.shape, lambda *i: te.rsqrt(variance[i] + epsilon), "inverse_deviation"
    )
    made = topi.multiply(_scaled_distance(x, mean, inverse, first), call.tensor(1))
    if call.has(2):
        made = topi.add(made, call.tensor(2))
    if not (call.wants(1) or call.wants(2)):
        return [made]
    stash = str(dtype_of(call.integer("stash_type", 1)))
    return [made, mean.astype(stash), inverse.astype(stash)]


def _scaled_distance(x: Tensor, mean: Tensor, inverse: Tensor, first: int) -> Tensor:
    def body(*i: Expr) -> Expr:
        at = tuple([k if d < first else 0 for d, k in enumerate(i)])
        value: Expr = (x[i] - mean[at]) * inverse[at]
        return value

    return define(x.shape, body, "layer_norm")


def rms_norm(call: Call) -> Value:
    """x divided by the root of the mean of its squares over all axes from one on."""
    x = call.tensor(0)
    first = axis_of(call.integer("axis", -1), x.ndim)
    power = topi.mean(topi.square(x), tuple(range(first, x.ndim)), keepdims=True)
    epsilon = call.number("epsilon", 1e-5)

    def body(*i: Expr) -> Expr:
        at = tuple([k if d < first else 0 for d, k in enumerate(i)])
        return x[i] * te.rsqrt(power[at] + epsilon)

    return topi.multiply(define(x.shape, body, "rms_norm"), call.tensor(1))


def group_norm(call: Call) -> Value:
    """Over the channels of a group, and what lies behind them."""
    x, scale, shift = (call.tensor(n) for n in range(3))
    groups = call.integer("num_groups", 0)
    channels = x.shape[1] if x.ndim > 2 else 0
    if groups < 1 or not isinstance(channels, int) or channels % groups or not channels:
        raise OnnxError(f"{channels} channels do not divide into {groups} groups.")
    return topi.nn.group_norm(x, groups, scale, shift, call.number("epsilon", 1e-5))


def instance_norm(call: Call) -> Value:
    """Over all axes behind the channels."""
    x, scale, shift = (call.tensor(n) for n in range(3))
    return topi.nn.instance_norm(x, scale, shift, call.number("epsilon", 1e-5))


def lrn(call: Call) -> Value:
    """Divided by a power of a sum of squares of neighbouring channels."""
    return topi.nn.lrn(
        call.tensor(0), call.integer("size", 0), 1, call.number("bias", 1.0),
        call.number("alpha", 1e-4), call.number("beta", 0.75),
    )  # fmt: skip


def lp_normalize(call: Call) -> Value:
    """Divided by the sum of absolute values, or the root of that of squares, along an axis."""
    x = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), x.ndim)
    p = call.integer("p", 2)
    if p not in (1, 2):
        raise OnnxError(f"p must be 1 or 2, not {p}.")
    if p == 1:
        norm = topi.sum(topi.abs(x), axis, keepdims=True)
    else:
        norm = topi.sqrt(topi.sum(topi.square(x), axis, keepdims=True))
    nothing = te.const(0, x.dtype)

    def body(*i: Expr) -> Expr:
        of = norm[tuple([0 if d == axis else k for d, k in enumerate(i)])]
        chosen: Expr = te.select(of == 0.0, nothing, x[i] / of)
        return chosen

    return define(x.shape, body, "lp_normalize")


HANDLERS: Final[Mapping[str, Handler]] = {
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LRN": lrn,
    "LpNormalization": lp_normalize,
}
