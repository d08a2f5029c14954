"""Losses: 0-d means over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad import te
from tensorad.ir.arrays.elementwise import broadcast_read, broadcast_shapes
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.topi import math, reduction
from tensorad.topi.arguments import check_number, check_positive, check_scalar
from tensorad.topi.checks import check_equal, check_same, check_tensor
from tensorad.topi.definition import define
from tensorad.topi.nn.normalization import log_softmax


def nll_loss(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """0-d mean of -log_probabilities[i, targets[i]]; targets are integers, shape (n,)."""
    log_probabilities = check_tensor("nll_loss", "log_probabilities", log_probabilities, 2)
    targets = check_tensor("nll_loss", "targets", targets, 1)
    check_equal("nll_loss", "the batches of log_probabilities and targets",
                log_probabilities.shape[0], targets.shape[0])  # fmt: skip
    picked: Tensor = te.compute(
        targets.shape, lambda i: -log_probabilities[i, targets[i]], name="nll"
    )
    return reduction.mean(picked)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """0-d mean of -log_softmax(logits)[i, targets[i]]."""
    return nll_loss(log_softmax(logits), targets)


def mse_loss(x: Tensor, target: Tensor) -> Tensor:
    """0-d mean of (x - target)^2; shapes broadcast."""
    return _mean_of("mse_loss", x, target, lambda d: d * d)


def l1_loss(x: Tensor, target: Tensor) -> Tensor:
    """0-d mean of |x - target|; shapes broadcast."""
    return _mean_of("l1_loss", x, target, te.abs)


def smooth_l1_loss(x: Tensor, target: Tensor, beta: float = 1.0) -> Tensor:
    """0-d mean of d^2/(2 beta) where |d| < beta, otherwise |d| - beta/2, with d = x - target.

    Raises:
        DefinitionError: beta is not positive.
    """
    beta = check_positive("smooth_l1_loss", "beta", beta)
    half = 0.5 / beta

    def formula(d: Expr) -> Expr:
        value: Expr = te.select(te.abs(d) < beta, d * d * half, te.abs(d) - 0.5 * beta)
        return value

    return _mean_of("smooth_l1_loss", x, target, formula)


def binary_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """0-d mean of -(t*log(s) + (1 - t)*log(1 - s)) with s = sigmoid(logits); no overflow."""
    return _mean_pair("binary_cross_entropy", logits, target, _binary_cross_entropy)


def focal_loss(logits: Tensor, target: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """0-d mean of alpha_t * (1 - p_t)^gamma * binary cross entropy (Lin et al. 2017, eq. 5).

    Args:
        logits, target: shapes broadcast; target is 0 or 1.
    """
    alpha = check_number("focal_loss", "alpha", alpha)
    gamma = check_number("focal_loss", "gamma", gamma)

    def formula(v: Expr, t: Expr) -> Expr:
        p = te.sigmoid(v)
        missed = p + t - 2.0 * p * t  # 1 - p_t
        weight = alpha * t + (1.0 - alpha) * (1.0 - t)
        power = te.pow(missed, gamma)
        if gamma % 1:  # derivatives of 0**gamma are infinite, and missed is 0 far from v = 0
            power = te.select(missed > 0, power, 0.0)
        loss: Expr = weight * power * _binary_cross_entropy(v, t)
        return loss

    return _mean_pair("focal_loss", logits, target, formula)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, epsilon: float = 1e-6
) -> Tensor:
    """0-d mean of max(0, |a - p| - |a - n| + margin), Euclidean along the last axis.

    Args:
        anchor, positive, negative: shape (batch, features).
        epsilon: added to every difference.
    """
    operator = "triplet_margin_loss"
    anchor = check_tensor(operator, "anchor", anchor, 2)
    margin = check_scalar(operator, "margin", margin)
    epsilon = check_scalar(operator, "epsilon", epsilon)
    positive = check_tensor(operator, "positive", positive, 2)
    negative = check_tensor(operator, "negative", negative, 2)
    for t in (positive, negative):
        for d in range(2):
            check_same(operator, anchor, d, t, d)

    def distance(other: Tensor) -> Tensor:
        shifted: Tensor = te.compute(
            anchor.shape, lambda i, j: anchor[i, j] - other[i, j] + epsilon, name="difference"
        )
        return math.sqrt(reduction.sum(math.square(shifted), 1))

    near, far = distance(positive), distance(negative)
    zero = te.const(0, anchor.dtype)
    hinge: Tensor = te.compute(
        near.shape, lambda i: te.maximum(zero, near[i] - far[i] + margin), name="hinge"
    )
    return reduction.mean(hinge)


def kl_div(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """0-d sum of t * (log(t) - log p) over all but the first axis, mean over it; 0*log(0) = 0."""

    def formula(q: Expr, t: Expr) -> Expr:
        value: Expr = te.select(t > 0, t * (te.log(t) - q), t * 0.0)
        return value

    terms = _pair("kl_div", log_probabilities, target, formula)
    batch = dim_expr(terms.shape[0] if terms.ndim else 1).astype(terms.dtype)
    total = reduction.sum(terms)
    return define((), lambda: total[()] / batch, "kl_div")


_binary_cross_entropy: Final = te.scalar_function(
    lambda v, t: te.maximum(v, 0.0) - v * t + te.log1p(te.exp(-te.abs(v))),
    partials=lambda y, v, t: (te.sigmoid(v) - t, -v),
    name="binary_cross_entropy",
)
"""Of a logit and a target: smooth, though maximum and abs, which keep it finite, are not."""


def _pair(name: str, x: Tensor, target: Tensor, formula: Callable[[Expr, Expr], Expr]) -> Tensor:
    x = check_tensor(name, "x", x)
    target = check_tensor(name, "target", target)
    shape = broadcast_shapes(name, x.shape, target.shape)
    return define(
        shape,
        lambda *i: formula(broadcast_read(x, i), broadcast_read(target, i).astype(x.dtype)),
        name,
    )


def _mean_pair(
    name: str, x: Tensor, target: Tensor, formula: Callable[[Expr, Expr], Expr]
) -> Tensor:
    return reduction.mean(_pair(name, x, target, formula))


def _mean_of(name: str, x: Tensor, target: Tensor, formula: Callable[[Expr], Expr]) -> Tensor:
    return _mean_pair(name, x, target, lambda v, t: formula(v - t))
