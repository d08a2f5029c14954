"""PyTorch's elementwise operators, reductions and products, as graphs of `topi`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import tensorad as ta
from tensorad import topi

Graph = Callable[..., Any]


class NotTakenError(Exception):
    """The operator of `topi` has no such argument; the text says which."""


def only(**options: Any) -> None:
    """Refuse samples with an option other than its default, given as (value, default)."""
    for name, (value, default) in options.items():
        if value != default:
            raise NotTakenError(f"{name}={value!r}")


def _unary(f: Graph) -> Graph:
    return lambda x: f(x)


def place(dim: int, rank: int) -> int:
    """The number of an axis, from the start."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise NotTakenError(f"axis {dim} of {rank}")
    return dim % max(rank, 1)


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float))


def _binary(f: Graph) -> Graph:
    def graph(x: Any, y: Any, *, rounding_mode: None = None) -> Any:
        if isinstance(y, complex):
            raise NotTakenError("complex numbers")
        return f(x, y)

    return graph


def _swapped(f: Graph) -> Graph:
    return lambda x, y: f(y, x)


def _scaled(f: Graph) -> Graph:
    def graph(x: Any, y: Any, *, alpha: float = 1) -> Any:
        return f(x, y if alpha == 1 else topi.multiply(y, alpha))

    return graph


def _reversed_minus(x: Any, y: Any, *, alpha: float = 1) -> Any:
    return topi.subtract(y, x if alpha == 1 else topi.multiply(x, alpha))


def _truth(x: Any) -> Any:
    if is_number(x):
        raise NotTakenError("truth of numbers")
    return x if str(x.dtype) == "bool" else topi.not_equal(x, 0)


def _logical(f: Graph) -> Graph:
    return lambda *xs: f(*[_truth(x) for x in xs])


def _formula(f: Graph) -> Graph:
    """An elementwise formula of the language."""
    return lambda x: ta.compute(x.shape, lambda *i: f(x[i]), name="formula")


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    if is_number(min) and is_number(max):
        return topi.clip(x, min, max)
    if min is not None:
        x = topi.maximum(x, min)
    return x if max is None else topi.minimum(x, max)


def _addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    return topi.add(x, topi.multiply(topi.multiply(a, b), value))


