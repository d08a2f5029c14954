"""What a tensor is at the moment: an array of a traced program, or what a formula reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final

from tensorad.ir import array_methods

_tracing: Final[ContextVar[bool]] = ContextVar("tracing", default=False)


def is_tracing() -> bool:
    """Whether a program is traced, and no formula inside of it is written."""
    return _tracing.get()


def tracing() -> AbstractContextManager[None]:
    """Inside, tensors are indexed, iterated over and compared as NumPy's arrays are."""
    return _set_to(True)


def in_formula() -> AbstractContextManager[None]:
    """Inside, tensors are read element by element: around a user's function of indices."""
    return _set_to(False)


@contextmanager
def _set_to(value: bool) -> Iterator[None]:
    before = _tracing.set(value)
    try:
        yield
    finally:
        _tracing.reset(before)


array_methods.is_tracing.fill(is_tracing)
