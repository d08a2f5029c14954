"""References that bodies of loops make, and carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.errors import DefinitionError
from tensorad.program.leaf_types import chosen
from tensorad.program.references.contents import under
from tensorad.program.references.frames import Cell, Frame, Held
from tensorad.program.references.leaving import Places, places_of
from tensorad.program.references.reference import Ref
from tensorad.program.trees import Branching, Flat, Static, Structure, static


class Standing:
    """References around a loop that stand for those that its body makes and carries, one for each
    place of the carry; what they hold is carried.

    A body never has one: it gets references of its own that hold the same. So no other place can
    have one either, and what they hold may be replaced after each iteration.
    """

    def __init__(self, where: str, name: str) -> None:
        """`where`: the loop, for errors; `name`: what paths of the carry begin with."""
        self.where = where
        self.name = name
        self._at: dict[str, Ref] = {}

    def given(self, structure: Structure) -> Structure:
        """A carry as the body gets it, in its frame."""
        standing = dict.fromkeys(self._at.values())
        own: dict[Cell, Cell] = {c: Ref(c.name, c.source, c.held) for c in standing}
        return _renamed(structure, own)

    def leave(self, after: Flat, own: Frame) -> None:
        """Let those that stand hold what the body leaves in the carry, in its frame, `own`.

        Raises:
            DefinitionError: data choose whether several places have one reference.
        """
        made, every = self._made(after, own), places_of(after.structure, self.name)
        found: dict[Ref, Held] = {}
        for path, cells in made.items():
            if path in self._at:
                is_one = len({*cells}) == 1
                held = _held(after, path, cells if is_one else every[path])
                found[self._at[path]] = under(held, self._at[path].name)
        for cell, held in found.items():
            own.hold(cell, held)

    def stand(self, before: Flat, after: Flat, own: Frame) -> Flat:
        """What the body leaves, with those that stand in the place of its own references.

        Args:
            before: the carry before the first iteration; where it has a reference, what that holds
                is what a new one holds first: nobody asks.
            own: the frame of the body, which is closed.
        """
        made, first = self._made(after, own), places_of(before.structure, self.name)
        for path, cells in made.items():
            if path in self._at or path not in first:
                continue
            twin = next((p for p in self._at if made.get(p) == cells), None)
            if twin is None:
                content = under(_held(before, path, first[path]), cells[0].name)
                self._at[path] = Ref(cells[0].name, cells[0].source, content)
            else:
                self._at[path] = self._at[twin]
        others: dict[Cell, Cell] = {}
        for path in [p for p in made if p in self._at]:
            others.update(dict.fromkeys(made[path], self._at[path]))
        return after._replace(structure=_renamed(after.structure, others))

    def _made(self, after: Flat, own: Frame) -> Places:
        """Where the carry has references of the body, and which each may be.

        Raises:
            DefinitionError: see `leave`.
        """
        places = places_of(after.structure, self.name)
        found = {p: tuple([c for c in some if c.home is own]) for p, some in places.items()}
        found = {p: some for p, some in found.items() if some}
        by_cell: dict[Cell, str] = {}
        for path, cells in found.items():
            for cell in dict.fromkeys(cells):
                other = by_cell.setdefault(cell, path)
                if other != path and not len({*cells}) == len({*found[other]}) == 1:
                    raise DefinitionError(
                        f"data choose whether two parts of the carry of {self.where} are one "
                        f"reference that its body made: {cell.described}.",
                        where=f"{other}, {path}",
                        hint="make the references outside, as many as there are, and let the body "
                        "choose among them.",
                    )
        return found


def _held(flat: Flat, path: str, cells: Sequence[Cell]) -> Held:
    """What the reference at a place holds, one of these; what it holds if it is another one does
    not matter."""
    if len({*cells}) == 1:
        return cells[0].read()
    found: Held = chosen.call()(flat.leaves[flat.paths.index(f"{path}[0]")], cells).read()
    return found


def _renamed(structure: Structure, others: Mapping[Cell, Cell]) -> Structure:
    """A tree with other references in the place of some."""
    if isinstance(structure, Static):
        found = others.get(structure.value) if isinstance(structure.value, Cell) else None
        return structure if found is None else static(found)
    if isinstance(structure, Branching):
        children = tuple([_renamed(c, others) for c in structure.children])
        return Branching(structure.kind, structure.meta, structure.keys, children)
    return structure
