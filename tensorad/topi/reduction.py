"""Reductions of whole tensors along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorad import te
from tensorad.errors import DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import BOOL, INT64, DType, float_type, to_dtype
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr
from tensorad.topi.arguments import check_flag
from tensorad.topi.checks import check_equal, check_tensor, normalize_axes
from tensorad.topi.definition import define

Axes = int | Sequence[int] | None
_WIDE: Final = 32
"""Bits of a dtype that sums and products are made in."""


def _reduce(
    name: str,
    reducer: Callable[..., Expr],
    x: Tensor,
    axis: Axes,
    keepdims: bool,
    finish: Callable[[Expr], Expr] = lambda e: e,
    dtype: DType | None = None,
) -> Tensor:
    x = check_tensor(name, "x", x)
    keepdims = check_flag(name, "keepdims", keepdims)
    over = normalize_axes(name, axis, x.ndim)
    kept, shape = _result(x, over, keepdims)

    def body(*i: Expr) -> Expr:
        inner = {
            d: te.reduce_axis(x.shape[d], name=f"k{d}" if len(over) > 1 else "k") for d in over
        }
        outer = dict(zip(kept, i, strict=True))
        element = x[tuple(inner.get(d, outer.get(d)) for d in range(x.ndim))]
        axes: list[Axis] = list(inner.values()) or [te.reduce_axis(1)]  # a fold of one element
        return finish(reducer(element.astype(dtype or x.dtype), axis=axes))

    return define(shape, body, name)


def _result(x: Tensor, over: Sequence[int], keepdims: bool) -> tuple[list[int], list[Dim]]:
    """The axes of x that a result over others has, and their extents in it."""
    kept = [d for d in range(x.ndim) if keepdims or d not in over]
    return kept, [1 if d in over else x.shape[d] for d in kept]


def accumulator(name: str, x: Tensor, dtype: object) -> DType:
    """What sums and products of x are made in: `dtype` if given, else x's own or int64.

    Raises:
        DTypeError: `dtype` is bool.
    """
    own = check_tensor(name, "x", x).dtype
    if dtype is None:
        return INT64 if own.bits < _WIDE else own
    wanted = to_dtype(dtype)
    if wanted is BOOL:
        raise DTypeError(
            f"{name}: the dtype of a result must be one of numbers, not bool.",
            hint="reduce truth values by max (any of them) or min (all of them).",
        )
    return wanted


def sum(x: Tensor, axis: Axes = None, keepdims: bool = False, dtype: object = None) -> Tensor:
    """The sum along `axis` (all axes: None).

    Args:
        dtype: of the result and of every sum on the way. None: that of x, but int64 for
            booleans and integers of 8 and 16 bits, which would wrap around: in uint8, 200 + 136
            is 80. Integers of 32 and 64 bits stay as they are, and wrap around at their ends;
            `tensorad.sum`, inside a formula, keeps the dtype of any number that it adds.
    """
    return _reduce("sum", te.sum, x, axis, keepdims, dtype=accumulator("sum", x, dtype))


def prod(x: Tensor, axis: Axes = None, keepdims: bool = False, dtype: object = None) -> Tensor:
    """The product along `axis`; `dtype` as in `sum` (int64 for narrow integers if None)."""
    return _reduce("prod", te.prod, x, axis, keepdims, dtype=accumulator("prod", x, dtype))


def max(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The maximum along `axis`; NaN propagates; the gradient goes to the first maximum."""
    return _reduce("max", te.max, x, axis, keepdims)


