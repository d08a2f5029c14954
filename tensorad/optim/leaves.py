"""What optimisers do with one weight: dtypes, zeros; what is static of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program.calls import shape_of
from tensorad.program.mapping import mapped
from tensorad.program.trees import flatten
from tensorad.program.values import dtype_of, is_number
from tensorad.topi import full_like

STATIC: Final = {"static": True}
"""The metadata of fields that are known when a program is traced."""


def like(leaf: Any, value: Any) -> Any:
    """A value in the dtype of a leaf; Python numbers have none."""
    return value if is_number(leaf) or is_number(value) else value.astype(str(leaf.dtype))


def zeros_like(leaf: Any) -> Any:
    """Zeros for an array, a tensor or a Python number."""
    if isinstance(leaf, Tensor):
        return full_like(leaf, 0)
    return 0.0 if is_number(leaf) else np.zeros_like(leaf)


def check_alike(owner: str, trees: Mapping[str, object]) -> None:
    """Trees have one structure, and leaves of one shape at each place; weights are floats.

    Args:
        owner: whose arguments they are. trees: by name, the weights first.
    Raises:
        DefinitionError, ShapeError, DTypeError: they do not; the text says where.
    """
    mapped(lambda *leaves: None, trees, owner, "weights")
    first, *others = [flatten(tree, name) for name, tree in trees.items()]
    for leaf, path in zip(first.leaves, first.paths, strict=True):
        dtype = dtype_of(leaf)
        if not dtype.is_float and not dtype.is_weak:
            raise DTypeError(
                f"{path} of {owner} is {dtype}: steps would be cut to it.",
                hint="begin with floats; keep what is not learned out of the weights.",
            )
    for other in others:
        for n, (leaf, another) in enumerate(zip(first.leaves, other.leaves, strict=True)):
            one, two = shape_of(leaf), shape_of(another)
            if len(one) != len(two) or not all(map(same_dim, one, two)):
                raise ShapeError(
                    f"{first.paths[n]} has shape {format_shape(one)}, {other.paths[n]} has shape "
                    f"{format_shape(two)} in {owner}.",
                    hint="gradients are those of one number, such as a mean over a batch, by the "
                    "weights; states come from init or the step before.",
                )


def check_decay(optimiser: str, name: str, value: object) -> None:
    """A decay is a Python number below 1.

    Raises:
        DefinitionError: it is none; the names say which.
    """
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise DefinitionError(
            f"{name} of {optimiser} is {value!r}, which is not from 0 on and below 1.",
            hint=f"pass a Python number such as 0.9; only the rate of {optimiser} may be a tensor.",
        )