def _addcdiv(x: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    return topi.add(x, topi.multiply(topi.divide(a, b), value))


def _lerp(x: Any, end: Any, weight: Any) -> Any:
    return topi.add(x, topi.multiply(topi.subtract(end, x), weight))


def _xlogy(x: Any, y: Any) -> Any:
    nonzero = topi.not_equal(x, 0)
    return topi.where(nonzero, topi.multiply(x, topi.log(topi.where(nonzero, y, 1.0))), 0.0)


def _xlog1py(x: Any, y: Any) -> Any:
    return topi.multiply(x, topi.log1p(y))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return topi.where(condition, x, y)


def _where_method(x: Any, condition: Any, y: Any) -> Any:
    return topi.where(condition, x, y)


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    if is_number(value) and isinstance(value, int):
        value = float(value)
    return topi.where(mask, value, x)


def _polygamma(x: Any, n: int) -> Any:
    if n > 1:
        raise NotTakenError("higher derivatives of the gamma function")
    return topi.digamma(x) if n == 0 else topi.trigamma(x)


def _logit(x: Any, eps: float | None = None) -> Any:
    x = x if eps is None else topi.clip(x, eps, 1 - eps)
    return topi.log(topi.divide(x, topi.subtract(1.0, x)))


def _round(x: Any, *, decimals: int = 0) -> Any:
    only(decimals=(decimals, 0))
    return topi.round(x)


def axes_of(dim: Any) -> Any:
    return None if dim is None or dim in ((), []) else dim


def _reduction(f: Graph) -> Graph:
    def graph(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        only(dtype=(dtype, None))
        return f(x, axes_of(dim), keepdim) if x.shape else f(topi.reshape(x, (1,)), None, False)

    return graph


def _of_one_axis(f: Graph, second: Graph) -> Graph:
    def graph(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not x.shape:
            raise NotTakenError("axes of tensors of no dimension")
        return [f(x, dim, keepdim), second(x, dim, keepdim)]

    return graph


def _count(x: Any, dim: Any) -> int:
    dims = range(len(x.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    return math.prod(x.shape[d] for d in dims)


def _spread(root: bool, mean: bool) -> Graph:
    def graph(
        x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **more: Any
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = more.get("correction", 1 if unbiased is None else int(unbiased))
        correction = 1 if correction is None else correction
        dim = axes_of(dim)
        n = _count(x, dim)
        if n - correction <= 0:
            raise NotTakenError("no degrees of freedom are left")
        found = topi.multiply(topi.variance(x, dim, keepdim), n / (n - correction))
        found = topi.sqrt(found) if root else found
        return [found, topi.mean(x, dim, keepdim)] if mean else found

    return graph


def _aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    if not x.shape:
        raise NotTakenError("axes of tensors of no dimension")
    return [topi.min(x, dim, keepdim), topi.max(x, dim, keepdim)]


def _all(x: Any, axes: Any, keepdim: bool) -> Any:
    return topi.min(topi.cast(_truth(x), "int64"), axes, keepdim)


def _any(x: Any, axes: Any, keepdim: bool) -> Any:
    return topi.max(topi.cast(_truth(x), "int64"), axes, keepdim)


def _count_nonzero(x: Any, axes: Any, keepdim: bool) -> Any:
    return topi.sum(topi.cast(_truth(x), "int64"), axes, keepdim)


def _nansum(x: Any, axes: Any, keepdim: bool) -> Any:
    return topi.sum(topi.where(topi.isnan(x), 0.0, x), axes, keepdim)


def _vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    only(dtype=(dtype, None))
    if not x.shape:
        x, dim, keepdim = topi.reshape(x, (1,)), None, False
    size, dim = topi.abs(x), axes_of(dim)
    if ord == math.inf:
        return topi.max(size, dim, keepdim)
    if ord == -math.inf:
        return topi.min(size, dim, keepdim)
    if ord == 0:
        return topi.sum(topi.cast(topi.not_equal(x, 0), x.dtype), dim, keepdim)
    if ord == 1:
        return topi.sum(size, dim, keepdim)
    if ord == 2:
        return topi.sqrt(topi.sum(topi.square(x), dim, keepdim))
    return topi.power(topi.sum(topi.power(size, float(ord)), dim, keepdim), 1 / ord)


def _dist(x: Any, y: Any, p: float = 2) -> Any:
    return _vector_norm(topi.subtract(x, y), p)


def _mv(a: Any, b: Any) -> Any:
    return topi.matmul(a, b)


def _bmm(a: Any, b: Any) -> Any:
    return topi.batch_matmul(a, topi.transpose(b, (0, 2, 1)))


def _sum_of(beta: float, x: Any, alpha: float, product: Any) -> Any:
    if alpha != 1:
        product = topi.multiply(product, alpha)
    return topi.add(x if beta == 1 else topi.multiply(x, beta), product)


def _plus(product: Graph) -> Graph:
    def graph(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        return _sum_of(beta, x, alpha, product(a, b))

    return graph


def _outer(a: Any, b: Any) -> Any:
    return topi.einsum("i,j->ij", a, b)


def _kron(a: Any, b: Any) -> Any:
    rank = max(len(a.shape), len(b.shape))
    a = topi.reshape(a, (1,) * (rank - len(a.shape)) + tuple(a.shape))
    b = topi.reshape(b, (1,) * (rank - len(b.shape)) + tuple(b.shape))
    sides = b.shape
    return ta.compute(
        tuple(p * q for p, q in zip(a.shape, sides, strict=True)),
        lambda *i: (
            a[tuple(v // q for v, q in zip(i, sides, strict=True))]
            * b[tuple(v % q for v, q in zip(i, sides, strict=True))]
        ),
        name="kron",
    )


def _inner(a: Any, b: Any) -> Any:
    if not a.shape or not b.shape:
        return topi.multiply(a, b)
    return topi.tensordot(a, b, ([len(a.shape) - 1], [len(b.shape) - 1]))


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    if not isinstance(dims, int):
        pairs = zip(*map(list, dims), strict=True)
        if any(a.shape[p] != b.shape[q] for p, q in pairs):
            raise NotTakenError("axes of 1 that are repeated")
    return topi.tensordot(a, b, dims if isinstance(dims, int) else tuple(map(tuple, dims)))


def _einsum(operands: Any, subscripts: str) -> Any:
    given, _, made = subscripts.partition("->")
    if "..." in given and made and "..." not in made:
        raise NotTakenError("sums over axes without letters")
    return topi.einsum(subscripts, *operands)


def _vecdot(a: Any, b: Any, *, dim: int = -1) -> Any:
    return topi.sum(topi.multiply(a, b), dim)


def _multi_dot(factors: Any) -> Any:
    made = factors[0]
    for factor in factors[1:]:
        made = topi.matmul(made, factor)
    return made


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    made = topi.einsum("...i,kij,...j->...k", x, weight, y)
    return made if bias is None else topi.add(made, bias)


def _mean_of_two(x: Any) -> Any:
    return topi.multiply(topi.erfc(topi.multiply(x, -(0.5**0.5))), 0.5)


def _trace(x: Any) -> Any:
    n = min(x.shape)
    return topi.einsum("ii->", topi.strided_slice(x, [0, 0], [n, n]))


ELEMENTS: Final[dict[str, Graph]] = {
    **{
        name: _unary(getattr(topi, name))
        for name in (
            "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh",
            "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "isfinite",
            "isnan", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sign", "sin",
            "sinh", "sqrt", "square", "tan", "tanh", "trunc",
        )
    },
    "neg": _unary(topi.negative),
    "sgn": _unary(topi.sign),
    "round": _round,
    "positive": _formula(lambda v: v),
    "reciprocal": _unary(lambda x: topi.divide(1.0, x)),
    "deg2rad": _unary(lambda x: topi.multiply(x, math.pi / 180)),
    "rad2deg": _unary(lambda x: topi.multiply(x, 180 / math.pi)),
    "frac": _unary(lambda x: topi.subtract(x, topi.trunc(x))),
    "special.ndtr": _mean_of_two,
    "logit": _logit,
    "polygamma|polygamma_n_0": _polygamma,
    "polygamma|polygamma_n_1": _polygamma,
    **{name: _scaled(getattr(topi, to)) for name, to in (("add", "add"), ("sub", "subtract"))},
    **{
        name: _binary(getattr(topi, to))
        for name, to in (
            ("mul", "multiply"), ("div|no_rounding_mode", "divide"), ("true_divide", "divide"),
            ("pow", "power"), ("maximum", "maximum"), ("minimum", "minimum"),
            ("max|binary", "maximum"), ("min|binary", "minimum"), ("atan2", "atan2"),
            ("fmod", "fmod"), ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"),
            ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
            ("__radd__", "add"), ("__rmul__", "multiply"),
        )
    },
    **{
        name: _swapped(getattr(topi, to))
        for name, to in (("__rsub__", "subtract"), ("__rdiv__", "divide"), ("__rpow__", "power"))
    },
    **{
        name: _logical(getattr(topi, name))
        for name in ("logical_and", "logical_or", "logical_xor", "logical_not")
    },
    "rsub": _reversed_minus,
    "hypot": _binary(lambda x, y: topi.sqrt(topi.add(topi.square(x), topi.square(y)))),
    "xlogy": _xlogy,
    "special.xlog1py": _xlog1py,
    "clamp": _clamp,
    "clamp_min": lambda x, low: topi.maximum(x, low),
    "clamp_max": lambda x, high: topi.minimum(x, high),
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "lerp": _lerp,
    "where": _where_method,
    "masked_fill": _masked_fill,
    **{
        name: _reduction(getattr(topi, to))
        for name, to in (
            ("sum", "sum"), ("mean", "mean"), ("prod", "prod"), ("amax", "max"), ("amin", "min"),
            ("argmax", "argmax"), ("argmin", "argmin"), ("logsumexp", "logsumexp"),
            ("max|reduction_no_dim", "max"), ("min|reduction_no_dim", "min"),
        )
    },
    "max|reduction_with_dim": _of_one_axis(topi.max, topi.argmax),
    "min|reduction_with_dim": _of_one_axis(topi.min, topi.argmin),
    **{
        name + end: _spread(name.startswith("std"), name.endswith("mean"))
        for name in ("var", "std", "var_mean", "std_mean")
        for end in ("", "|unbiased")
    },
    "aminmax": _aminmax,
    "all": _reduction(_all),
    "any": _reduction(_any),
    "count_nonzero": _reduction(_count_nonzero),
    "nansum": _reduction(_nansum),
    "linalg.vector_norm": _vector_norm,
    "dist": _dist,
    "mm": _mv,
    "bmm": _bmm,
    "matmul": _mv,
    "__rmatmul__": _swapped(topi.matmul),
    "mv": _mv,
    "dot": _mv,
    "vdot": _mv,
    "inner": _inner,
    "outer": _outer,
    "kron": _kron,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "linalg.vecdot": _vecdot,
    "linalg.multi_dot": _multi_dot,
    "trace": _trace,
    "addmm": _plus(topi.matmul),
    "addmm|decomposed": _plus(topi.matmul),
    "addmv": _plus(topi.matmul),
    "addr": _plus(_outer),
    "baddbmm": _plus(_bmm),
    "addbmm": _plus(lambda a, b: topi.sum(_bmm(a, b), 0)),
    "nn.functional.bilinear": _bilinear,
}  # fmt: skip
