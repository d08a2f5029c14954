"""Rows that data picks: a loop asks for those of a later turn by the indices that are known.

No prefetcher of a processor guesses them, and the rows that it would follow beside them it loses,
too. Nothing here changes a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Fetch, For, Stmt, Store
from tensorad.codegen.loops.vector_loops import lanes_for, runs_in_lanes
from tensorad.codegen.loops.visit import direct, expressions
from tensorad.codegen.nest.access import access
from tensorad.ir.expr import ONE, Axis, Expr, add, call, int_const, sub
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, reads

PICKED_AHEAD: Final = 4096
"""Bytes of rows between the turn that asks for a row and the one that needs it."""
FEWEST, MOST = 2, 32
"""Turns between them."""

Place = tuple[Tensor, tuple[Expr, ...]]


def picked_rows(s: For, far: Mapping[Tensor, None], around: Axis | None) -> list[Place]:
    """Elements of a vector loop in rows of large tensors that data picks for each turn."""
    if around is None or around.step is not ONE or not runs_in_lanes(s):
        return []
    found: dict[Place, None] = {}
    for c in direct(s.body):
        places = [(e.tensor, e.indices) for e in reads(*expressions(c))]
        if isinstance(c, Store):
            places += [(t, c.indices) for t in c.tensors]
        found.update({p: None for p in places if p[0] in far and _is_picked(*p, s.axis, around)})
    return [*found]


def _is_picked(t: Tensor, indices: Sequence[Expr], lane: Axis, around: Axis) -> bool:
    picks = [e for e in reads(*indices) if around in free_leaves(*e.indices)]
    if not picks or any(lane in free_leaves(*e.indices) for e in picks):
        return False
    if any(e.kinds & READ for p in picks for e in p.indices):
        return False
    return access(t, tuple(indices)).stride(lane) == 1


def with_rows_ahead(loop: For, far: Mapping[Tensor, None]) -> For:
    """The loop whose vector loops ask for the rows that data picks for a later turn."""
    body: list[Stmt] = []
    for s in loop.body:
        places = picked_rows(s, far, loop.axis) if isinstance(s, For) else []
        asked = [_later(t, indices, s, loop.axis) for t, indices in places if isinstance(s, For)]
        body.append(replace(s, body=(*asked, *s.body)) if isinstance(s, For) and asked else s)
    return replace(loop, body=tuple(body))


def _later(t: Tensor, indices: tuple[Expr, ...], s: For, around: Axis) -> Fetch:
    """The same lanes of the row of a later turn, or of the last one."""
    row = t.shape[-1]
    size_bytes = row * t.dtype.size_bytes if isinstance(row, int) else PICKED_AHEAD
    turns = min(MOST, max(FEWEST, PICKED_AHEAD // max(1, size_bytes)))
    later = call("minimum", add(around, int_const(turns)), sub(around.upper, ONE))
    image = substitutor({around: later})
    return Fetch(t, tuple([image(i) for i in indices]), s.width or lanes_for([t]))
