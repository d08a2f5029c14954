"""The steps of loops that PyTorch's users compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a loop in Python, compiled: of a whole loop each iteration would be."""
    import torch

    made: Callable[..., Any] = torch.compile(step, dynamic=False)
    return made
