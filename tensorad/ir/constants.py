"""Arrays beside tensors are constant tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.tensor import Constant, Tensor, outputs


def constant(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A tensor with the elements of an array (copied), of its dtype unless told.

    Raises:
        DTypeError: there are no tensors of the array's dtype.
    """
    own = to_dtype(array.dtype) if dtype is None else dtype
    copy = array.astype(np.dtype(str(own)), order="C", copy=True)
    copy.flags.writeable = False
    return outputs(Constant("const", copy, own))[0]


def with_constants(operands: Sequence[object]) -> tuple[object, ...]:
    """Operands of tensor arithmetic with arrays as tensors; 0-d arrays are numbers."""
    return tuple([constant(o) if isinstance(o, np.ndarray) and o.ndim else o for o in operands])
