"""What arms of branches and bodies of loops leave in references, leaf by leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.dtypes import DType
from tensorad.ir.tensor import Tensor
from tensorad.program.data import function_types
from tensorad.program.data.function_types import is_function
from tensorad.program.leaf_types import opened
from tensorad.program.references.contents import in_dtype, opened_as
from tensorad.program.references.frames import Cell, Frame, Held, check_kept, read, write
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Structure
from tensorad.program.values import promoted


class Slot(NamedTuple):
    """A leaf of what a reference holds."""

    cell: Cell
    leaf: int

    @property
    def path(self) -> str:
        paths = self.cell.held.paths
        return paths[self.leaf] if self.leaf < len(paths) else self.cell.name


class Joined(NamedTuple):
    """What arms leave in references."""

    slots: list[Slot]
    """The leaves that an arm changed."""
    leaves: dict[str, list[Any]]
    """By arm, one for each slot."""
    dtypes: list[DType]
    structures: dict[Cell, Structure]
    """Of what the references hold after all arms."""

    def store(self, results: Sequence[Tensor]) -> None:
        """Let the references hold the results of the branch, one for each slot."""
        made = zip(self.slots, results, self.dtypes, strict=True)
        _store([(slot, t, dtype) for slot, t, dtype in made], self.structures)


def joined(frames: Mapping[str, Frame], where: str) -> Joined:
    """What the arms of a branch leave, each in its frame, which is closed.

    Args:
        where: the branch, for errors.
    Raises:
        DefinitionError: they leave different references, or one of their own.
        DTypeError: they leave different dtypes.
    """
    slots: list[Slot] = []
    leaves: dict[str, list[Any]] = {title: [] for title in frames}
    dtypes: list[DType] = []
    structures: dict[Cell, Structure] = {}
    for cell in dict.fromkeys([c for f in frames.values() for c in f.after]):
        before = cell.held
        left = {title: f.after.get(cell, before) for title, f in frames.items()}
        after = dict(zip(left, _opened(cell, list(left.values())), strict=True))
        structures[cell] = _one_structure(cell, after, where)
        is_other = structures[cell] != before.structure
        for n, paths in enumerate(zip(*[h.paths for h in after.values()], strict=True)):
            if not is_other and all(h.leaves[n] is before.leaves[n] for h in after.values()):
                continue
            made = _of_one_dtype(cell, n, paths[0], after, where)
            slots.append(Slot(cell, n))
            dtypes.append(made[0])
            for title, value in zip(after, made[1], strict=True):
                leaves[title].append(value)
    return Joined(slots, leaves, dtypes, structures)


def _opened(cell: Cell, after: Sequence[Held]) -> list[Held]:
    """The contents with leaves where they have different functions."""
    flats = opened([h.flat for h in after], cell.name)
    return [opened_as(h, flat) for h, flat in zip(after, flats, strict=True)]


def _of_one_dtype(
    cell: Cell, n: int, path: str, after: Mapping[str, Held], where: str
) -> tuple[DType, list[Any]]:
    """What arms leave in a leaf, and its dtype."""
    values = [h.leaves[n] for h in after.values()]
    if all(map(is_function, values)):
        made: list[Any] = list(function_types.joined(values, path))
        return made[0].dtype, made
    dtype = _one_dtype(cell, n, after, where)
    return dtype, [in_dtype(v, path, dtype) for v in values]


def reopened(f: Frame, before: Mapping[Cell, Held]) -> bool:
    """Let references have leaves for functions that the body of a loop replaces by others; whether
    there are such.

    Args:
        before: see `changed`.
    """
    found = False
    for cell, after in f.after.items():
        start = before.get(cell, cell.held)
        known = opened([start.flat, after.flat], cell.name)[0]
        if known.structure != start.structure:
            write(cell, _opened(cell, [cell.held, after])[0])
            found = True
    return found


def _one_structure(cell: Cell, after: Mapping[str, Held], where: str) -> Structure:
    first, *others = after
    for title, held in after.items():
        check_kept([(held.structure, cell.name)], f"contents of {cell.name}", f"{title} of {where}")
    for other in others:
        one, two = after[first], after[other]
        path = first_difference(one.flat, two.flat, cell.name)
        if path is not None:
            raise DefinitionError(
                f"the branches of {where} leave different references or structures in "
                f"{cell.described}, at {path}.",
                where=side_by_side((first, other), one.flat, two.flat, cell.name),
                hint="which reference it is is known when the program is written down: leave the "
                "same one, and choose values.",
            )
    return after[first].structure


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


def changed(f: Frame, before: Mapping[Cell, Held], where: str) -> list[Slot]:
    """The leaves that the body of a loop changed, after its frame is closed.

    Args:
        before: what references held at its start that were given something else.
        where: the loop, for errors.
    Raises:
        DefinitionError: the body leaves another reference than it finds.
    """
    found: list[Slot] = []
    for cell, after in f.after.items():
        start = before.get(cell, cell.held)
        check_kept([(after.structure, cell.name)], f"contents of {cell.name}", f.owner)
        path = first_difference(start.flat, after.flat, cell.name)
        if path is not None:
            raise DefinitionError(
                f"the body of {where} leaves another reference or structure in {cell.described}, "
                f"at {path}.",
                where=side_by_side(("before", "after"), start.flat, after.flat, cell.name),
                hint="each iteration does the same: leave the same reference, and change what it "
                "holds.",
            )
        leaves = enumerate(zip(start.leaves, after.leaves, strict=True))
        found += [Slot(cell, n) for n, (a, b) in leaves if a is not b]
    return found


def holding(
    slots: Sequence[Slot], params: Sequence[Tensor], dtypes: Sequence[DType]
) -> dict[Cell, Held]:
    """What references hold where parameters of a loop stand for these leaves."""
    found: dict[Cell, Held] = {}
    for (cell, n), t, dtype in zip(slots, params, dtypes, strict=True):
        found[cell] = found.get(cell, cell.held).with_leaves({n: (t, dtype)})
    return found


def _store(values: Sequence[tuple[Slot, Any, DType]], structures: Mapping[Cell, Structure]) -> None:
    new: dict[Cell, dict[int, tuple[Any, DType]]] = {cell: {} for cell in structures}
    for (cell, n), value, dtype in values:
        new.setdefault(cell, {})[n] = (value, dtype)
    for cell, leaves in new.items():
        held = read(cell)
        structure = structures.get(cell, held.structure)
        if structure != held.structure:  # all of its leaves are results
            pairs = [leaves[n] for n in range(len(leaves))]
            made = tuple([v for v, _ in pairs]), tuple([cell.name] * len(pairs))
            held = Held(*made, structure, tuple([d for _, d in pairs]))
        write(cell, held.with_leaves(leaves))
