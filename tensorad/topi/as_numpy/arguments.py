"""Arguments as NumPy's functions take them: tensors, arrays, lists of numbers; axes; orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorad import te
from tensorad.errors import DefinitionError
from tensorad.ir.node import Node
from tensorad.ir.tensor import Tensor
from tensorad.topi import transform
from tensorad.topi.arguments import as_integer, as_listed
from tensorad.topi.checks import check_tensor

Given = Any
"""A tensor, an array or a list of numbers."""
Axes = Any


def as_array(x: Given) -> Any:
    """Lists of numbers as arrays; tensors, expressions, numbers and arrays as they are."""
    return np.asarray(x) if isinstance(x, (list, tuple)) else x


def as_tensor(function: str, x: Given, argument: str = "a") -> Tensor:
    """An argument as a tensor.

    Raises:
        DefinitionError: it is none, nor an array.
        DTypeError: there are no tensors of its dtype.
    """
    array = x if isinstance(x, (Node, np.ndarray)) else np.asarray(x)
    if isinstance(array, np.ndarray) and not array.ndim:
        made: Tensor = te.compute((), lambda: te.const(array[()]), name="const")
        return made
    return check_tensor(function, argument, array)


def flat(x: Tensor) -> Tensor:
    """All elements along one axis."""
    return x if x.ndim == 1 else transform.reshape(x, -1)


def each(axes: Axes) -> tuple[Any, ...]:
    """One axis or several, as a tuple; what is neither stands there by itself."""
    listed = None if as_integer(axes) is not None else as_listed(axes)
    return (axes,) if listed is None else listed


def check_row_major(function: str, order: object) -> None:
    """Elements are asked for in the order that they have.

    Raises:
        DefinitionError: in another one.
    """
    if order not in ("C", "K", "A"):
        raise DefinitionError(
            f"np.{function} of a tensor: order {order!r}: elements are in row-major order.",
            hint="X.T.reshape(...) has them in column-major order.",
        )


def listed(function: str, arrays: Any) -> list[Tensor]:
    """The tensors and arrays of a list.

    Raises:
        DefinitionError: it is none.
    """
    given = as_listed(arrays)
    if given is None:
        raise DefinitionError(
            f"np.{function} takes a list of tensors and arrays, got {type(arrays).__name__}.",
            hint=f"e.g. np.{function}([X, Y]).",
        )
    return [as_tensor(function, a, f"arrays[{n}]") for n, a in enumerate(given)]
