"""Reductions, running sums and products of tensors, with NumPy's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Tensor
from tensorad.topi import cumulative, linalg, math, reduction, transform
from tensorad.topi.arguments import as_integer, as_listed
from tensorad.topi.as_numpy.arguments import Axes, Given, as_tensor, flat
from tensorad.topi.methods import as_floats, method


def _reduction(name: str) -> Callable[..., Tensor]:
    def without_dtype(a: Given, axis: Axes = None, out: None = None, keepdims: Any = False) -> Any:
        return method(name, as_tensor(name, a), axis, out, keepdims=keepdims)

    return without_dtype


def _summing(name: str) -> Callable[..., Tensor]:
    def with_dtype(
        a: Given, axis: Axes = None, dtype: object = None, out: None = None, keepdims: Any = False
    ) -> Any:
        return method(name, as_tensor(name, a), axis, out, keepdims=keepdims, dtype=dtype)

    return with_dtype


def _var(
    a: Given, axis: Axes = None, dtype: object = None, out: None = None, ddof: int = 0,
    keepdims: Any = False,
) -> Tensor:  # fmt: skip
    x = as_tensor("var", a)
    if ddof != 0:
        raise DefinitionError(
            f"np.var and np.std of a tensor have no ddof, got {ddof!r}.",
            where=x.name,
            hint=f"scale it: topi.variance({x.name}, axis) * (n / (n - ddof)).",
        )
    return reduction.variance(as_floats("variance", x, dtype), axis, keepdims)


def _std(
    a: Given, axis: Axes = None, dtype: object = None, out: None = None, ddof: int = 0,
    keepdims: Any = False,
) -> Tensor:  # fmt: skip
    return math.sqrt(_var(a, axis, dtype, None, ddof, keepdims))


def _running(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def running(a: Given, axis: Axes = None, dtype: object = None, out: None = None) -> Tensor:
        x = as_tensor(operator.__name__, a)
        return operator(flat(x), 0, dtype=dtype) if axis is None else operator(x, axis, dtype=dtype)

    return running


def _dot(a: Given, b: Given, out: None = None) -> Any:
    x, y = as_tensor("dot", a), as_tensor("dot", b, "b")
    if not x.ndim or not y.ndim:
        return x * y
    return linalg.tensordot(x, y, ([-1], [-1 if y.ndim == 1 else -2]))


def _inner(a: Given, b: Given) -> Any:
    x, y = as_tensor("inner", a), as_tensor("inner", b, "b")
    return x * y if not x.ndim or not y.ndim else linalg.tensordot(x, y, ([-1], [-1]))


def _outer(a: Given, b: Given, out: None = None) -> Tensor:
    x, y = flat(as_tensor("outer", a)), flat(as_tensor("outer", b, "b"))
    return transform.expand_dims(x, 1) * y


def _vdot(a: Given, b: Given) -> Tensor:
    return linalg.matmul(flat(as_tensor("vdot", a)), flat(as_tensor("vdot", b, "b")))


def _tensordot(a: Given, b: Given, axes: Any = 2) -> Tensor:
    listed = as_listed(axes)
    if listed is not None:
        axes = tuple([(n,) if as_integer(n) is not None else n for n in listed])
    return linalg.tensordot(as_tensor("tensordot", a), as_tensor("tensordot", b, "b"), axes)


def _einsum(subscripts: str, *operands: Given, out: None = None, optimize: object = True) -> Tensor:
    named = [as_tensor("einsum", o, f"operand {n}") for n, o in enumerate(operands)]
    return linalg.einsum(subscripts, *named)


FOLDS: Final[dict[str, Callable[..., Any]]] = {
    "sum": _summing("sum"), "prod": _summing("prod"), "mean": _summing("mean"),
    "max": _reduction("max"), "amax": _reduction("max"),
    "min": _reduction("min"), "amin": _reduction("min"),
    "argmax": _reduction("argmax"), "argmin": _reduction("argmin"),
    "any": _reduction("any"), "all": _reduction("all"), "var": _var, "std": _std,
    "cumsum": _running(cumulative.cumsum), "cumprod": _running(cumulative.cumprod),
    "dot": _dot, "inner": _inner, "outer": _outer, "vdot": _vdot, "tensordot": _tensordot,
    "einsum": _einsum,
}  # fmt: skip
"""By NumPy's name; parameters are those of NumPy's that have a meaning here, in its order."""
