"""Values from few derivatives along directions: columns (or rows) of one colour share one.

For programs whose pattern depends on data or is no union of few integer sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorad.autodiff.forward import jvp
from tensorad.autodiff.reverse import vjp
from tensorad.building import build
from tensorad.codegen.runtime.arena import Array
from tensorad.compiled import CompiledFunction
from tensorad.ir.arrays.elementwise import astype
from tensorad.ir.dtypes import DType
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.sparse.cells import elements, extents
from tensorad.sparse.colouring import colour_columns, transposed
from tensorad.sparse.links import Dependence


@dataclass(frozen=True, eq=False)
class Recipe:
    """How the values of one pattern are gathered from derivatives along directions.

    Direction c is the sum of the columns (rows, if reverse) of colour c; entry `order[k]` of the
    data, start[c] <= k < start[c+1], is element `place[k]` of the derivative along it.
    """

    reverse: bool
    colour: Array
    order: Array
    place: Array
    start: Array


class Compressed:
    """A matrix whose pattern is found at run time."""

    def __init__(self, outputs_: Sequence[Tensor], wrt: Sequence[Tensor], reason: str) -> None:
        self.outputs = tuple(outputs_)
        self.wrt = tuple(wrt)
        self.reason = reason
        self.shape = elements(*outputs_), elements(*wrt)
        self.dependence = Dependence(outputs_, wrt)
        self.pattern_inputs = self.dependence.inputs
        self._functions: dict[object, CompiledFunction] = {}
        self._last: tuple[list[Array], tuple[Array, Array]] | None = None
        self._recipe: tuple[tuple[Array, Array], Recipe] | None = None

    @property
    def directions(self) -> int:
        """How many derivatives the last fill took; 0 before the first."""
        return 0 if self._recipe is None else len(self._recipe[1].start) - 1

    def pattern(self, values: Mapping[Tensor, Array]) -> tuple[Array, Array]:
        """(indptr, indices) at these inputs; found again only when what it depends on changed."""
        arrays = [values[t] for t in self.pattern_inputs]
        if self._last is not None:
            before, found = self._last
            if all(map(np.array_equal, before, arrays)):
                return found
        found = self.dependence.pattern(arrays)
        if max(*self.shape, len(found[1])) < 2**31:
            found = found[0].astype(np.int32), found[1].astype(np.int32)
        for a in found:
            a.flags.writeable = False
        self._last = [a.copy() for a in arrays], found
        return found

    def fill(
        self,
        inputs: Sequence[Tensor],
        values: Mapping[Tensor, Array],
        dtype: DType,
        out: Array,
    ) -> None:
        """Write the value of every entry of `pattern(values)`."""
        recipe = self._recipe_for(self.pattern(values))
        function = self._derivative(inputs, recipe.reverse, dtype)
        ends = self.outputs if recipe.reverse else self.wrt
        arrays = [values[t] for t in inputs]
        for c in range(len(recipe.start) - 1):
            direction = (recipe.colour == c).astype(str(dtype))
            found = function(*arrays, *_split(direction, ends))
            parts = [found] if isinstance(found, np.ndarray) else found
            along = np.concatenate([p.ravel() for p in parts])
            entries = slice(recipe.start[c], recipe.start[c + 1])
            out[recipe.order[entries]] = along[recipe.place[entries]]

    def _recipe_for(self, pattern: tuple[Array, Array]) -> Recipe:
        if self._recipe is None or self._recipe[0] is not pattern:
            self._recipe = pattern, recipe_of(*pattern, self.shape[1])
        return self._recipe[1]

    def _derivative(
        self, inputs: Sequence[Tensor], reverse: bool, dtype: DType
    ) -> CompiledFunction:
        key = (tuple(inputs), reverse)
        if key not in self._functions:
            ends = self.outputs if reverse else self.wrt
            names = [f"direction {n}" for n in range(len(ends))]
            seeds = [
                outputs(Placeholder(name, t.shape, t.dtype))[0]
                for name, t in zip(names, ends, strict=True)
            ]
            results = _pulled(self, seeds) if reverse else _pushed(self, seeds)
            made = [astype(t, dtype) if t.dtype is not dtype else t for t in results]
            self._functions[key] = build(made, [*inputs, *seeds], "directional derivative")
        return self._functions[key]


def _pushed(m: Compressed, seeds: Sequence[Tensor]) -> list[Tensor]:
    tangents = dict(zip(m.wrt, seeds, strict=True))
    return [jvp(y, tangents) for y in m.outputs]


def _pulled(m: Compressed, seeds: Sequence[Tensor]) -> list[Tensor]:
    totals: list[Tensor] = []
    for y, seed in zip(m.outputs, seeds, strict=True):
        found = vjp(y, list(m.wrt), seed)
        totals = [a + b for a, b in zip(totals, found, strict=True)] if totals else found
    return totals


def recipe_of(pointers: Array, columns: Array, width: int) -> Recipe:
    """Columns in few colours, or rows where these promise fewer."""
    longest = int(np.diff(pointers).max(initial=0))
    tallest = int(np.bincount(columns, minlength=1).max(initial=0))
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    reverse = tallest < longest
    if reverse:
        starts, entries = transposed(pointers, columns, width)
        colour = colour_columns(starts, entries, len(pointers) - 1)
        own, place = colour[rows], columns
    else:
        colour = colour_columns(pointers, columns, width)
        own, place = colour[columns], rows
    order = np.argsort(own, kind="stable")
    count = int(colour.max(initial=-1)) + 1 if len(columns) else 0
    start = np.searchsorted(own[order], np.arange(count + 1))
    return Recipe(reverse, colour, order, place[order], start)


def _split(flat: Array, tensors: Sequence[Tensor]) -> list[Array]:
    parts, at = [], 0
    for t in tensors:
        size = elements(t)
        parts.append(flat[at : at + size].reshape(extents(t)).astype(str(t.dtype)))
        at += size
    return parts
