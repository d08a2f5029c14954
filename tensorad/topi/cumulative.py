"""Prefix folds along one axis."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad import te
from tensorad.errors import DTypeError
from tensorad.ir.tensor import Tensor
from tensorad.topi.arguments import check_flag
from tensorad.topi.checks import check_tensor, normalize_axis
from tensorad.topi.piecewise import LOGADDEXP
from tensorad.topi.reduction import accumulator


def cumsum(
    x: Tensor, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: object = None
) -> Tensor:
    """Sums of the elements up to each one (before it: exclusive; from the end: reverse).

    Args:
        dtype: as in `sum`: None is that of x, but int64 for booleans and integers of 8 and 16
            bits, whose sums would soon wrap around.
    """
    into = accumulator("cumsum", x, dtype)
    return _cumulative("cumsum", "sum", x.astype(into), axis, exclusive, reverse)


def cumprod(
    x: Tensor, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: object = None
) -> Tensor:
    """Products of the elements up to each one; `dtype` as in `cumsum`."""
    into = accumulator("cumprod", x, dtype)
    return _cumulative("cumprod", "prod", x.astype(into), axis, exclusive, reverse)


def cummax(x: Tensor, axis: int = -1, reverse: bool = False) -> Tensor:
    """The largest element up to each one; the gradient goes to the first of equal ones."""
    return _cumulative("cummax", "max", x, axis, False, reverse)


def cummin(x: Tensor, axis: int = -1, reverse: bool = False) -> Tensor:
    """The smallest element up to each one; the gradient goes to the first of equal ones."""
    return _cumulative("cummin", "min", x, axis, False, reverse)


_LOGADDEXP: Final = te.comm_reducer(
    lambda a, b: LOGADDEXP(a, b), lambda dtype: -np.inf, "logaddexp", associative=True
)


def logcumsumexp(
    x: Tensor, axis: int = -1, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """log of the sums of exp up to each element, without overflow; of nothing it is -inf.

    Raises:
        DTypeError: x is not of floats.
    """
    x = check_tensor("logcumsumexp", "x", x)
    if not x.dtype.is_float:
        raise DTypeError(
            f"logcumsumexp: {x.name} is of {x.dtype}, not of floats.",
            hint="convert it: x.astype('float32').",
        )
    return _cumulative("logcumsumexp", _LOGADDEXP, x, axis, exclusive, reverse)


def _cumulative(
    name: str, combiner: object, x: Tensor, axis: int, exclusive: bool, reverse: bool
) -> Tensor:
    x = check_tensor(name, "x", x)
    along = normalize_axis(name, axis, x.ndim)
    exclusive = check_flag(name, "exclusive", exclusive)
    reverse = check_flag(name, "reverse", reverse)
    made: Tensor = te.scan(x, along, combiner, exclusive, reverse, name=name)
    return made
