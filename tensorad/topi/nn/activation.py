"""Activations: one function of every element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad import te
from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi import math
from tensorad.topi.arguments import (
    check_flag,
    check_number,
    check_positive,
    check_scalar,
    check_word,
)
from tensorad.topi.checks import check_same, check_tensor, normalize_axis
from tensorad.topi.definition import define


def relu(x: Tensor) -> Tensor:
    """max(0, x); derivative 0 at 0."""
    x = check_tensor("relu", "x", x)
    zero = te.const(0, x.dtype)
    return define(x.shape, lambda *i: te.maximum(zero, x[i]), "relu")


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x where x > 0, otherwise alpha * x; derivative alpha at 0."""
    x = check_tensor("leaky_relu", "x", x)
    alpha = check_scalar("leaky_relu", "alpha", alpha)
    return define(x.shape, lambda *i: te.select(x[i] > 0, x[i], x[i] * alpha), "leaky_relu")


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where x > 0, otherwise slope[channel] * x."""
    x = check_tensor("prelu", "x", x)
    slope = check_tensor("prelu", "slope", slope, 1)
    along = normalize_axis("prelu", axis, x.ndim)
    check_same("prelu", x, along, slope, 0)
    return define(x.shape, lambda *i: te.select(x[i] > 0, x[i], x[i] * slope[i[along]]), "prelu")


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return math.sigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return math.tanh(x)


def relu6(x: Tensor) -> Tensor:
    """min(6, max(0, x)); derivative 0 at 0 and at 6."""
    return math.clip(x, 0.0, 6.0)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, otherwise alpha * (exp(x) - 1) (Clevert et al. 2015)."""
    alpha = check_scalar("elu", "alpha", alpha)
    return _pointwise("elu", x, lambda v: te.select(v > 0, v, te.expm1(v) * alpha))


def selu(x: Tensor) -> Tensor:
    """The self-normalising elu (Klambauer et al. 2017)."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return _pointwise(
        "selu", x, lambda v: te.select(v > 0, v * scale, te.expm1(v) * (scale * alpha))
    )


def gelu(x: Tensor, approximate: bool | str = False) -> Tensor:
    """x * Phi(x) with the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        approximate: False or "none": Phi itself; True or "tanh": Phi through
            tanh(sqrt(2/pi) * (x + 0.044715 x^3)).
    Raises:
        DefinitionError: approximate is something else.
    """
    words = {"none": False, "tanh": True}
    if isinstance(approximate, str):
        check_word("gelu", "approximate", approximate, tuple(words), "True and False do, too.")
        approximate = words[approximate]
    if check_flag("gelu", "approximate", approximate):
        return _pointwise("gelu", x, lambda v: 0.5 * v * (1.0 + te.tanh(_gelu_inner(v))))
    return _pointwise("gelu", x, lambda v: 0.5 * v * (1.0 + te.erf(v * 0.7071067811865476)))


def _gelu_inner(v: Expr) -> Expr:
    """sqrt(2/pi) * (v + 0.044715 v^3), or less where its tanh is 1 or -1 anyway.

    An infinite square would be the derivative's factor beside the 0 of that tanh.
    """
    square = te.minimum(v * v, 81.0)
    inner: Expr = 0.7978845608028654 * v * (1.0 + 0.044715 * square)
    return inner


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return _pointwise("silu", x, lambda v: v * te.sigmoid(v))


_softplus: Final = te.scalar_function(
    lambda x: te.maximum(0.0, x) + te.log1p(te.exp(-te.abs(x))),
    partials=lambda y, x: te.sigmoid(x),
    name="softplus",
)
"""log(1 + exp(x)): smooth, though maximum and abs, which keep it from overflowing, are not."""


def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, without overflow.

    Raises:
        DefinitionError: beta is not positive.
    """
    beta = check_positive("softplus", "beta", beta)
    return _pointwise("softplus", x, lambda v: _softplus(v * beta) * (1.0 / beta))


_log_sigmoid: Final = te.scalar_function(
    lambda x: te.minimum(0.0, x) - te.log1p(te.exp(-te.abs(x))),
    partials=lambda y, x: te.sigmoid(-x),
    name="log_sigmoid",
)


def log_sigmoid(x: Tensor) -> Tensor:
    """log(1 / (1 + exp(-x))), without overflow."""
    return _pointwise("log_sigmoid", x, _log_sigmoid)


def hard_sigmoid(x: Tensor, alpha: float = 1.0 / 6, beta: float = 0.5) -> Tensor:
    """clip(alpha * x + beta, 0, 1); derivative 0 at both ends, by default -3 and 3.

    ONNX's HardSigmoid has alpha=0.2 where none is given.
    """
    alpha = check_scalar("hard_sigmoid", "alpha", alpha)
    beta = check_scalar("hard_sigmoid", "beta", beta)
    return _pointwise("hard_sigmoid", x, lambda v: _clipped(v * alpha + beta))


def _clipped(v: Expr) -> Expr:
    """min(1, max(0, v)); at both ends the bound wins."""
    inside: Expr = te.minimum(1.0, te.maximum(0.0, v))
    return inside


def hard_swish(x: Tensor) -> Tensor:
    """x * clip(x / 6 + 1/2, 0, 1); derivative 0 at -3, 1 at 3 (Howard et al. 2019, section 5.2)."""
    return _pointwise("hard_swish", x, lambda v: v * _clipped(v * (1.0 / 6) + 0.5))


def mish(x: Tensor) -> Tensor:
    """x * tanh(log(1 + exp(x))), without overflow (Misra 2019)."""
    return _pointwise("mish", x, lambda v: v * te.tanh(_softplus(v)))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, otherwise alpha * (exp(x / alpha) - 1): slope 1 at 0 (Barron 2017).

    Raises:
        DefinitionError: alpha is not positive.
    """
    alpha = check_positive("celu", "alpha", alpha)
    return _pointwise("celu", x, lambda v: te.select(v > 0, v, te.expm1(v * (1.0 / alpha)) * alpha))


def dropout(x: Tensor, mask: Tensor, rate: float = 0.5) -> Tensor:
    """x / (1 - rate) where the mask holds, otherwise 0: dropout with the caller's random mask.

    Args:
        mask: shape of x; booleans, or numbers of which 0 drops.
        rate: the share of elements the mask drops, in [0, 1).
    Raises:
        DefinitionError: another rate.
        ShapeError: shapes differ.
    """
    x = check_tensor("dropout", "x", x)
    mask = check_tensor("dropout", "mask", mask, x.ndim)
    for d in range(x.ndim):
        check_same("dropout", x, d, mask, d)
    rate = check_number("dropout", "rate", rate)
    if not 0 <= rate < 1:
        raise DefinitionError(
            f"dropout: rate must be in [0, 1), got {rate}.",
            hint="it is the share of elements that are dropped.",
        )
    scale = 1.0 / (1.0 - rate)

    def body(*i: Expr) -> Expr:
        kept: Expr = mask[i] if mask.dtype is BOOL else mask[i] != 0
        result: Expr = te.select(kept, x[i] * scale, te.const(0, x.dtype))
        return result

    return define(x.shape, body, "dropout")


def _pointwise(name: str, x: Tensor, function: Callable[[Expr], Expr]) -> Tensor:
    x = check_tensor(name, "x", x)
    return define(x.shape, lambda *i: function(x[i]), name)
