"""JAX with numbers of 64 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def wide_jax() -> Iterator[None]:
    """Arrays of JAX may have 64 bits, which is off otherwise."""
    jax: Any = pytest.importorskip("jax", reason="jax is not installed")
    with jax.enable_x64(True):
        yield
