"""The indices of a read: one integer for each axis of the tensor."""

from __future__ import annotations

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir import array_methods
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Axis, Expr, Select, as_expr, checked_read, select
from tensorad.ir.references import Read
from tensorad.ir.tensor import Tensor, format_shape


def read_at(tensor: Tensor, given: tuple[object, ...]) -> Read:
    """tensor[given], with indices of int64.

    Raises:
        ShapeError: there are more or fewer than the tensor has axes.
        DefinitionError: one is a slice.
        DTypeError: one is no integer.
    """
    if len(given) != tensor.ndim:
        raise ShapeError(
            f"{tensor.name} has {tensor.ndim} {'axis' if tensor.ndim == 1 else 'axes'}, "
            f"but {len(given)} "
            f"{'index was' if len(given) == 1 else 'indices were'} given.",
            where=f"{tensor.name}[{', '.join(map(_index_text, given))}] "
            f"with shape {format_shape(tensor.shape)}",
            hint=f"give one index per axis, e.g. {tensor.name}"
            + (f"[{', '.join('ijklmnpq'[: tensor.ndim])}]." if tensor.ndim else "()."),
        )
    indices = tuple([_index(tensor, position, value) for position, value in enumerate(given)])
    return checked_read(tensor, indices)


def _index(tensor: Tensor, position: int, value: object) -> Expr:
    if type(value) is Axis:
        return value
    if isinstance(value, slice) or value is Ellipsis or value is None:
        raise DefinitionError(
            f"index {position} of {tensor.name} is a slice; a formula reads one element.",
            where=f"{tensor.name} with shape {format_shape(tensor.shape)}",
            hint="define a new tensor over the slice, e.g. "
            f"compute((n,), lambda i: {tensor.name}[i + start]).",
        )
    if isinstance(value, (list, str)) or (isinstance(value, np.ndarray) and value.ndim):
        raise _no_integer(tensor, position, value, type(value).__name__)
    e = as_expr(value, INT64)
    if not e.dtype.is_integer:
        raise _no_integer(tensor, position, value, e.dtype)
    return e.astype("int64")


def from_the_end(e: Expr, n: Expr) -> Expr:
    """The index, of an axis of extent n, counted from its end where it is negative."""
    return select(e < 0, e + n, e)


def as_given(index: Expr, n: Expr) -> Expr | None:
    """`e` of `from_the_end(e, n)`; None for other indices."""
    if isinstance(index, Select) and index is from_the_end(index.orelse, n):
        return index.orelse
    return None


def _no_integer(tensor: Tensor, position: int, value: object, kind: str) -> DTypeError:
    text = _index_text(value)
    hint = "use // for integer division, or .astype('int64')."
    if isinstance(value, (list, np.ndarray)):
        hint = f"make a tensor of the indices, A = ta.const(array), and read {tensor.name}[A[i]]."
    return DTypeError(
        f"index {position} of {tensor.name} must be an integer, got {kind}.",
        where=f"{tensor.name}[..., {text}, ...]" if tensor.ndim > 1 else f"{tensor.name}[{text}]",
        hint=hint,
    )


def _index_text(value: object) -> str:
    return value.name if isinstance(value, Tensor) else " ".join(str(value).split())


array_methods.read_at.fill(read_at)
