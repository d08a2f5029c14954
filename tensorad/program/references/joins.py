"""What arms of branches and bodies of loops leave in references, leaf by leaf."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import DType
from tensorad.ir.tensor import Tensor
from tensorad.program.calls import shape_of
from tensorad.program.data.function_types import is_function
from tensorad.program.data.function_types import joined as joined_functions
from tensorad.program.references.contents import in_dtype, with_functions
from tensorad.program.references.frames import Cell, Frame, Held, check_kept, write
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.values import promoted


class Slot(NamedTuple):
    """A leaf of what a reference holds."""

    cell: Cell
    path: str


class Joined(NamedTuple):
    """What arms leave in references."""

    slots: list[Slot]
    """The leaves that an arm changed."""
    leaves: dict[str, list[Any]]
    """By arm, one for each slot."""
    dtypes: list[DType]
    held: dict[Cell, Held]
    """What references hold after one of the arms, for all leaves but those of the slots."""

    def store(self, results: Sequence[Tensor]) -> None:
        """Let the references hold the results of the branch, one for each slot."""
        for cell, after in holding(self.slots, results, self.dtypes, self.held).items():
            write(cell, after)


def joined(frames: Mapping[str, Frame], where: str, given: Collection[Cell] = ()) -> Joined:
    """What the arms of a branch leave, each in its frame, which is closed.

    Functions that differ are values that data choose.

    Args:
        where: the branch, for errors.
        given: references that nobody had before.
    Raises:
        DefinitionError: they leave different structures or references, or one of their own.
        DTypeError, ShapeError: they leave different dtypes, or shapes.
    """
    made = Joined([], {title: [] for title in frames}, [], {})
    for cell in dict.fromkeys([c for f in frames.values() for c in f.after]):
        known = () if cell in given else zip(cell.held.paths, cell.held.leaves, strict=True)
        before = dict(known)
        after = _alike(cell, {t: f.left(cell) for t, f in frames.items()}, where)
        made.held[cell] = pattern = next(iter(after.values()))
        for n, path in enumerate(pattern.paths):
            leaves = [h.leaves[n] for h in after.values()]
            if path in before and all(v is before[path] for v in leaves):
                continue
            if all(map(is_function, leaves)):
                leaves = list(joined_functions(leaves, path))
                dtype = leaves[0].dtype
            else:
                dtype = _one_dtype(cell, n, after, where)
                _check_shapes(cell, n, after, where)
                leaves = [in_dtype(v, path, dtype) for v in leaves]
            made.slots.append(Slot(cell, path))
            made.dtypes.append(dtype)
            for title, value in zip(after, leaves, strict=True):
                made.leaves[title].append(value)
    return made


def left_by(title: str, own: Frame, where: str, given: Collection[Cell] = ()) -> Joined:
    """What a function leaves that is a block of its own, in its frame, which is closed; `given`
    are references that it made and gives away.

    Functions that it leaves in the place of others are values: they capture what it computes.

    Raises:
        DefinitionError: it leaves a reference of its own.
    """
    for cell, held in own.after.items():
        own.after[cell] = with_functions([held, cell.held], cell.name)[0]
    return joined({title: own}, where, given)


def _alike(cell: Cell, after: Mapping[str, Held], where: str) -> dict[str, Held]:
    """What the arms leave, in one structure."""
    for title, held in after.items():
        check_kept([(held.structure, cell.name)], f"contents of {cell.name}", f"{title} of {where}")
    found = dict(zip(after, with_functions(list(after.values()), cell.name), strict=True))
    first, *others = found
    for other in others:
        one, two = found[first], found[other]
        path = first_difference(one.flat, two.flat, cell.name)
        if path is not None:
            raise DefinitionError(
                f"the branches of {where} leave different structures in {cell.described}: they "
                f"differ at {path}.",
                where=side_by_side((first, other), one.flat, two.flat, cell.name),
                hint="data choose arrays, functions and references, not what else a tree is made "
                "of: leave the same, and choose what is in it.",
            )
    return found


def _one_dtype(cell: Cell, n: int, after: Mapping[str, Held], where: str) -> DType:
    dtype = promoted([h.dtypes[n] for h in after.values()])
    if dtype is None:
        shown = [f"{title}: {leaf_text(h.leaves[n])}" for title, h in after.items()]
        raise DTypeError(
            f"the branches of {where} leave different dtypes in {cell.described}.",
            where=", ".join(shown),
            hint="convert what one writes with .astype(dtype), or make the reference with an "
            "array.",
        )
    return dtype


def _check_shapes(cell: Cell, n: int, after: Mapping[str, Held], where: str) -> None:
    """They leave one shape.

    Raises:
        ShapeError: they leave several.
    """
    first, *others = [shape_of(h.leaves[n]) for h in after.values()]
    if any(len(s) != len(first) or not all(map(same_dim, s, first)) for s in others):
        shown = [f"{title}: {leaf_text(h.leaves[n])}" for title, h in after.items()]
        raise ShapeError(
            f"the branches of {where} leave different shapes in {cell.described}.",
            where=", ".join(shown),
            hint="references of which data choose one hold arrays of one shape.",
        )


def changed(f: Frame, before: Mapping[Cell, Held]) -> tuple[list[Slot], dict[Cell, Held], bool]:
    """The leaves that the body of a loop, or a function that calls itself, changed, after its frame
    is closed, what it leaves, and whether what is found has another structure from now on.

    Where it leaves another function than it finds, what is found becomes a leaf too.

    Args:
        before: what references held at its start that were given something else.
    Raises:
        DefinitionError: it leaves another structure than it finds.
    """
    found: list[Slot] = []
    left: dict[Cell, Held] = {}
    is_opened = False
    for cell, after in f.after.items():
        check_kept([(after.structure, cell.name)], f"contents of {cell.name}", f.owner)
        start = before.get(cell, cell.held)
        one, two = with_functions([start, after], cell.name)
        path = first_difference(one.flat, two.flat, cell.name)
        if path is not None:
            raise DefinitionError(
                f"{f.owner} leaves another structure in {cell.described}: it differs at {path}.",
                where=side_by_side(("before", "after"), one.flat, two.flat, cell.name),
                hint="each time it finds arrays, functions and references in the same structure: "
                "leave it, and change what is in it.",
            )
        if one.structure != start.structure:
            write(cell, with_functions([cell.held, two], cell.name)[0])
            is_opened = True
        left[cell] = two
        leaves = zip(one.paths, one.leaves, two.leaves, strict=True)
        found += [Slot(cell, path) for path, a, b in leaves if a is not b]
    return found, left, is_opened


def holding(
    slots: Sequence[Slot],
    values: Sequence[Tensor],
    dtypes: Sequence[DType],
    held: Mapping[Cell, Held],
) -> dict[Cell, Held]:
    """What references hold with these values in the place of some leaves.

    Args:
        held: what they hold otherwise; left out what they hold now.
    """
    found = dict(held)
    for (cell, path), value, dtype in zip(slots, values, dtypes, strict=True):
        own = found.get(cell, cell.held)
        found[cell] = own.with_leaves({own.at(path): (value, dtype)})
    return found
