"""What every operator ends with: one tensor by its formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorad import te
from tensorad.ir.tensor import Dim, Tensor


def define(shape: Sequence[Dim], body: Callable[..., Any], name: str) -> Tensor:
    """`te.compute` of a formula that is one element, not a tuple."""
    made: Tensor = te.compute(shape, body, name=name)
    return made
