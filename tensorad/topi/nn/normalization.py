"""Softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.arrays.elementwise import broadcast_read
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr, format_shape
from tensorad.topi import math, reduction, transform
from tensorad.topi.arguments import check_integer, check_number, check_scalar
from tensorad.topi.checks import (
    check_equal,
    check_optional,
    check_same,
    check_tensor,
    normalize_axes,
    normalize_axis,
)
from tensorad.topi.definition import define
from tensorad.topi.reduction import Axes


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`, one division for each sum (at least 1)."""
    _, exps, sumexps = _shifted_exps("softmax", x, axis)
    inverse = te.compute(sumexps.shape, lambda *i: 1.0 / sumexps[i], name="inverse")
    return define(x.shape, lambda *i: exps[i] * broadcast_read(inverse, i), "softmax")


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`."""
    x = check_tensor("log_softmax", "x", x)
    largest, _, sumexps = _shifted_exps("log_softmax", x, axis)
    logs = math.log(sumexps)
    return define(
        x.shape,
        lambda *i: x[i] - broadcast_read(largest, i) - broadcast_read(logs, i),
        "log_softmax",
    )


def _shifted_exps(operator: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """(max, exp(x - max), the sum of these); the first and last with `axis` of extent 1."""
    x = check_tensor(operator, "x", x)
    along = normalize_axis(operator, axis, x.ndim)
    largest = reduction.max(x, along, keepdims=True)
    exps = te.compute(x.shape, lambda *i: te.exp(x[i] - broadcast_read(largest, i)), name="exps")
    return largest, exps, reduction.sum(exps, along, keepdims=True)


def layer_norm(
    x: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, moments over `axis`.

    Source: Ba, Kiros, Hinton, Layer Normalization (2016), section 3.

    Args:
        axis: one axis or several.
        scale, shift: shape of the normalised axes of x, in their order.
    Raises:
        ShapeError: scale or shift has another shape.
    """
    x = check_tensor("layer_norm", "x", x)
    over = normalize_axes("layer_norm", axis, x.ndim)
    epsilon = check_scalar("layer_norm", "epsilon", epsilon)
    scale = check_optional("layer_norm", "scale", scale, len(over))
    shift = check_optional("layer_norm", "shift", shift, len(over))
    for t in (scale, shift):
        if t is not None:
            for n, d in enumerate(over):
                check_same("layer_norm", x, d, t, n)
    return _normalize("layer_norm", x, over, over, scale, shift, epsilon)


def rms_norm(
    x: Tensor, scale: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5
) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * scale along one axis (Zhang and Sennrich 2019)."""
    x = check_tensor("rms_norm", "x", x)
    along = normalize_axis("rms_norm", axis, x.ndim)
    epsilon = check_scalar("rms_norm", "epsilon", epsilon)
    scale = check_optional("rms_norm", "scale", scale, 1)
    if scale is not None:
        check_same("rms_norm", x, along, scale, 0)
    power = reduction.mean(math.square(x), along, keepdims=True)

    def body(*i: Expr) -> Expr:
        value = x[i] * te.rsqrt(power[at_one(i, (along,))] + epsilon)
        return value if scale is None else value * scale[i[along]]

    return define(x.shape, body, "rms_norm")


def batch_norm(
    x: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift per channel.

    Source: Ioffe and Szegedy, Batch Normalization (2015), algorithm 1.

    Args:
        axis: of the channels.
        scale, shift, mean, variance: shape (channels,). Without mean and variance the moments
            of this batch are used (training).
    Raises:
        DefinitionError: only one of mean and variance is given.
        ShapeError: the number of channels differs.
    """
    x = check_tensor("batch_norm", "x", x)
    along = normalize_axis("batch_norm", axis, x.ndim)
    epsilon = check_scalar("batch_norm", "epsilon", epsilon)
    if (mean is None) is not (variance is None):
        raise DefinitionError(
            "batch_norm: mean and variance come together.",
            hint="give both (inference), or neither (moments of this batch).",
        )
    given = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    checked = [check_optional("batch_norm", name, t, 1) for name, t in given.items()]
    scale, shift, mean, variance = checked
    for t in checked:
        if t is not None:
            check_same("batch_norm", x, along, t, 0)
    if mean is None or variance is None:
        over = tuple(d for d in range(x.ndim) if d != along)
        return _normalize("batch_norm", x, over, (along,), scale, shift, epsilon)
    middle, spread = mean, variance

    def body(*i: Expr) -> Expr:
        channel = i[along]
        value = (x[i] - middle[channel]) * te.rsqrt(spread[channel] + epsilon)
        return _affine(value, (channel,), scale, shift)

    return define(x.shape, body, "batch_norm")


def group_norm(
    x: Tensor,
    groups: int,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Moments over the spatial axes and the channels of one group (Wu and He 2018).

    Args:
        x: shape (n, channels, ...); groups=channels is instance normalisation.
        scale, shift: shape (channels,).
    Raises:
        ShapeError: the channels do not divide into groups.
    """
    x = check_tensor("group_norm", "x", x)
    groups = check_integer("group_norm", "groups", groups)
    epsilon = check_scalar("group_norm", "epsilon", epsilon)
    channels = x.shape[1] if x.ndim > 1 else 0
    if not isinstance(channels, int) or groups < 1 or channels % groups or not channels:
        raise ShapeError(
            f"group_norm: {channels} channels of {x.name} do not divide into {groups} groups.",
            hint="axis 1 holds the channels; every group has equally many.",
        )
    scale = check_optional("group_norm", "scale", scale, 1)
    shift = check_optional("group_norm", "shift", shift, 1)
    for t in (scale, shift):
        if t is not None:
            check_equal(
                "group_norm", f"the channels of {x.name} and {t.name}", channels, t.shape[0]
            )
    size = channels // groups
    split = transform.reshape(x, (x.shape[0], groups, size, *x.shape[2:]))
    normal = _normalize("group_norm", split, tuple(range(2, split.ndim)), (), None, None, epsilon)

    def body(*i: Expr) -> Expr:
        n, c, *rest = i
        return _affine(normal[(n, c // size, c % size, *rest)], (c,), scale, shift)

    return define(x.shape, body, "group_norm")


def instance_norm(
    x: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, moments of each image's channels.

    Source: Ulyanov, Vedaldi, Lempitsky, Instance Normalization (2016); ONNX
    InstanceNormalization.

    Args:
        x: shape (n, channels, ...), moments over the axes from 2 on.
        scale, shift: shape (channels,).
    Raises:
        ShapeError: x has no spatial axis, or the number of channels differs.
    """
    x = check_tensor("instance_norm", "x", x)
    epsilon = check_scalar("instance_norm", "epsilon", epsilon)
    if x.ndim < 3:
        raise ShapeError(
            f"instance_norm: {x.name} {format_shape(x.shape)} has no spatial axis.",
            hint="x has a batch axis, channels and at least one more axis.",
        )
    scale = check_optional("instance_norm", "scale", scale, 1)
    shift = check_optional("instance_norm", "shift", shift, 1)
    for t in (scale, shift):
        if t is not None:
            check_same("instance_norm", x, 1, t, 0)
    return _normalize("instance_norm", x, tuple(range(2, x.ndim)), (1,), scale, shift, epsilon)


def l2_normalize(x: Tensor, axis: Axes = -1, epsilon: float = 1e-12) -> Tensor:
    """x / sqrt(max(sum(x^2), epsilon)) along `axis`."""
    x = check_tensor("l2_normalize", "x", x)
    over = normalize_axes("l2_normalize", axis, x.ndim)
    epsilon = check_scalar("l2_normalize", "epsilon", epsilon)
    power = reduction.sum(math.square(x), over, keepdims=True)
    return define(
        x.shape,
        lambda *i: x[i] * te.rsqrt(te.maximum(power[at_one(i, over)], epsilon)),
        "l2_normalize",
    )


def lrn(
    x: Tensor, size: int = 5, axis: int = 1, bias: float = 2.0, alpha: float = 1e-4,
    beta: float = 0.75,
) -> Tensor:  # fmt: skip
    """x / (bias + alpha/size * sum of x^2 over `size` neighbours)^beta (Krizhevsky et al. 2012).

    Args:
        size: odd number of neighbouring channels along `axis`, itself included.
    Raises:
        DefinitionError: size is even or not positive.
    """
    x = check_tensor("lrn", "x", x)
    along = normalize_axis("lrn", axis, x.ndim)
    size = check_integer("lrn", "size", size)
    if size < 1 or size % 2 == 0:
        raise DefinitionError(f"lrn: size must be odd and positive, got {size}.", hint="size=5.")
    bias, alpha, beta = (
        check_number("lrn", argument, value)
        for argument, value in (("bias", bias), ("alpha", alpha), ("beta", beta))
    )
    k = te.reduce_axis(size, name="k")

    def window(*i: Expr) -> Expr:
        at = i[along] + k - size // 2
        value = x[(*i[:along], at, *i[along + 1 :])]
        where = te.all_of(at >= 0, at < dim_expr(x.shape[along]))
        return te.sum(value * value, axis=k, where=where)

    powers: Tensor = te.compute(x.shape, window, name="lrn.squares")
    return define(
        x.shape, lambda *i: x[i] * te.pow(powers[i] * (alpha / size) + bias, -beta), "lrn"
    )


def _normalize(
    operator: str,
    x: Tensor,
    over: tuple[int, ...],
    named: tuple[int, ...],
    scale: Tensor | None,
    shift: Tensor | None,
    epsilon: float,
) -> Tensor:
    """x with mean 0 and variance 1 over axes; scale and shift are indexed by the named axes."""
    mean = reduction.mean(x, over, keepdims=True)
    variance = reduction.variance(x, over, keepdims=True, mean_of=mean)

    def body(*i: Expr) -> Expr:
        moment = at_one(i, over)
        value = (x[i] - mean[moment]) * te.rsqrt(variance[moment] + epsilon)
        return _affine(value, tuple(i[d] for d in named), scale, shift)

    return define(x.shape, body, operator)


def at_one(index: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr | int, ...]:
    """The index of a tensor whose listed axes have extent 1."""
    return tuple(0 if d in axes else i for d, i in enumerate(index))


def _affine(
    value: Expr, index: tuple[Expr, ...], scale: Tensor | None, shift: Tensor | None
) -> Expr:
    value = value if scale is None else value * scale[index]
    return value if shift is None else value + shift[index]
