"""The methods of tensors, `x.sum()`: NumPy's arguments, the operators' results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorad.errors import DefinitionError
from tensorad.ir import array_methods
from tensorad.ir.dtypes import BOOL, to_dtype
from tensorad.ir.tensor import Dim, Tensor
from tensorad.topi import math, reduction, transform


def _transposed(x: Tensor, *axes: Any) -> Tensor:
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return transform.transpose(x, order or None)


def _reshaped(x: Tensor, shape: tuple[Any, ...], order: object) -> Tensor:
    if order != "C":
        raise DefinitionError(
            f"reshape: order {order!r} of {x.name}: elements are in row-major order.",
            hint=f"{x.name}.T.reshape(...) has them in column-major order.",
        )
    single = len(shape) == 1 and isinstance(shape[0], (tuple, list))
    return transform.reshape(x, shape[0] if single else shape)


def _mean(x: Tensor, axis: Any, keepdims: bool, dtype: object) -> Tensor:
    return reduction.mean(as_floats("mean", x, dtype), axis, keepdims)


def as_floats(name: str, x: Tensor, dtype: object) -> Tensor:
    """A tensor in the dtype that a mean is computed in, or as it is (None).

    Raises:
        DefinitionError: means are no numbers of this dtype.
    """
    if dtype is None:
        return x
    if not to_dtype(dtype).is_float:
        raise DefinitionError(
            f"{name} of {x.name} is a float, got dtype {to_dtype(dtype)}.",
            hint=f'convert the result: {name}(X).astype("{to_dtype(dtype)}").',
        )
    return x.astype(dtype)


def _any(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return reduction.max(_truth(x), axis, keepdims)


def _all(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return reduction.min(_truth(x), axis, keepdims)


def _truth(x: Tensor) -> Tensor:
    return x if x.dtype is BOOL else math.not_equal(x, 0)


def _size(x: Tensor) -> Dim:
    return transform.product(x.shape)


_REDUCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "sum": reduction.sum, "prod": reduction.prod, "mean": _mean, "max": reduction.max,
    "min": reduction.min, "argmax": reduction.argmax, "argmin": reduction.argmin,
    "any": _any, "all": _all,
}  # fmt: skip
_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "size": _size, "reshape": _reshaped, "transpose": _transposed,
}  # fmt: skip


def method(name: str, x: Tensor, *given: Any, **named: Any) -> Any:
    """The method of this name. Reductions are given an axis and NumPy's `out`, which is None.

    Raises:
        DefinitionError: `out` is an array.
    """
    if name in _OTHERS:
        return _OTHERS[name](x, *given)
    axis, out = given
    if out is not None:
        raise DefinitionError(
            f"{name}: a tensor has no out: {x.name} is a formula, not an array.",
            hint=f"use what is returned: y = {x.name}.{name}(...).",
        )
    return _REDUCTIONS[name](x, axis=axis, **named)


array_methods.method.fill(method)
