"""Tensors made of tensors, as arrays of a traced program are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorad.ir.arrays.tracing import tracing


def arrays_made(make: Callable[[Sequence[Any]], Any], params: Sequence[Any]) -> Any:
    """What `make` makes, where tensors are indexed and compared as arrays are."""
    with tracing():
        return make(params)
