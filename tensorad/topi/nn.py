"""Neural network operators: dense, convolution, pooling, softmax, activations, losses."""

from __future__ import annotations

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.elementwise import same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi import math, reduction, transform
from tensorad.topi.checks import check_equal, check_tensor, four_sides, normalize_axis, pair


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[i, j] = sum_k x[i, k] * weight[j, k] (+ bias[j]).

    Args:
        x: shape (batch, in).
        weight: shape (out, in).
        bias: shape (out,).
    Raises:
        ShapeError: the extents do not fit.
    """
    check_tensor("dense", "x", x, 2)
    check_tensor("dense", "weight", weight, 2)
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
    check_tensor("dense", "bias", bias, 1)
    check_equal(
        "dense", f"the rows of {weight.name} and {bias.name}", weight.shape[0], bias.shape[0]
    )
    made: Tensor = te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="dense")
    return made


def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x + bias along one axis."""
    check_tensor("bias_add", "x", x)
    check_tensor("bias_add", "bias", bias, 1)
    along = normalize_axis("bias_add", axis, x.ndim)
    check_equal("bias_add", f"axis {along} of {x.name} and {bias.name}",
                x.shape[along], bias.shape[0])  # fmt: skip
    made: Tensor = te.compute(x.shape, lambda *i: x[i] + bias[i[along]], name="bias_add")
    return made


