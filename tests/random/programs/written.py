"""Typed programs as trees of steps, which run twice: traced by tensorad, and by NumPy in float64.

Each value has a dtype, a shape of numbers and sizes, and a bound of its magnitude. NumPy's run is
the program unrolled: its loops are Python's, its branches take one side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorad as ta

Dim = int | str
"""A number, or the name of a size."""
Env = dict[int, Any]


class Pair(NamedTuple):
    """A tree of two."""

    left: Any
    right: Any


@dataclass(frozen=True)
class Value:
    """A value: its number, and what is known of it.

    Attributes:
        high: a bound of a float's magnitude; an integer lies in [0, high].
    """

    number: int
    dtype: str
    shape: tuple[Dim, ...]
    high: float = 2.0

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def kind(self) -> tuple[str, tuple[Dim, ...]]:
        return self.dtype, self.shape

    def __str__(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True)
class Counter:
    """The counter of a loop: an integer in [0, high)."""

    number: int
    high: Dim

    def __str__(self) -> str:
        return f"i{self.number}"


@dataclass(frozen=True)
class Mode:
    """How a program runs.

    Attributes:
        sizes: what sizes are: numbers, or those of the IR.
        is_traced: by tensorad; otherwise by NumPy.
    """

    sizes: Mapping[str, Any]
    is_traced: bool

    def dim(self, d: Dim) -> Any:
        return self.sizes[d] if isinstance(d, str) else d

    def shape(self, shape: Sequence[Dim]) -> tuple[Any, ...]:
        return tuple([self.dim(d) for d in shape])


@dataclass(frozen=True)
class Step:
    """Values from others.

    Attributes:
        made: what it makes.
        text: what it does.
        run: (mode, values so far) -> what it makes.
        blocks: the texts of its blocks, by title.
    """

    made: tuple[Value, ...]
    text: str
    run: Callable[[Mode, Env], Sequence[Any]]
    blocks: tuple[tuple[str, Block], ...] = ()


@dataclass
class Block:
    """Steps in order, and which values are its results."""

    steps: list[Step] = field(default_factory=list)
    results: tuple[Value, ...] = ()

    def run(self, mode: Mode, env: Mapping[int, Any]) -> list[Any]:
        own = dict(env)
        for step in self.steps:
            for value, found in zip(step.made, step.run(mode, own), strict=True):
                if mode.is_traced and isinstance(found, ta.Tensor):
                    assert str(found.dtype) == value.dtype, (step.text, found.dtype)
                    assert found.ndim == len(value.shape), (step.text, found.shape)
                own[value.number] = found
        return [own[v.number] for v in self.results]

    def lines(self, indent: str = "") -> list[str]:
        made = []
        for step in self.steps:
            names = ", ".join([f"{v} : {v.dtype}{list(v.shape)}" for v in step.made])
            made.append(f"{indent}{names} = {step.text}")
            for title, block in step.blocks:
                made += [f"{indent}  {title}:", *block.lines(indent + "    ")]
        return [*made, f"{indent}return {', '.join(map(str, self.results))}"]


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The shape of both, if there is one."""
    n = max(len(a), len(b))
    made: list[Dim] = []
    for p, q in zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True):
        if p != q and 1 not in (p, q):
            return None
        made.append(q if p == 1 else p)
    return tuple(made)
