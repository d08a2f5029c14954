"""References that data choose: reading and writing one is a branch over those it may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tensorad.program.branches import branched
from tensorad.program.leaf_types import chosen
from tensorad.program.references.contents import fitted
from tensorad.program.references.frames import Cell, Held
from tensorad.program.references.reference import Ref
from tensorad.program.trees import flatten, register_tree, unflatten
from tensorad.program.values import as_tensor, dtype_of


class Chosen(Ref):
    """One of several references; a 0-d integer tells which.

    Attributes:
        tag: its number; `cells`: those it may be.
    """

    def __init__(self, tag: Any, cells: Sequence[Cell]) -> None:
        self.tag = tag
        self.cells = tuple(cells)
        self.name = " or ".join([c.name for c in cells])
        self.source = " or ".join(dict.fromkeys([c.source for c in cells]))

    def each(self, do: Callable[[Any], Any]) -> Any:
        """What is done with the one that it is; the others stay as they are."""
        sides = {f"{n} {c.name}": partial(do, c) for n, c in enumerate(self.cells)}
        tag = as_tensor(self.tag, "tag")
        return branched(self.name, self.described, tag, sides, (), order=tuple(sides))

    def read(self) -> Held:
        """What it holds here."""
        flat = flatten(self.each(_content), self.name)
        dtypes = tuple([dtype_of(v) for v in flat.leaves])
        return Held(tuple(flat.leaves), tuple(flat.paths), flat.structure, dtypes)

    def write(self, held: Held) -> None:
        """Let it hold something else from here on."""
        tree = unflatten(held.structure, held.leaves)
        self.each(lambda c: c.write(fitted(c, c.read(), tree, c.name)))


def _content(cell: Cell) -> Any:
    held = cell.read()
    return unflatten(held.structure, held.leaves)


def _put_together(meta: object, children: Sequence[Any]) -> Chosen:
    return Chosen(children[0], children[1:])


chosen.fill(lambda: Chosen)
register_tree(Chosen, lambda c: ((c.tag, *c.cells), None), _put_together)
