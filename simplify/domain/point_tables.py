"""Index maps inverted while compiling: the points of each result are listed in constant tensors.

For an index read from a constant table, or a formula beyond quasi-affine arithmetic, over axes
of constant extents: the contributing points are listed once, sorted by the outer axes, and the
sum runs over one range of the list (compressed rows). The expressions keep their size whatever
the extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from tensorad.ir.combiner import row_major_position
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Axis,
    Const,
    Expr,
    add,
    axis,
    read,
)
from tensorad.ir.order import SIZE, occurs
from tensorad.ir.tensor import Constant, Tensor, outputs
from tensorad.ir.visit import free_leaves
from tensorad.process import Guard
from tensorad.simplify.domain.listed_points import TooManyPoints, is_evaluable, points_of
from tensorad.simplify.domain.solution import Piece, Solution
from tensorad.simplify.index.quasi_affine import starts_at_zero

MOST_ROWS: Final = 1 << 20
"""Values of the outer axes up to which a list of ranges is kept."""
Array = np.ndarray[Any, np.dtype[Any]]
_tables: WeakValueDictionary[tuple[str, tuple[int, ...], bytes], Tensor] = WeakValueDictionary()
_guard = Guard()


def tabulate(
    outer: Sequence[Axis], inner: Sequence[Axis], conditions: Sequence[Expr]
) -> Solution | None:
    """{inner : bounds and conditions} from a table; None if it cannot or should not be listed.

    Only the outer axes that the conditions and the bounds mention index the table. Without
    inner axes there is nothing to list: the conditions are tested.
    """
    if not inner:
        return None
    roots = [*conditions, *[b for a in inner for b in (a.lower, a.upper, a.step)]]
    used = free_leaves(*roots)
    rows = [a for a in outer if a in used]
    plain = all(starts_at_zero(a) and isinstance(a.upper, Const) for a in rows)
    if not plain or _count(rows) > MOST_ROWS:
        return None
    if occurs(SIZE, *roots):
        return None
    if not all(is_evaluable(e) for e in roots):
        return None
    position = row_major_position(rows, [a.upper for a in rows])
    try:
        points = points_of([*rows, *inner], conditions, [position, *inner], {})
    except TooManyPoints:
        return None
    points = points[np.lexsort(points.T[::-1])]
    counts = np.bincount(points[:, 0], minlength=_count(rows))
    columns = [points[:, n + 1] for n in range(len(inner))]
    if len(counts) and counts.min() == counts.max():
        piece = _equal_rows(rows, inner, columns, int(counts[0]))
    else:
        piece = _ranges(rows, inner, columns, counts)
    return Solution((piece,), True, "table")


def _count(rows: Sequence[Axis]) -> int:
    return prod(a.extent or 0 for a in rows)


def _equal_rows(
    rows: Sequence[Axis], inner: Sequence[Axis], columns: Sequence[Array], length: int
) -> Piece:
    """Every row has as many points: a table with a column for each."""
    if length == 0:
        return Piece(FALSE, (), dict.fromkeys(inner, ZERO))
    loops = (axis("p", 0, length),) if length > 1 else ()
    shape = [a.extent or 0 for a in (*rows, *loops)]
    values: dict[Expr, Expr] = {
        a: read(_constant(f"{a.name}_at", column.reshape(shape)), (*rows, *loops))
        for a, column in zip(inner, columns, strict=True)
    }
    return Piece(TRUE, loops, values)


def _ranges(
    rows: Sequence[Axis], inner: Sequence[Axis], columns: Sequence[Array], counts: Array
) -> Piece:
    """Rows of any length: one list of points, and where each row starts in it."""
    starts = _constant("starts", np.concatenate([[0], np.cumsum(counts)]))
    row = row_major_position(rows, [a.upper for a in rows])
    p = axis("p", read(starts, (row,)), read(starts, (add(row, ONE),)))
    values: dict[Expr, Expr] = {
        a: read(_constant(f"{a.name}_at", column), (p,))
        for a, column in zip(inner, columns, strict=True)
    }
    return Piece(TRUE, (p,), values)


def _constant(name: str, array: Array) -> Tensor:
    """The table as a tensor; equal tables are one tensor while one of them is in use."""
    array = np.array(array, dtype=np.int64, order="C")
    key = (name, array.shape, blake2b(array.tobytes()).digest())
    with _guard.lock:
        found = _tables.get(key)
        if found is None:
            found = _tables[key] = outputs(Constant(name, array, INT64))[0]
    return found
