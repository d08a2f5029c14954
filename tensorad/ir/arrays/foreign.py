"""Calls of functions of Python, on arrays: what no formula tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorad.ir.tensor import FunctionCall

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[Sequence[Array], Sequence[tuple[int, ...]]], Sequence[Array]]
"""(arrays, shapes of the results) -> results, checked; the arrays are its own."""


@dataclass(frozen=True, eq=False)
class Foreign(FunctionCall):
    """The results of a function of Python on the operands, a function of their elements alone.

    Its block has params like the operands and placeholders, which have no values, as results: they
    tell shapes and dtypes. Its rule has neither direction: a derivative through it is an error.
    """

    run: Run = field(kw_only=True)
