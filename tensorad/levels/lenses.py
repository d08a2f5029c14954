"""Lenses between duals and plain values: a dual made of two parts, and the parts of a dual.

After the RFC "Forward AD in PyTorch", appendix "View semantic definition". Perturbations belong to
what is looked through, not to memory: two duals of one primal have tangents of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import add, mul
from typing import Any, Protocol, Self

from tensorad.autodiff.control.pieces import zeros_like
from tensorad.ir.tensor import Tensor
from tensorad.levels.duals import make_dual, unpack_dual
from tensorad.levels.stack import Level, level_for
from tensorad.program.trees import Flat, flatten, unflatten
from tensorad.program.values import as_tensor


class Lens(Protocol):
    """A reference, a view of one, or a lens of this file."""

    def get(self) -> Any:
        """What it shows."""

    def set(self, tree: Any, /) -> None:
        """Let it show something else."""

    @property
    def at(self) -> Any:
        """The same, of which parts are taken."""


class _OfDuals(ABC):
    """What lenses of duals have in common."""

    def __init__(self, level: Level | int | None) -> None:
        self.level = level_for(level, type(self).__name__)

    @abstractmethod
    def get(self) -> Any:
        """What it shows."""

    @abstractmethod
    def set(self, tree: Any, /) -> None:
        """Let it show something else."""

    def add(self, value: Any) -> None:
        """Add a dual or a plain value to the array that it shows."""
        self.set(add(self.get(), value))

    def mul(self, value: Any) -> None:
        """Multiply the array that it shows by a dual or a plain value."""
        self.set(mul(self.get(), value))


class DualView(_OfDuals):
    """A dual whose parts are held elsewhere; a write goes to both of them.

    What is set without a tangent has zeros for one. Where a part is dual at this level itself, it
    keeps the tangent that it has.
    """

    def __init__(self, primal: Lens, tangent: Lens, level: Level | int | None = None) -> None:
        """
        Args:
            primal, tangent: references, views or lenses, of trees alike.
            level: one that is open, or its number; None: the innermost one.
        Raises:
            GradError: the level is not open.
        """
        super().__init__(level)
        self.primal, self.tangent = primal, tangent

    @property
    def at(self) -> DualView:
        """The lens itself: parts are the pairs of the parts of both."""
        return self

    def __getitem__(self, key: object) -> DualView:
        """The pair of what the index, or key, selects of both parts."""
        return DualView(self.primal.at[key], self.tangent.at[key], self.level)

    @property
    def T(self) -> DualView:
        """The axes of both parts in reverse order."""
        return DualView(self.primal.at.T, self.tangent.at.T, self.level)

    def reshape(self, *shape: Any) -> DualView:
        """Both parts in another shape."""
        primal, tangent = self.primal.at, self.tangent.at
        return DualView(primal.reshape(*shape), tangent.reshape(*shape), self.level)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> DualView:
        """The diagonals of both parts."""
        along = (offset, axis1, axis2)
        primal, tangent = self.primal.at, self.tangent.at
        return DualView(primal.diagonal(*along), tangent.diagonal(*along), self.level)

    def get(self) -> Any:
        """The dual.

        Raises:
            GradError: a part has a tangent at this level itself.
        """
        return make_dual(self.primal.get(), self.tangent.get(), self.level)

    def set(self, tree: Any, /) -> None:
        """Let the parts be those of a dual, or of a plain tree, whose tangent is zero."""
        flat, values, tangents = _apart(tree, self.level)
        PrimalView(self.primal, self.level).set(unflatten(flat.structure, values))
        filled = _filled(values, tangents)
        PrimalView(self.tangent, self.level).set(unflatten(flat.structure, filled))


class _Part(_OfDuals):
    """One of the two parts of a dual."""

    def __init__(self, of: Lens, level: Level | int | None = None) -> None:
        """
        Args:
            of: a reference, view or lens.
            level: one that is open, or its number; None: the innermost one.
        Raises:
            GradError: the level is not open.
        """
        super().__init__(level)
        self.of = of

    @property
    def at(self) -> Self:
        """The lens itself, of which parts are taken."""
        return self

    def __getitem__(self, key: object) -> Self:
        """This part of what the index, or key, selects."""
        return type(self)(self.of.at[key], self.level)


class PrimalView(_Part):
    """The values of a dual; a write keeps its tangent."""

    def get(self) -> Any:
        """The values, without tangents at this level."""
        return unpack_dual(self.of.get(), self.level)[0]

    def set(self, tree: Any, /) -> None:
        """Let the values be those of the tree, whatever tangent it has at this level."""
        _, held, tangents = _apart(self.of.get(), self.level)
        flat, values, _ = _apart(tree, self.level)
        value = unflatten(flat.structure, values)
        if any(t is not None for t in tangents):
            kept = unflatten(flat.structure, _filled(held, tangents))
            value = make_dual(value, kept, self.level)
        self.of.set(value)


class TangentView(_Part):
    """The tangent of a dual, zeros where it has none; a write keeps its values."""

    def get(self) -> Any:
        """The tangent; None at integers."""
        flat, values, tangents = _apart(self.of.get(), self.level)
        return unflatten(flat.structure, _filled(values, tangents))

    def set(self, tree: Any, /) -> None:
        """Let the tangent be the tree, without a tangent of its own at this level."""
        value = unpack_dual(self.of.get(), self.level)[0]
        self.of.set(make_dual(value, unpack_dual(tree, self.level)[0], self.level))


def _apart(tree: Any, level: Level) -> tuple[Flat, list[Any], list[Tensor | None]]:
    """A tree taken apart; its values, and its tangents where it has some."""
    flat = flatten(tree)
    values, tangents = unpack_dual(flat.leaves, level)
    return flat, values, tangents


def _filled(values: Sequence[Any], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tangents, with zeros where floats have none."""
    made: list[Tensor | None] = []
    for value, tangent in zip(values, tangents, strict=True):
        t = as_tensor(value, "value")
        missing = tangent is None and t.dtype.is_float
        made.append(zeros_like(t, ()) if missing else tangent)
    return made
