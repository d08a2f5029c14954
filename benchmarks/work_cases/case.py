"""What one line of the table of work is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        searched: the name of the search over loop nests that shows B out of reach.
        tight: whether the larger program must have as many nodes.
    """

    name: str
    make: Callable[[int], Problem]
    by_hand: ByHand | None = None
    second: bool = False
    searched: str = ""
    tight: bool = True


def inputs(*shapes: tuple[Any, ...], names: str = "XWBVZ") -> list[Tensor]:
    """Float inputs X, W, B, ... of these shapes."""
    return [te.placeholder(s, name=n) for s, n in zip(shapes, names, strict=False)]


def by(y: Tensor, *wrt: Tensor, **sizes: int) -> Problem:
    """A program without integer inputs."""
    return Problem(y, wrt, sizes)
