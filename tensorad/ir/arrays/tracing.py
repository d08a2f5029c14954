"""What a tensor is at the moment: an array of a traced program, or what a formula reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

from tensorad.ir import array_methods
from tensorad.ir.tensor import Tensor

_tracing: Final[ContextVar[bool]] = ContextVar("tracing", default=False)

_stand_ins: Final[ContextVar[Mapping[Tensor, None]]] = ContextVar(
    "stand_ins", default=MappingProxyType({})
)


def is_tracing() -> bool:
    """Whether a program is traced, and no formula inside of it is written."""
    return _tracing.get()


def tracing() -> AbstractContextManager[None]:
    """Inside, tensors are indexed, iterated over and compared as NumPy's arrays are."""
    return _set_to(True)


def in_formula() -> AbstractContextManager[None]:
    """Inside, tensors are read element by element: around a user's function of indices."""
    return _set_to(False)


def stand_ins() -> Mapping[Tensor, None]:
    """Tensors that stand for others here, so that how they are computed tells nothing."""
    return _stand_ins.get()


@contextmanager
def standing_in(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Inside, these are parameters, though they are computed: of a function that captures them."""
    token = _stand_ins.set(dict.fromkeys((*_stand_ins.get(), *tensors)))
    try:
        yield
    finally:
        _stand_ins.reset(token)


@contextmanager
def _set_to(value: bool) -> Iterator[None]:
    before = _tracing.set(value)
    try:
        yield
    finally:
        _tracing.reset(before)


array_methods.is_tracing.fill(is_tracing)
