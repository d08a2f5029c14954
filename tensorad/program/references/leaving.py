"""References that arms of branches, and functions that are blocks, made and give away."""

from __future__ import annotations

from collections.abc import Mapping

from tensorad.program.leaf_types import references_in
from tensorad.program.references.frames import Cell, Frame, current
from tensorad.program.trees import Branching, Structure, leaf_maker

Places = dict[str, tuple[Cell, ...]]
"""Where a tree has references, and which each may be: several where data choose."""


def places_of(structure: Structure, path: str) -> Places:
    """The references of a tree, but for those that functions and values of data types have."""
    found: Places = {}
    stack = [(structure, path)]
    while stack:
        at, path = stack.pop()
        some = references_in(at)
        if some:
            found[path] = tuple([c for c in some if isinstance(c, Cell)])
        elif isinstance(at, Branching) and leaf_maker(at) is None:
            pairs = zip(at.children, at.keys, strict=True)
            stack += [(child, path + key) for child, key in pairs][::-1]
    return found


def give_out(
    trees: Mapping[str, Structure], own: Mapping[str, Frame], name: str
) -> dict[Cell, None]:
    """Let references that arms of a branch made, and return or leave in others, be outside of it.

    What such a one holds is a result of the branch, as what the branch writes is. In an arm that
    did not make it that is what the reference holds that this arm has in its place: nobody asks.

    Args:
        trees: what each arm returns; `own` the frames of arms, which are closed.
        name: what paths begin with.
    Returns:
        them.
    """
    written = dict.fromkeys([c for f in own.values() for c in f.after])
    found = [(name, dict(trees))]
    found += [(c.name, {t: f.left(c).structure for t, f in own.items()}) for c in written]
    given: dict[Cell, None] = {}
    while found:
        path, structures = found.pop()
        columns = {title: places_of(s, path) for title, s in structures.items()}
        for at in dict.fromkeys([p for places in columns.values() for p in places]):
            row = {title: places[at] for title, places in columns.items() if at in places}
            made = [(t, c) for t, some in row.items() for c in some if c.home is own[t]]
            for title, cell in made:
                if cell in given:
                    continue
                given[cell] = None
                held = {t: own[t].left(cell if t == title else some[0]) for t, some in row.items()}
                found.append((cell.name, {t: h.structure for t, h in held.items()}))
                for t, h in held.items():
                    own[t].after[cell] = h
    for cell in given:
        cell.home = current()
    return given
