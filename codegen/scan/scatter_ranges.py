"""Indirect updates of whole rows, shared by ranges of rows: who fills a row also updates it."""

from __future__ import annotations

from math import ceil
from typing import Final

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Assign, For, Store
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.schedule.emit import strips
from tensorad.codegen.target import machine
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Expr,
    add,
    axis,
    call,
    int_const,
    logical_and,
    param,
    read,
    select,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import Scatter, Tensor
from tensorad.ir.visit import free_leaves

FEW: Final = 4
EACH: Final = 2
"""Ranges at least, and for each core: a walk over all indices for the thread that takes it."""
LEAST_ROW: Final = 256
"""Bytes of a row from which looking at an index costs little beside an update of the row."""
WALK: Final = 1024
"""Points that are looked at before those in the range are updated."""


def indirect_row(op: Scatter, lane: Axis) -> Expr | None:
    """The row that data names for each point, where all updates are of long rows named so."""
    rows, width = op.shape[0], op.shape[-1]
    if not isinstance(rows, int) or not isinstance(width, int) or rows < _ranges():
        return None
    if width * op.dtype.size_bytes < LEAST_ROW or lane.extent != width:
        return None
    first, *others = dict.fromkeys([u.indices[0] for u in op.updates])
    return None if others or not occurs(READ, first) or lane in free_leaves(first) else first


def _ranges() -> int:
    """Into how many ranges the rows are cut."""
    return max(FEW, EACH * machine.current().cores)


def shared_by_rows(out: Tensor, row: Expr, point: Axis, update: For) -> tuple[For, list[Tensor]]:
    """(the loop over ranges, scratch): a walk over all points lists those in the range.

    Args:
        row: the row of a point.
        update: the loop over a row for one point.
    """
    rows = int(out.shape[0]) if isinstance(out.shape[0], int) else 0
    ranges, mine = strips(axis("row", 0, rows), ceil(rows / _ranges()))
    block, walked = strips(point, WALK)
    names = f"{out.name}.rows", f"{out.name}.points"
    listed = [buffer(name, (WALK,), INT64) for name in names]
    n = param("n", INT64)
    here = substitutor({point: walked})(row)
    within = logical_and(call("ge", here, mine.lower), call("lt", here, mine.upper))
    walk = For(
        walked,
        (
            Store(tuple(listed), (n,), (here, walked)),
            Assign((n,), (add(n, select(within, ONE, ZERO)),)),
        ),
    )
    k = axis("k", 0, call("minimum", n, int_const(WALK)))
    mapping: dict[Expr, Expr] = {
        e: read(t, (k,)) for e, t in zip((row, point), listed, strict=True)
    }
    updates = For(k, placed((update,), mapping))
    body = For(block, (Assign((n,), (ZERO,)), walk, updates))
    return For(ranges, (body,), "parallel"), listed