def min(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The minimum along `axis`; NaN propagates; the gradient goes to the first minimum."""
    return _reduce("min", te.min, x, axis, keepdims)


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean along `axis`, of integers as a quotient of them: float64 if they have 64 bits.

    Raises:
        ShapeError: an axis has extent 0.
    """
    x = check_tensor("mean", "x", x)
    over = normalize_axes("mean", axis, x.ndim)
    dtype = str(float_type(x.dtype))
    divide = _division("mean", x, over, dtype)
    return _reduce("mean", te.sum, x.astype(dtype), axis, keepdims, divide)


def _division(operator: str, x: Tensor, over: Sequence[int], dtype: str) -> Callable[[Expr], Expr]:
    """total -> total / the number of elements along the axes."""
    count: Expr = dim_expr(1)
    for d in over:
        count = count * dim_expr(x.shape[d])
        if same_dim(x.shape[d], 0):
            raise ShapeError(
                f"{operator}: axis {d} of {x.name} has extent 0; its {operator} is undefined.",
                hint="sum it instead, or give the axis an element.",
            )
    if all(isinstance(x.shape[d], int) for d in over):
        scale: object = 1.0
        for d in over:
            scale = scale / x.shape[d]  # type: ignore[operator]  # integers: checked above
        return lambda e: e * scale
    return lambda e: e / count.astype(dtype)


def argmax(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """int64 row-major position of the first maximum over the axes."""
    return _reduce("argmax", te.argmax, x, axis, keepdims)


def argmin(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """int64 row-major position of the first minimum over the axes."""
    return _reduce("argmin", te.argmin, x, axis, keepdims)


def variance(
    x: Tensor, axis: Axes = None, keepdims: bool = False, mean_of: Tensor | None = None
) -> Tensor:
    """The mean squared distance from the mean along `axis` (divided by n, not n - 1).

    Args:
        mean_of: mean(x, axis, keepdims=True) where it is at hand.
    Raises:
        ShapeError: an axis has extent 0.
    """
    x = check_tensor("variance", "x", x)
    over = normalize_axes("variance", axis, x.ndim)
    keepdims = check_flag("variance", "keepdims", keepdims)
    centre = mean(x, over, keepdims=True) if mean_of is None else _mean_of(x, over, mean_of)
    dtype = str(centre.dtype)
    kept, shape = _result(x, over, keepdims)
    divide = _division("variance", x, over, dtype)

    def body(*i: Expr) -> Expr:
        outer = dict(zip(kept, i, strict=True))
        inner = {d: te.reduce_axis(x.shape[d], name=f"k{d}") for d in over}
        middle = centre[tuple(0 if d in over else outer[d] for d in range(x.ndim))]
        element = x[tuple(inner.get(d, outer.get(d)) for d in range(x.ndim))]
        distance = element.astype(dtype) - middle
        axes: list[Axis] = list(inner.values()) or [te.reduce_axis(1)]
        return divide(te.sum(distance * distance, axis=axes))

    return define(shape, body, "variance")


def _mean_of(x: Tensor, over: Sequence[int], mean_of: object) -> Tensor:
    t = check_tensor("variance", "mean_of", mean_of, x.ndim)
    for d, n in enumerate(x.shape):
        check_equal("variance", f"axis {d} of {t.name} and its extent of a mean with keepdims",
                    t.shape[d], 1 if d in over else n)  # fmt: skip
    return t


def logsumexp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along `axis`, without overflow; -inf if all elements are -inf."""
    x = check_tensor("logsumexp", "x", x)
    over = normalize_axes("logsumexp", axis, x.ndim)
    top = max(x, over, keepdims=True)
    shift: Tensor = te.compute(
        top.shape,
        lambda *i: te.select(te.isfinite(top[i]), top[i], te.const(0, top.dtype)),
        name="shift",
    )
    exps: Tensor = te.compute(
        x.shape,
        lambda *i: te.exp(x[i] - shift[tuple(0 if d in over else k for d, k in enumerate(i))]),
        name="exps",
    )
    keepdims = check_flag("logsumexp", "keepdims", keepdims)
    total = sum(exps, over, keepdims)
    kept, _ = _result(x, over, keepdims)

    def body(*i: Expr) -> Expr:
        outer = dict(zip(kept, i, strict=True))
        at = tuple(0 if d in over else outer[d] for d in range(x.ndim))
        return te.log(total[i]) + shift[at]

    return define(total.shape, body, "logsumexp")
