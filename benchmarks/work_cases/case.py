"""What one line of the table of work is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tensorad import te
from tensorad.ir.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Problem:
    """A program to differentiate.

    Attributes:
        y: what is differentiated; the head has its shape.
        wrt: by which inputs.
        sizes: values of symbolic sizes, used for counting.
        arrays: values of integer inputs, used for checking.
    """

    y: Tensor
    wrt: tuple[Tensor, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    arrays: Mapping[Tensor, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ByHand:
    """The loops of a backward pass that a person would write, its head and inputs given."""

    iterations: int
    multiplications: int


@dataclass(frozen=True, eq=False)
class Case:
    """One row: a program in two sizes.

    Attributes:
        make: the program with its extents increased by that much; 0 is the one counted.
        by_hand: the counts of the hand-written backward, where one is known.
        second: whether the gradient of the gradient is a row of its own.
        growth: two increases whose gradients must have equally many nodes; empty where the
            form of the index expressions depends on how the extents divide each other.
    """

    name: str
    make: Callable[[int], Problem]
    by_hand: ByHand | None = None
    second: bool = False
    growth: tuple[int, ...] = (6, 12)


_dtype: ContextVar[str] = ContextVar("_dtype", default="float32")


@contextmanager
def inputs_of(dtype: str) -> Iterator[None]:
    """Programs made inside have inputs of this dtype instead of float32."""
    token = _dtype.set(dtype)
    try:
        yield
    finally:
        _dtype.reset(token)


def inputs(*shapes: tuple[Any, ...], names: str = "XWBVZ") -> list[Tensor]:
    """Float inputs X, W, B, ... of these shapes."""
    dtype = _dtype.get()
    return [te.placeholder(s, dtype, n) for s, n in zip(shapes, names, strict=False)]


def by(y: Tensor, *wrt: Tensor, **sizes: int) -> Problem:
    """A program without integer inputs."""
    return Problem(y, wrt, sizes)
