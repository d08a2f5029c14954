"""Distinct names in a text, for axes, sizes and tensors that may be called alike."""

from __future__ import annotations

from collections.abc import Iterable

from tensorad.ir.nodes import LocalSize, Size
from tensorad.ir.tensor import Control, Op, Tensor


class Names:
    """Distinct names: the first keeps its own, later ones get _1, _2, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.counts: dict[str, int] = dict.fromkeys(taken, 1)

    def unique(self, name: str) -> str:
        number = self.counts.get(name, 0)
        text = name if number == 0 else f"{name}_{number}"
        while number and text in self.counts:
            number += 1
            text = f"{name}_{number}"
        self.counts[name] = number + 1
        self.counts.setdefault(text, 1)
        return text


class SizeNames:
    """Names of sizes: those of loops go by their labels, numbered where two have the same."""

    def __init__(self) -> None:
        self.names = Names()
        self.known: dict[Size, str] = {}

    def __call__(self, e: Size) -> str:
        if e not in self.known:
            self.known[e] = self.names.unique(e.label) if isinstance(e, LocalSize) else e.name
            self.names.counts.setdefault(self.known[e], 1)
        return self.known[e]


class CallSizes:
    """Names of sizes that calls of definitions give: each has one in the whole text.

    Attributes:
        names: those of all sizes so far.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.known: dict[Size, str] = {}

    def add(self, sizes: Iterable[LocalSize]) -> None:
        """Name what has no name yet."""
        for s in sizes:
            if s not in self.known:
                self.known[s] = self.names.unique(s.label)

    def __call__(self, size: Size) -> str | None:
        """What a size is called in a function; None for those of loops."""
        if isinstance(size, LocalSize):
            return self.known.get(size)
        self.names.counts.setdefault(size.name, 1)
        return size.name


class TensorNames:
    """Names of operations, numbered in the order they are first asked for."""

    def __init__(self, first: Iterable[Tensor]) -> None:
        self.names = Names()
        self.sizes = SizeNames()
        self.by_op: dict[Op | Tensor, str] = {}
        """Of operations with blocks by output: each has a name of its own."""
        for t in first:
            self(t)

    def __call__(self, t: Tensor) -> str:
        key, name = (t, t.name) if isinstance(t.op, Control) else (t.op, t.op.name)
        if key not in self.by_op:
            self.by_op[key] = self.names.unique(name)
        return self.by_op[key] + t.name[len(name) :]
