"""PyTorch's layers and losses, as graphs of `topi`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensorad import topi
from tests.interop.torch.opinfo_elements import NotTakenError, is_number, only

Graph = Callable[..., Any]


def _axis(f: Graph) -> Graph:
    def graph(x: Any, dim: int, *, dtype: Any = None, **other: Any) -> Any:
        only(dtype=(dtype, None))
        if not x.shape:
            raise NotTakenError("tensors of no dimension")
        return f(x, dim)

    return graph


def _plain(f: Graph, *names: str) -> Graph:
    """A function with these options of PyTorch's names, in place or not."""

    def graph(x: Any, *given: Any, inplace: bool = False, **options: Any) -> Any:
        return f(
            x,
            *given,
            **{
                {"alpha": "alpha", "negative_slope": "alpha"}.get(k, k): v
                for k, v in options.items()
            },
        )

    return graph


def _with_bias(
    f: Any, x: Any, weight: Any, bias: Any, rank: int, groups: int, sides: dict[str, Any]
) -> Any:
    """A convolution of images with and without an axis of examples, and what is added."""
    single = len(x.shape) == rank + 1
    x = topi.expand_dims(x, 0) if single else x
    y = f(x, weight, groups=groups, **{name: _sides(given) for name, given in sides.items()})
    y = y if bias is None else topi.bias_add(y, bias)
    return topi.squeeze(y, 0) if single else y


