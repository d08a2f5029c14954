"""What optimisers do with one weight: dtypes, zeros; what is static of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Tensor
from tensorad.program.values import is_number
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
