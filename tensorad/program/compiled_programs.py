"""Programs with their machine code, by the kinds of calls that they serve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Shape, Tensor
from tensorad.program.calling.arguments import (
    Extents,
    Shapes,
    as_argument,
    covers,
)
from tensorad.program.calling.quick import Run
from tensorad.program.data.instances import alternatives
from tensorad.program.traces import Program
from tensorad.program.trees import LEAF
from tensorad.program.values import is_number


class Compiled:
    """A program and, when it was called, its machine code."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._function: CompiledFunction | None = None

    @cached_property
    def has_values(self) -> bool:
        """Whether there are values of data types among the arguments or results."""
        every = (*self.program.parameters, *self.program.results)
        return any(is_record(t.dtype) for t in every)

    @property
    def function(self) -> CompiledFunction:
        if self._function is None:
            p = self.program
            self._function = build(list(p.results), list(p.parameters), p.name)
        return self._function

    def __call__(self, leaves: Sequence[object]) -> Any:
        if not self.program.results:
            return self.program.tree(())
        if self.has_values:
            return self.program.tree(self.function.with_values(leaves, alternatives.call))
        found = self.function(*leaves)
        if self.program.structure is LEAF:
            return found
        return self.program.tree([found] if isinstance(found, np.ndarray) else found)

    def takes(self, leaves: Sequence[object]) -> bool:
        """Whether the program is one for the shapes of these leaves."""
        has_sizes = any(not isinstance(n, int) for t in self.program.parameters for n in t.shape)
        return not has_sizes or self.function.takes(leaves)

    def of_numbers(self, leaves: Sequence[object]) -> Run:
        """The call with leaves among which there are numbers where there are numbers here."""
        params = self.program.parameters
        pairs = list(enumerate(zip(leaves, params, strict=True)))
        numbers = [(n, p.name, p.dtype) for n, (value, p) in pairs if is_number(value)]

        def run(leaves: list[Any]) -> Any:
            for n, path, dtype in numbers:
                leaves[n] = as_argument(leaves[n], path, dtype)
            return self(leaves)

        return run if numbers else self


class Kind:
    """Calls whose arguments differ in nothing but values and extents."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.shapes = Shapes(paths)
        self.made: list[tuple[tuple[Shape, ...], Compiled]] = []
        self.alone: dict[Extents, Compiled] = {}
        """By shapes that programs with sizes do not take."""
        self.is_fixed = False
        """Whether there must be numbers for all extents."""

    def known(self, given: Extents) -> Compiled | None:
        if given in self.alone:
            return self.alone[given]
        return next((c for shapes, c in reversed(self.made) if covers(shapes, given)), None)


class Example:
    """A call of a function, taken apart.

    Attributes:
        program: what it runs.
        leaves: the value of each parameter.
    """

    def __init__(self, made: Compiled, leaves: Sequence[Any]) -> None:
        self._made = made
        self.program = made.program
        self.leaves = list(leaves)

    @property
    def compiled(self) -> CompiledFunction:
        """The machine code."""
        return self._made.function

    @property
    def sizes(self) -> dict[str, int]:
        """The values of symbolic sizes."""
        found: dict[str, int] = {}
        for t, value in zip(self.program.parameters, self.leaves, strict=True):
            for extent, n in zip(t.shape, np.shape(value), strict=True):
                if not isinstance(extent, int):
                    found[str(extent)] = n
        return found

    @property
    def values(self) -> dict[Tensor, Any]:
        """The value of each parameter by its tensor."""
        return dict(zip(self.program.parameters, self.leaves, strict=True))
