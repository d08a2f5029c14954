"""References of texts, whose contents the trace knows."""

from __future__ import annotations

from typing import NamedTuple

from tensorad.errors import DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import DType
from tensorad.language.values import Cell, Effects, Value
from tensorad.program.calls import shape_of
from tensorad.program.references import frames
from tensorad.program.references.contents import in_dtype
from tensorad.program.trees import flatten
from tensorad.program.values import alone, dtype_of, promoted


class TracedCell(frames.Cell, Cell):
    """A reference, whose contents the trace knows."""

    def __init__(self, name: str, line: int, held: frames.Held) -> None:
        frames.Cell.__init__(self, name, f"line {line}", held)
        self.line = line

    @property
    def reading(self) -> str:
        return f"read({self.name})"


class State(NamedTuple):
    """What references hold, and what was counted so far."""

    held: dict[TracedCell, frames.Held]
    effects: Effects
    made: int


def traced_cell(cell: Cell) -> TracedCell:
    """The reference, as evaluation has them."""
    assert isinstance(cell, TracedCell), "the evaluator makes no others"
    return cell


def held_by(name: str, content: Value) -> frames.Held:
    """A value as what a reference holds."""
    flat = flatten(content, name)
    dtypes = tuple([dtype_of(v) for v in flat.leaves])
    return frames.Held(tuple(flat.leaves), tuple(flat.paths), flat.structure, dtypes)


def fitted(name: str, old: frames.Held, new: frames.Held) -> frames.Held:
    """What is written, numbers in the dtype of what they meet.

    Raises:
        ShapeError, DTypeError: it, or what a reference in it holds, is of another type.
    """
    if old.structure == new.structure:
        new = _kept_type(name, old, new)
    _check_references(name, old, new)
    return new


def _kept_type(name: str, old: frames.Held, new: frames.Held) -> frames.Held:
    """What is written, numbers in the dtype of what they meet.

    Raises:
        ShapeError, DTypeError: it is of another type than what is there.
    """
    changed: dict[int, tuple[Value, DType]] = {}
    for n, (a, b) in enumerate(zip(old.leaves, new.leaves, strict=True)):
        one, other = shape_of(a), shape_of(b)
        dtype = promoted([old.dtypes[n], new.dtypes[n]])
        if len(one) != len(other) or not all(map(same_dim, one, other)) or dtype is None:
            kind = DTypeError if dtype is None else ShapeError
            raise kind(
                f"the reference {name} holds {alone(old.dtypes[n])}{list(one)}, but is given "
                f"{alone(new.dtypes[n])}{list(other)}.",
                hint="a reference holds values of one type.",
            )
        changed[n] = (in_dtype(b, new.paths[n], dtype), dtype)
    return new.with_leaves(changed)


def _check_references(name: str, old: frames.Held, new: frames.Held) -> None:
    """References that are written in the place of others hold what these hold.

    Raises:
        ShapeError, DTypeError: one holds values of another type.
    """
    pairs = [(f"read({name})", old, new)]
    seen: set[tuple[frames.Cell, frames.Cell]] = set()
    while pairs:
        path, before, after = pairs.pop()
        given = dict(frames.cells_of(after.structure, "", is_value=False))
        for at, one in frames.cells_of(before.structure, "", is_value=False):
            other = given.get(at, one)
            if other is one or (one, other) in seen:
                continue
            seen.add((one, other))
            if one.held.structure == other.held.structure:
                _kept_type(path + at, one.held, other.held)
            pairs.append((f"read({path + at})", one.held, other.held))
