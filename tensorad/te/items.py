"""Parts of arrays: what indexing, `len` and iteration give while a program is traced."""

from __future__ import annotations

from typing import Any

from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir import array_methods
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.arrays.indexing import read_at
from tensorad.ir.expr import ZERO, Expr
from tensorad.ir.order import AXIS, occurs
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.te.selection import Gather, Point, Selection, Window, selection
from tensorad.te.tensors import compute

_KINDS = ("item", "row", "part", "gathered")


def item(x: Tensor, key: object) -> Any:
    """x[key], a tensor; the tensor itself if all of it is selected.

    With an axis of a formula as an index it is what a formula reads.

    Raises:
        UserError: as `selection` says, or an index by sizes is outside of its axis.
    """
    given = key if isinstance(key, tuple) else (key,)
    if any(isinstance(i, Expr) and occurs(AXIS, i) for i in given):
        return read_at(x, given)
    chosen = selection(x, key)
    if is_all(chosen, x):
        return x
    made: Tensor = compute(
        chosen.shape, lambda *at: x(*chosen.indices(at)), part_name(x, _kind(chosen))
    )
    return made


def is_all(chosen: Selection, x: Tensor) -> bool:
    """Whether a selection is the whole tensor as it is."""
    pairs = zip(chosen.parts, x.shape, strict=True)
    return len(chosen.shape) == x.ndim and all(
        isinstance(p, Window) and p.start is ZERO and p.step == 1 and same_dim(p.count, n)
        for p, n in pairs
    )


def _kind(chosen: Selection) -> str:
    if any(isinstance(p, Gather) for p in chosen.parts):
        return "gathered"
    points = [isinstance(p, Point) for p in chosen.parts]
    if all(points):
        return "item"
    return "row" if points[0] else "part"


def part_name(x: Tensor, kind: str) -> str:
    """The name of a part of x; parts of parts have no longer ones."""
    base, _, last = x.name.rpartition("_")
    return f"{base if base and last in _KINDS else x.name}_{kind}"


def rows(x: Tensor) -> int:
    """The extent of the leading axis, if it is known while a program is traced.

    Raises:
        ShapeError: the tensor has no axis.
        DefinitionError: the extent is symbolic.
    """
    if not x.ndim:
        raise ShapeError(
            f"tensor {x.name} is 0-d: it has no length and cannot be iterated over.",
            hint="use it as a number.",
        )
    n = x.shape[0]
    if not isinstance(n, int):
        raise DefinitionError(
            f"how many rows tensor {x.name} of shape {format_shape(x.shape)} has is not known "
            "while a program is traced.",
            hint=f"loop over them with ta.scan or ta.for_loop; their number is {x.name}.shape[0].",
        )
    return n


array_methods.item.fill(item)
array_methods.rows.fill(rows)