def _output_extent(operator: str, extent: Dim, kernel: Dim, stride: int, dilation: int,
                   padding: int) -> Dim:  # fmt: skip
    """(extent + padding - dilation*(kernel - 1) - 1) // stride + 1."""
    reach = dim_of(dim_expr(extent) + padding - dilation * (dim_expr(kernel) - 1) - 1)
    if isinstance(reach, int) and reach < 0 and not same_dim(extent, 0):
        raise ShapeError(
            f"{operator}: the window ({kernel}, dilation {dilation}) is larger than the padded "
            f"input ({extent} + {padding}).",
            hint="use a smaller window or more padding.",
        )
    result = dim_of(dim_expr(reach) // stride + 1)
    return max(0, result) if isinstance(result, int) else result


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
    Raises:
        ShapeError: channels do not fit, or the kernel exceeds the padded input.
    """
    check_tensor("conv2d", "x", x, 4)
    check_tensor("conv2d", "weight", weight, 4)
    sy, sx = pair("conv2d", "strides", strides, 1)
    dy, dx = pair("conv2d", "dilation", dilation, 1)
    top, left, bottom, right = four_sides("conv2d", padding)
    n, _, height, width = x.shape
    out, per_group, kh, kw = weight.shape
    _check_groups(x, weight, groups)
    rows = _output_extent("conv2d", height, kh, sy, dy, top + bottom)
    columns = _output_extent("conv2d", width, kw, sx, dx, left + right)
    ci = te.reduce_axis(per_group, name="ci")
    ky = te.reduce_axis(kh, name="ky")
    kx = te.reduce_axis(kw, name="kx")

    source = x

    def body(n: Expr, co: Expr, y: Expr, x: Expr) -> Expr:
        channel = ci if groups == 1 else co // (dim_expr(out) // groups) * per_group + ci
        iy = y * sy + ky * dy - top
        ix = x * sx + kx * dx - left
        inside = _inside(iy, height, top, bottom) + _inside(ix, width, left, right)
        product = source[n, channel, iy, ix] * weight[co, ci, ky, kx]
        where = te.all_of(*inside) if inside else None
        return te.sum(product, axis=[ci, ky, kx], where=where)

    made: Tensor = te.compute((n, out, rows, columns), body, name="conv2d")
    return made


def _inside(index: Expr, extent: Dim, low: int, high: int) -> list[Expr]:
    """The conditions that keep a padded index inside, as far as there is padding."""
    conditions = []
    if low:
        conditions.append(index >= 0)
    if high:
        conditions.append(index < dim_expr(extent))
    return conditions


def _check_groups(x: Tensor, weight: Tensor, groups: int) -> None:
    channels, out, per_group = x.shape[1], weight.shape[0], weight.shape[1]
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise DefinitionError(
            f"conv2d: groups must be a positive integer, got {groups!r}.",
            hint="groups=1 connects all channels.",
        )
    if groups > 1 and isinstance(out, int) and out % groups:
        raise ShapeError(
            f"conv2d: {out} output channels do not divide into {groups} groups.",
            hint="every group makes equally many output channels.",
        )
    expected = dim_of(dim_expr(per_group) * groups)
    if isinstance(channels, int) and isinstance(expected, int) and channels != expected:
        raise ShapeError(
            f"conv2d: {x.name} has {channels} channels, but {weight.name} of shape "
            f"{format_shape(weight.shape)} with groups={groups} needs {expected}.",
            hint="weights have shape (out, channels / groups, height, width).",
        )


def pool(
    x: Tensor,
    kernel: object,
    stride: object,
    padding: object = 0,
    pool_type: str = "max",
    count_include_pad: bool = True,
) -> Tensor:
    """Windows of the last two axes of an NCHW tensor, reduced by "avg" or "max".

    Args:
        x: shape (n, channels, height, width).
        kernel, stride: an integer or a pair.
        padding: an integer, a pair, or (top, left, bottom, right); padded elements are 0 for
            "avg" and no operands for "max".
        count_include_pad: whether "avg" divides by the kernel's size at the borders too,
            or by the number of elements inside.
    Raises:
        DefinitionError: another pool type.
        ShapeError: the window exceeds the padded input.
    """
    check_tensor("pool", "x", x, 4)
    if pool_type not in ("avg", "max"):
        raise DefinitionError(
            f"pool: pool_type must be 'avg' or 'max', got {pool_type!r}.",
            hint="write another reduction with compute.",
        )
    kh, kw = pair("pool", "kernel", kernel, 1)
    sy, sx = pair("pool", "stride", stride, 1)
    top, left, bottom, right = four_sides("pool", padding)
    n, channels, height, width = x.shape
    rows = _output_extent("pool", height, kh, sy, 1, top + bottom)
    columns = _output_extent("pool", width, kw, sx, 1, left + right)
    ky = te.reduce_axis(kh, name="ky")
    kx = te.reduce_axis(kw, name="kx")
    source = x

    def body(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
        iy, ix = y * sy + ky - top, x * sx + kx - left
        inside = _inside(iy, height, top, bottom) + _inside(ix, width, left, right)
        where = te.all_of(*inside) if inside else None
        element = source[n, c, iy, ix]
        if pool_type == "max":
            return te.max(element, axis=[ky, kx], where=where)
        total = te.sum(element, axis=[ky, kx], where=where)
        if count_include_pad or not inside:
            return total * (1.0 / (kh * kw))
        count = _window(y, sy, kh, top, height) * _window(x, sx, kw, left, width)
        return total / count.astype(source.dtype)

    made: Tensor = te.compute((n, channels, rows, columns), body, name=f"{pool_type}_pool")
    return made


def _window(i: Expr, stride: int, kernel: int, pad: int, extent: Dim) -> Expr:
    """How many elements of a window lie inside the input."""
    start = te.maximum(i * stride - pad, 0)
    stop = te.minimum(i * stride - pad + kernel, dim_expr(extent))
    count: Expr = te.maximum(stop - start, 1)
    return count


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`."""
    exps, _ = _shifted_exps("softmax", x, axis)
    return exps / reduction.sum(exps, axis, keepdims=True)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`."""
    exps, shifted = _shifted_exps("log_softmax", x, axis)
    return shifted - math.log(reduction.sum(exps, axis, keepdims=True))


def _shifted_exps(operator: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    check_tensor(operator, "x", x)
    along = normalize_axis(operator, axis, x.ndim)
    shifted = x - reduction.max(x, along, keepdims=True)
    return math.exp(shifted), shifted


def flatten(x: Tensor) -> Tensor:
    """(n, a, b, ...) -> (n, a*b*...)."""
    return transform.flatten(x)


def relu(x: Tensor) -> Tensor:
    """max(0, x); derivative 0 at 0."""
    check_tensor("relu", "x", x)
    zero = te.const(0, x.dtype)
    made: Tensor = te.compute(x.shape, lambda *i: te.maximum(zero, x[i]), name="relu")
    return made


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x where x > 0, otherwise alpha * x; derivative alpha at 0."""
    check_tensor("leaky_relu", "x", x)
    made: Tensor = te.compute(
        x.shape, lambda *i: te.select(x[i] > 0, x[i], x[i] * alpha), name="leaky_relu"
    )
    return made


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where x > 0, otherwise slope[channel] * x."""
    check_tensor("prelu", "x", x)
    check_tensor("prelu", "slope", slope, 1)
    along = normalize_axis("prelu", axis, x.ndim)
    check_equal("prelu", f"axis {along} of {x.name} and {slope.name}",
                x.shape[along], slope.shape[0])  # fmt: skip
    made: Tensor = te.compute(
        x.shape,
        lambda *i: te.select(x[i] > 0, x[i], x[i] * slope[i[along]]),
        name="prelu",
    )
    return made


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return math.sigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return math.tanh(x)


def nll_loss(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """0-d mean of -log_probabilities[i, targets[i]]; targets are integers, shape (n,)."""
    check_tensor("nll_loss", "log_probabilities", log_probabilities, 2)
    check_tensor("nll_loss", "targets", targets, 1)
    check_equal("nll_loss", "the batches of log_probabilities and targets",
                log_probabilities.shape[0], targets.shape[0])  # fmt: skip
    picked: Tensor = te.compute(
        targets.shape, lambda i: -log_probabilities[i, targets[i]], name="nll"
    )
    return reduction.mean(picked)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """0-d mean of -log_softmax(logits)[i, targets[i]]."""
    return nll_loss(log_softmax(logits), targets)
