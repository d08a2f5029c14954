"""Calls that are given references: written down where they are, until one calls itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import DType
from tensorad.program.calling.arguments import (
    Arguments,
    extents,
    leaf_dtypes,
    with_function_leaves,
)
from tensorad.program.calling.refusals import MOST_OPEN, check_nesting, made_anew, too_many
from tensorad.program.leaf_types import without_functions
from tensorad.program.references.frames import Cell, cells_of, current, logged, now
from tensorad.program.trees import Branching, Static, Structure

_MOST_ANEW: Final = 8
"""A function that gives each call of itself a reference of its own is nested no deeper."""
_MOST_INSIDE: Final = 1000
"""How often a function is written down, for other references, inside of one call of it."""


class CallKind(NamedTuple):
    """What calls agree in that differ in references, and in extents, alone."""

    structures: tuple[tuple[str, Structure], ...]
    """With nothing in the places of references."""
    ranks: tuple[int, ...]
    dtypes: tuple[DType, ...]


class CallsItself(Exception):
    """A call is one of a recursion: it is to be undone, and written down as that."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.name)
        self.call = call


class Call:
    """A call that is given references.

    Attributes:
        function: what is called, `name`: what errors call it.
        given: the arguments; `cells`: the references among them, in order.
        part: what of the program it is a part of; `born`: when it began.
        is_call: whether it stays one.
        inside: how often the function is written down inside of it.
        anew: how many calls around it, one in the other, made a reference for the next one.
    """

    def __init__(self, function: object, name: str, given: Arguments, is_fixed: bool) -> None:
        """`is_fixed`: whether functions among the arguments are those of their types."""
        self.function = function
        self.name = name
        self.given = given
        self.cells = references_of(given)
        self.part = current()
        self.born = now()
        self.is_call = False
        self.inside = 0
        self.anew = 0
        self._is_fixed = is_fixed
        self._kind = kind_of(given, is_fixed)
        pairs = zip(given.paths, self._kind.dtypes, strict=True)
        self._places = [path for path, dtype in pairs if dtype.is_function]
        self._extents = extents(given.leaves)

    def check(self, of_numbers: Container[CallKind]) -> None:
        """It is none of a recursion that is written down as something else.

        Args:
            of_numbers: kinds of calls that are other programs if extents differ.
        Raises:
            CallsItself: it is.
            DefinitionError: each call of a recursion makes a reference for the next one.
            LimitError: the function is nested too deep in itself, or written down too often.
        """
        every = [c for c in _open.get() if c.function is self.function]
        alike = [c for c in every if c._is_alike(self)]
        same = [c for c in alike if not c.is_call and c._is_same(self, of_numbers)]
        again = [c for c in same if c.part is not self.part]
        if again or len(same) >= MOST_OPEN:
            raise CallsItself((again or same)[0])
        around = [c for c in alike if c.part is not self.part]
        if around:
            self._count(around[0], around[-1])
        inside = [c.given for c in every if c.part is not self.part]
        check_nesting(inside, self.name, self.given)

    def written(self, in_place: Callable[[], Any], staying: Callable[[], Any]) -> Any:
        """The result: of what is done `in_place` or, where that calls itself and is undone, of a
        call that is `staying`."""
        token = _open.set((*_open.get(), self))
        try:
            with logged() as log:
                try:
                    return in_place()
                except CallsItself as found:
                    if found.call is not self:
                        raise
                    log.undo()
            self.is_call = True
            return staying()
        finally:
            _open.reset(token)

    def _is_alike(self, other: Call) -> bool:
        """Whether another call differs in references and extents alone."""
        return kind_of(other.given, self._is_fixed, self._places) == self._kind

    def _is_same(self, other: Call, of_numbers: Container[CallKind]) -> bool:
        """Whether one that is alike is a call of the same program."""
        if other.cells != self.cells:
            return False
        if self._kind not in of_numbers:
            return True
        pairs = zip(self._extents, extents(other.given.leaves), strict=True)
        return all(same_dim(a, b) for one, two in pairs for a, b in zip(one, two, strict=True))

    def _count(self, outermost: Call, around: Call) -> None:
        """Of the calls around it that are alike, note that it is inside."""
        made = [cell for cell in self.cells if cell.born > around.born]
        self.anew = around.anew + 1 if made else 0
        if self.anew > _MOST_ANEW:
            raise made_anew(self.name, self.given, made[0])
        outermost.inside += 1
        if outermost.inside > _MOST_INSIDE:
            raise too_many(self.name, _MOST_INSIDE, self.cells)


_open: Final[ContextVar[tuple[Call, ...]]] = ContextVar("open", default=())
"""The calls that are being written down, the outermost first."""


def references_of(given: Arguments) -> list[Cell]:
    """The references among the arguments."""
    return [cell for name, s in given.structures for _, cell in cells_of(s, name)]


def kind_of(given: Arguments, is_fixed: bool, places: Collection[str] = ()) -> CallKind:
    """What a call agrees in with others that differ in references, and in extents, alone.

    Args:
        is_fixed: whether functions are those of their types.
        places: paths of functions that are leaves.
    """
    own = with_function_leaves(given, places)
    dtypes = leaf_dtypes(own.leaves, own.paths)
    return CallKind(
        tuple([(name, _without_references(s)) for name, s in own.structures]),
        tuple([len(s) for s in extents(own.leaves)]),
        dtypes if is_fixed else without_functions(dtypes),
    )


def _without_references(structure: Structure) -> Structure:
    """The structure with nothing in the places of references."""
    if isinstance(structure, Static) and isinstance(structure.value, Cell):
        return Static(Cell, None)
    if isinstance(structure, Branching):
        own = tuple([_without_references(c) for c in structure.children])
        return replace(structure, children=own)
    return structure
