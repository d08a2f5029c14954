"""Two trees side by side, leaf by leaf: what errors show where structures differ."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Final

import numpy as np

from tensorad.ir.expr import Expr
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Shape, Tensor, format_shape
from tensorad.program.data.function_types import function_name
from tensorad.program.data.instances import Instance, several
from tensorad.program.trees import Branching, Flat, Leaf, Static, Structure

MOST_ROWS: Final = 12
"""Rows of a table; of larger trees those that are equal are left out."""
_MOST_EXTENTS: Final = 8
"""Extents of a shape; of longer ones the first and the last are shown, and how many there are."""
_NOTHING: Final = "-"


def leaf_text(value: object) -> str:
    """ "float32 (3, 4)", "number 0.5"."""
    if isinstance(value, Tensor) and is_record(value.dtype):
        return f"{value.dtype} {_shape_text(value.shape)}" if value.shape else str(value.dtype)
    if isinstance(value, Tensor):
        return f"{value.dtype} {_shape_text(value.shape)}"
    if isinstance(value, Expr):
        return f"{value.dtype} ()"
    if isinstance(value, Instance):
        return str(value.record_type)
    if type(value) in (bool, int, float):
        return f"number {value!r}"
    array = np.asarray(value)
    if (record_type := several(array)) is not None:
        return f"{record_type} {_shape_text(array.shape)}"
    return f"{array.dtype} {_shape_text(array.shape)}"


def _shape_text(shape: Shape) -> str:
    if len(shape) <= _MOST_EXTENTS:
        return format_shape(shape)
    first = format_shape(shape[:2]).removesuffix(")")
    return f"{first}, ..., {format_shape(shape[-1:])[1:-2]}) of {len(shape)} axes"


def rows(flat: Flat, name: str) -> dict[str, str]:
    """What is at each path of a tree: leaves, static parts, containers without children."""
    leaves = iter(flat.leaves)
    found: dict[str, str] = {}
    stack: list[tuple[Structure, str]] = [(flat.structure, name)]
    while stack:
        at, path = stack.pop()
        match at:
            case Leaf():
                found[path] = leaf_text(next(leaves))
            case Static(value=value):
                is_known = callable(value) and not isinstance(value, type)
                found[path] = f"function {function_name(value)}" if is_known else repr(value)
            case Branching(children=()):
                found[path] = "None" if at.kind is type(None) else f"empty {at.kind.__name__}"
            case Branching():
                pairs = zip(at.children, at.keys, strict=True)
                stack += [(child, path + key) for child, key in pairs][::-1]
    return found


def _static_text(value: object) -> str:
    """A part that is known: functions by their names."""
    name = getattr(value, "__name__", "")
    return f"function {name}" if isinstance(value, FunctionType) and name else repr(value)


def containers(structure: Structure, name: str) -> dict[str, str]:
    """The class of each container."""
    found: dict[str, str] = {}
    stack: list[tuple[Structure, str]] = [(structure, name)]
    while stack:
        at, path = stack.pop()
        if isinstance(at, Branching):
            found[path] = at.kind.__name__
            stack += [(c, path + key) for c, key in zip(at.children, at.keys, strict=True)][::-1]
    return found


def first_difference(one: Flat, other: Flat, name: str) -> str | None:
    """The path at which the structures differ first; None where they are equal."""
    if one.structure == other.structure:
        return None
    for first, second in (
        (containers(one.structure, name), containers(other.structure, name)),
        (_kinds(one, name), _kinds(other, name)),
    ):
        common = [p for p in first if p in second and first[p] != second[p]]
        if common:
            return common[0]
    first, second = rows(one, name), rows(other, name)
    alone = [p for p in (*first, *second) if (p in first) != (p in second)]
    return alone[0] if alone else name


def _kinds(flat: Flat, name: str) -> dict[str, str]:
    """The same as `rows`, all leaves being alike."""
    same = Flat([0.0] * len(flat.leaves), flat.paths, flat.structure)
    return rows(same, name)


def side_by_side(
    titles: tuple[str, str], one: Flat, other: Flat, name: str, indent: str = "      "
) -> str:
    """A table with a line for each leaf: its path, and what each tree has there.

    Args:
        titles: what the two trees are called.
        name: how paths begin.
        indent: what lines after the first begin with.
    """
    tables = [rows(one, name), rows(other, name)]
    boxes = [containers(one.structure, name), containers(other.structure, name)]
    unlike = [p for p in boxes[0] if boxes[1].get(p, boxes[0][p]) != boxes[0][p]]
    for path in unlike:
        for table, box in zip(tables, boxes, strict=True):
            table.setdefault(path, box[path])
    paths = list(dict.fromkeys([*unlike, *[p for table in tables for p in table]]))
    lines = [(p, *[table.get(p, _NOTHING) for table in tables]) for p in paths]
    left_out = ""
    if len(lines) > MOST_ROWS:
        short = [line for line in lines if line[1] != line[2]][:MOST_ROWS]
        left_out = f"\n{indent}and {len(lines) - len(short)} more"
        lines = short
    return _table([("", *titles), *lines], indent) + left_out


def _table(lines: Sequence[tuple[str, ...]], indent: str) -> str:
    widths = [max(len(line[n]) for line in lines) for n in range(3)]
    padded = [
        "  ".join([cell.ljust(w) for cell, w in zip(line, widths, strict=True)]).rstrip()
        for line in lines
    ]
    return f"\n{indent}".join(padded)