def _conv(rank: int, f: Graph) -> Graph:
    def graph(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if isinstance(padding, str):
            if stride not in (1, (1,) * rank) and padding == "same":
                raise NotTakenError("one size in steps")
            padding = _same(weight, dilation, rank) if padding == "same" else 0
        sides = {"strides": stride, "padding": padding, "dilation": dilation}
        return _with_bias(f, x, weight, bias, rank, groups, sides)

    return graph


def _same(weight: Any, dilation: Any, rank: int) -> tuple[int, ...]:
    rates = (dilation,) * rank if isinstance(dilation, int) else tuple(dilation)
    rates = rates * rank if len(rates) == 1 else rates
    total = [d * (k - 1) for d, k in zip(rates, weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        raise NotTakenError("padding that differs at the two ends")
    return tuple(t // 2 for t in total)


def _sides(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def _transposed(rank: int, f: Graph) -> Graph:
    def graph(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        sides = {"strides": stride, "padding": padding, "output_padding": output_padding}
        return _with_bias(f, x, weight, bias, rank, groups, {**sides, "dilation": dilation})

    return graph


def _batched(rank: int, f: Callable[[Any], Any], x: Any) -> Any:
    """f of x with a batch, whether x has one or not."""
    if len(x.shape) == rank + 2:
        return f(x)
    return topi.squeeze(f(topi.expand_dims(x, 0)), 0)


def _avg_pool(rank: int, f: Graph) -> Graph:
    def graph(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        only(divisor_override=(divisor_override, None))
        kernel = _sides(kernel_size)
        step = kernel if stride in (None, ()) else _sides(stride)
        return _batched(
            rank,
            lambda x: f(x, kernel, step, _sides(padding), "avg", count_include_pad, ceil_mode),
            x,
        )

    return graph


def _max_pool(rank: int, f: Graph) -> Graph:
    def graph(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        only(return_indices=(return_indices, False))
        if dilation not in (1, (1,) * rank):
            raise NotTakenError("dilated windows")
        kernel = _sides(kernel_size)
        step = kernel if stride in (None, ()) else _sides(stride)
        return _batched(
            rank, lambda x: f(x, kernel, step, _sides(padding), "max", True, ceil_mode), x
        )

    return graph


def _adaptive(rank: int, kind: str) -> Graph:
    def graph(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        only(return_indices=(return_indices, False))
        sizes = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
        sizes = tuple(n if s is None else s for s, n in zip(sizes, x.shape[-rank:], strict=True))
        return _batched(rank, lambda x: topi.adaptive_pool(x, sizes, kind), x)

    return graph


def _layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = list(range(-len(normalized_shape), 0))
    return topi.layer_norm(x, weight, bias, axes, eps)


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if len(normalized_shape) != 1:
        raise NotTakenError("several axes")
    return topi.rms_norm(x, weight, -1, 2.220446049250313e-16 if eps is None else eps)


def _group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return topi.group_norm(x, num_groups, weight, bias, eps)


def _batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if len(x.shape) < 2:
        raise NotTakenError("tensors without channels")
    if training:
        running_mean = running_var = None
    return topi.batch_norm(x, weight, bias, running_mean, running_var, 1, eps)


def _instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    only(use_input_stats=(use_input_stats, True))
    return topi.instance_norm(x, weight, bias, eps)


def _loss(f: Graph) -> Graph:
    def graph(x: Any, target: Any, *, reduction: str = "mean", **options: Any) -> Any:
        if reduction not in ("mean", "sum"):
            raise NotTakenError("losses of single elements")
        for name, value in options.items():
            if name == "weight" and value is not None:
                raise NotTakenError("weights")
        options.pop("weight", None)
        mean = f(x, target, **options)
        count = math.prod(target.shape)
        return topi.multiply(mean, count) if reduction == "sum" else mean

    return graph


def _smooth(x: Any, target: Any, beta: float = 1.0) -> Any:
    if beta == 0:
        raise NotTakenError("beta=0, which is another loss")
    return topi.smooth_l1_loss(x, target, beta)


def _bce(x: Any, target: Any, *, pos_weight: Any = None) -> Any:
    only(pos_weight=(pos_weight, None))
    return topi.binary_cross_entropy(x, target)


def _of_classes(f: Graph) -> Graph:
    def graph(
        x: Any, target: Any, *, ignore_index: int = -100, label_smoothing: float = 0.0
    ) -> Any:
        only(ignore_index=(ignore_index, -100), label_smoothing=(label_smoothing, 0.0))
        if len(x.shape) != 2 or len(target.shape) != 1:
            raise NotTakenError("other than rows of classes")
        return f(x, target)

    return graph


def _embedding(
    weight: Any, indices: Any, padding_idx: Any = None, max_norm: Any = None, **other: Any
) -> Any:
    only(padding_idx=(padding_idx, None), max_norm=(max_norm, None))
    if other.get("scale_grad_by_freq") or other.get("sparse"):
        raise NotTakenError("gradients that are not the derivative")
    return topi.embedding(indices, weight)


def _normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    only(p=(p, 2))
    return topi.l2_normalize(x, dim, eps)


def _interpolate(mode: str) -> Graph:
    names = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}

    def graph(
        x: Any,
        size: Any = None,
        scale_factor: Any = None,
        *,
        mode: str = mode,
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> Any:
        only(antialias=(antialias, False))
        rank = len(x.shape) - 2
        if size is None:
            factors = (scale_factor,) * rank if is_number(scale_factor) else scale_factor
            size = [math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
            if any(s != n * f for s, n, f in zip(size, x.shape[2:], factors, strict=True)):
                raise NotTakenError("scales that do not divide")
        sizes = [size] * rank if isinstance(size, int) else list(size)
        nearest = {"nearest": ("asymmetric", "floor")}.get(mode)
        coordinates = "align_corners" if align_corners else "half_pixel"
        if not align_corners and mode.endswith("linear"):
            coordinates = "half_pixel"
        rounding = "round_prefer_ceil" if mode == "nearest-exact" else "round_prefer_floor"
        if nearest:
            coordinates, rounding = nearest
        return topi.interpolate(
            x,
            sizes=sizes,
            axes=list(range(2, rank + 2)),
            mode=names.get(mode, "linear"),
            coordinates=coordinates,
            rounding=rounding,
        )

    return graph


def _pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    *lead, c, h, w = x.shape
    r = upscale_factor
    split = topi.reshape(x, (*lead, c // r**2, r, r, h, w))
    n = len(lead)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return topi.reshape(topi.transpose(split, order), (*lead, c // r**2, h * r, w * r))


def _pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    *lead, c, h, w = x.shape
    r = downscale_factor
    split = topi.reshape(x, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return topi.reshape(topi.transpose(split, order), (*lead, c * r**2, h // r, w // r))


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    straight = topi.greater(topi.multiply(x, beta), threshold)
    return topi.where(straight, x, topi.softplus(x, beta))


def _glu(x: Any, dim: int = -1) -> Any:
    a, b = topi.split(x, 2, dim)
    return topi.multiply(a, topi.sigmoid(b))


def _prelu(x: Any, weight: Any) -> Any:
    channels = x.shape[1] if len(x.shape) > 1 else 1
    flat = x if len(x.shape) > 1 else topi.reshape(x, (math.prod(x.shape), 1))
    weight = topi.broadcast_to(weight, (channels,))
    return topi.reshape(topi.prelu(flat, weight), tuple(x.shape))


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    lead = tuple(x.shape[:-1])
    rows = topi.reshape(x, (math.prod(lead), x.shape[-1]))
    if len(weight.shape) == 1:
        y = topi.dense(rows, topi.expand_dims(weight, 0))
        y = topi.reshape(y, lead)
        return y if bias is None else topi.add(y, bias)
    return topi.reshape(topi.dense(rows, weight, bias), (*lead, weight.shape[0]))


def _lrn(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    if size % 2 == 0:
        raise NotTakenError("even sizes")
    return topi.lrn(x, size, 1, k, alpha, beta)


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, **other: Any) -> Any:
    return topi.clip(x, min_val, max_val)


def _triplet(
    a: Any,
    p: Any,
    n: Any,
    *,
    margin: float = 1.0,
    p_norm: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    **other: Any,
) -> Any:
    only(swap=(swap, False), reduction=(reduction, "mean"), p=(other.get("p", 2), 2))
    if len(a.shape) != 2:
        raise NotTakenError("other than rows")
    return topi.triplet_margin_loss(a, p, n, margin, eps)


LAYERS: Final[dict[str, Graph]] = {
    "softmax": _axis(topi.softmax),
    "log_softmax": _axis(topi.log_softmax),
    "nn.functional.softmin": _axis(lambda x, d: topi.softmax(topi.negative(x), d)),
    **{
        f"nn.functional.{name}": _plain(getattr(topi, to))
        for name, to in (
            ("relu", "relu"), ("relu6", "relu6"), ("selu", "selu"), ("silu", "silu"),
            ("mish", "mish"), ("elu", "elu"), ("celu", "celu"), ("gelu", "gelu"),
            ("hardsigmoid", "hard_sigmoid"), ("hardswish", "hard_swish"),
            ("logsigmoid", "log_sigmoid"), ("leaky_relu", "leaky_relu"),
        )
    },
    "nn.functional.softplus": _softplus,
    "nn.functional.softsign": lambda x: topi.divide(x, topi.add(1.0, topi.abs(x))),
    "nn.functional.tanhshrink": lambda x: topi.subtract(x, topi.tanh(x)),
    "nn.functional.hardtanh": _hardtanh,
    "nn.functional.glu": _glu,
    "nn.functional.prelu": _prelu,
    "nn.functional.linear": _linear,
    "nn.functional.conv1d": _conv(1, topi.conv1d),
    "nn.functional.conv2d": _conv(2, topi.conv2d),
    "nn.functional.conv3d": _conv(3, topi.conv3d),
    "nn.functional.conv_transpose1d": _transposed(1, topi.conv1d_transpose),
    "nn.functional.conv_transpose2d": _transposed(2, topi.conv2d_transpose),
    "nn.functional.conv_transpose3d": _transposed(3, topi.conv3d_transpose),
    **{
        f"nn.functional.{kind}_pool{rank}d": make(rank, f)
        for kind, make in (("avg", _avg_pool), ("max", _max_pool))
        for rank, f in ((1, topi.pool1d), (2, topi.pool), (3, topi.pool3d))
    },
    **{
        f"nn.functional.adaptive_{kind}_pool{rank}d": _adaptive(rank, kind)
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
    "nn.functional.layer_norm": _layer_norm,
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.group_norm": _group_norm,
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.instance_norm": _instance_norm,
    "nn.functional.local_response_norm": _lrn,
    "nn.functional.normalize": _normalize,
    "nn.functional.mse_loss": _loss(topi.mse_loss),
    "nn.functional.l1_loss": _loss(topi.l1_loss),
    "nn.functional.smooth_l1_loss": _loss(_smooth),
    "nn.functional.binary_cross_entropy_with_logits": _loss(_bce),
    "nn.functional.cross_entropy": _loss(_of_classes(topi.cross_entropy)),
    "nn.functional.nll_loss": _loss(_of_classes(topi.nll_loss)),
    "nn.functional.triplet_margin_loss": _triplet,
    "nn.functional.embedding": _embedding,
    "nn.functional.pixel_shuffle": _pixel_shuffle,
    "nn.functional.pixel_unshuffle": _pixel_unshuffle,
    **{
        f"nn.functional.interpolate|{mode}": _interpolate(mode)
        for mode in ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic")
    },
}  # fmt: skip
