"""Arrays beside tensors are constant tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorad.errors import DTypeError
from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.tensor import Constant, Tensor, outputs


def constant(array: np.ndarray, dtype: DType | None = None, what: str = "const") -> Tensor:
    """A tensor with the elements of an array (copied), of its dtype unless told.

    Args:
        dtype: what the elements are converted to; floats are rounded.
        what: how an error calls the array.
    Raises:
        DTypeError: there are no tensors of the array's dtype, or `dtype` does not hold a number.
    """
    own = to_dtype(array.dtype) if dtype is None else dtype
    copy = converted(array, own, what)
    copy.flags.writeable = False
    return outputs(Constant("const", copy, own))[0]


def converted(array: np.ndarray, own: DType, what: str) -> np.ndarray:
    """A copy of an array in a dtype that holds its numbers, up to rounding of floats.

    Raises:
        DTypeError: it does not hold them.
    """
    target = np.dtype(str(own))
    counts = array.dtype.kind in "iu" and own.is_integer
    if not counts and not np.can_cast(array.dtype, target, "same_kind"):
        raise DTypeError(
            f"{what}: an array of {array.dtype} does not fit into {own}.",
            hint=f"convert it first: array.astype({str(own)!r}).",
        )
    copy = array.astype(target, order="C", copy=True)
    lost = array[(copy != array) & counts]
    if lost.size:
        raise DTypeError(
            f"{what}: {lost[0]} does not fit into {own}.", hint="choose a wider or a float dtype."
        )
    return copy


def with_constants(operands: Sequence[object]) -> tuple[object, ...]:
    """Operands of tensor arithmetic with arrays as tensors; 0-d arrays are numbers."""
    return tuple([constant(o) if isinstance(o, np.ndarray) and o.ndim else o for o in operands])
