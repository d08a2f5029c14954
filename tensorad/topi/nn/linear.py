"""Affine maps: dense layers and biases."""

from __future__ import annotations

from tensorad import te
from tensorad.ir.tensor import Tensor
from tensorad.topi import transform
from tensorad.topi.checks import check_equal, check_same, check_tensor, normalize_axis
from tensorad.topi.definition import define


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[i, j] = sum_k x[i, k] * weight[j, k] (+ bias[j]).

    Args:
        x: shape (batch, in).
        weight: shape (out, in).
        bias: shape (out,).
    Raises:
        ShapeError: the extents do not fit.
    """
    x = check_tensor("dense", "x", x, 2)
    weight = check_tensor("dense", "weight", weight, 2)
    check_equal(
        "dense", f"the last axes of {x.name} and {weight.name}", x.shape[1], weight.shape[1]
    )
    k = te.reduce_axis(x.shape[1], name="k")
    product: Tensor = te.compute(
        (x.shape[0], weight.shape[0]),
        lambda i, j: te.sum(x[i, k] * weight[j, k], axis=k),
        name="dense",
    )
    if bias is None:
        return product
    bias = check_tensor("dense", "bias", bias, 1)
    check_equal(
        "dense", f"the rows of {weight.name} and {bias.name}", weight.shape[0], bias.shape[0]
    )
    return define(product.shape, lambda i, j: product[i, j] + bias[j], "dense")


def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x + bias along one axis."""
    x = check_tensor("bias_add", "x", x)
    bias = check_tensor("bias_add", "bias", bias, 1)
    along = normalize_axis("bias_add", axis, x.ndim)
    check_same("bias_add", x, along, bias, 0)
    return define(x.shape, lambda *i: x[i] + bias[i[along]], "bias_add")


def flatten(x: Tensor) -> Tensor:
    """(n, a, b, ...) -> (n, a*b*...)."""
    return transform.flatten(x)
