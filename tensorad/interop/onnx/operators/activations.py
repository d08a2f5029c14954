"""Activations: one function of every element, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define


def _of(function: Callable[[Tensor], Tensor]) -> Handler:
    return lambda call: function(call.tensor(0))


def pointwise(name: str, x: Tensor, function: Callable[[Expr], Any]) -> Tensor:
    """A formula of every element."""
    return define(x.shape, lambda *i: function(x[i]), name)


def leaky_relu(call: Call) -> Value:
    """x where it is positive, otherwise alpha * x."""
    return topi.nn.leaky_relu(call.tensor(0), call.number("alpha", 0.01))


def prelu(call: Call) -> Value:
    """x where it is positive, otherwise slope * x."""
    x, slope = call.tensor(0), call.tensor(1)
    return topi.where(topi.less(x, te.const(0, x.dtype)), topi.multiply(x, slope), x)


def elu(call: Call) -> Value:
    """x where it is positive, otherwise alpha * (exp(x) - 1)."""
    return topi.nn.elu(call.tensor(0), call.number("alpha", 1.0))


def selu(call: Call) -> Value:
    """gamma times elu."""
    alpha = call.number("alpha", 1.6732632423543772)
    gamma = call.number("gamma", 1.0507009873554805)
    return pointwise(
        "selu",
        call.tensor(0),
        lambda v: te.select(v > 0, v * gamma, te.expm1(v) * (alpha * gamma)),
    )


def hard_sigmoid(call: Call) -> Value:
    """alpha * x + beta between 0 and 1."""
    return topi.nn.hard_sigmoid(call.tensor(0), call.number("alpha", 0.2), call.number("beta", 0.5))


def celu(call: Call) -> Value:
    """x where it is positive, otherwise alpha * (exp(x / alpha) - 1)."""
    return topi.nn.celu(call.tensor(0), call.number("alpha", 1.0))


def gelu(call: Call) -> Value:
    """x * Phi(x), or by tanh."""
    return topi.nn.gelu(call.tensor(0), call.word("approximate", "none", ("none", "tanh")))


def thresholded_relu(call: Call) -> Value:
    """x where it is above alpha, otherwise 0."""
    alpha = call.number("alpha", 1.0)
    return pointwise("thresholded_relu", call.tensor(0), lambda v: te.select(v > alpha, v, v * 0.0))


def softsign(call: Call) -> Value:
    """x / (1 + |x|)."""
    return pointwise("softsign", call.tensor(0), lambda v: v / (1.0 + te.abs(v)))


def swish(call: Call) -> Value:
    """x * sigmoid(alpha * x)."""
    alpha = call.number("alpha", 1.0)
    return pointwise("swish", call.tensor(0), lambda v: v * te.sigmoid(v * alpha))


def swiglu(call: Call) -> Value:
    """a * sigmoid(alpha * a) * b."""
    a, b = call.tensor(0), call.tensor(1)
    alpha = call.number("alpha", 1.0)
    if len(a.shape) != len(b.shape) or not all(map(same_dim, a.shape, b.shape)):
        raise OnnxError(f"{format_shape(a.shape)} and {format_shape(b.shape)} differ.")
    return define(a.shape, lambda *i: a[i] * te.sigmoid(a[i] * alpha) * b[i], "swiglu")


def softmax(call: Call) -> Value:
    """exp(x) divided by its sum along an axis, or the logarithm of that."""
    x = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), x.ndim)
    log = call.node.operator == "LogSoftmax"
    return (topi.nn.log_softmax if log else topi.nn.softmax)(x, axis)


def hardmax(call: Call) -> Value:
    """1 at the first of the largest elements along an axis, otherwise 0."""
    x = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), x.ndim)
    place = topi.argmax(x, axis, keepdims=True)
    one, zero = te.const(1, x.dtype), te.const(0, x.dtype)

    def body(*i: Expr) -> Expr:
        at = tuple([0 if d == axis else k for d, k in enumerate(i)])
        chosen: Expr = te.select(place[at] == i[axis], one, zero)
        return chosen

    return define(x.shape, body, "hardmax")


HANDLERS: Final[Mapping[str, Handler]] = {
    "Relu": _of(topi.nn.relu),
    "Sigmoid": _of(topi.sigmoid),
    "Softplus": _of(topi.nn.softplus),
    "Softsign": softsign,
    "Swish": swish,
    "SwiGLU": swiglu,
    "LeakyRelu": leaky_relu,
    "PRelu": prelu,
    "Elu": elu,
    "Selu": selu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": _of(topi.nn.hard_swish),
    "Mish": _of(topi.nn.mish),
    "Celu": celu,
    "Gelu": gelu,
    "ThresholdedRelu": thresholded_relu,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": hardmax,
}
