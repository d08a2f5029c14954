"""Indirect prefetching: a loop prefetches the rows that indices from data name later on.

No prefetcher of a processor guesses them, and the rows that it would follow beside them it loses,
too. Nothing here changes a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import For, Prefetch, Stmt, Store
from tensorad.codegen.loops.vector_loops import is_vectorised, lanes_for
from tensorad.codegen.loops.visit import direct, expressions
from tensorad.codegen.nest.access import access
from tensorad.ir.expr import ONE, Axis, Expr, add, call, int_const, sub
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, reads

INDIRECT_DISTANCE: Final = 4096
"""Bytes of rows between the iteration that prefetches a row and the one that needs it."""
FEWEST, MOST = 2, 32
"""Iterations between them."""

Element = tuple[Tensor, tuple[Expr, ...]]


def indirect_rows(s: For, beyond_l2: Mapping[Tensor, None], around: Axis | None) -> list[Element]:
    """Elements of a vector loop in rows of large tensors that data names for each iteration."""
    if around is None or around.step is not ONE or not is_vectorised(s):
        return []
    found: dict[Element, None] = {}
    for c in direct(s.body):
        places = [(e.tensor, e.indices) for e in reads(*expressions(c))]
        if isinstance(c, Store):
            places += [(t, c.indices) for t in c.tensors]
        found.update(
            {p: None for p in places if p[0] in beyond_l2 and _is_indirect(*p, s.axis, around)}
        )
    return [*found]


def _is_indirect(t: Tensor, indices: Sequence[Expr], lane: Axis, around: Axis) -> bool:
    picks = [e for e in reads(*indices) if around in free_leaves(*e.indices)]
    if not picks or any(lane in free_leaves(*e.indices) for e in picks):
        return False
    if any(e.kinds & READ for p in picks for e in p.indices):
        return False
    return access(t, tuple(indices)).stride(lane) == 1


def with_indirect_prefetches(loop: For, beyond_l2: Mapping[Tensor, None]) -> For:
    """The loop whose vector loops prefetch the rows that data names for a later iteration."""
    body: list[Stmt] = []
    for s in loop.body:
        places = indirect_rows(s, beyond_l2, loop.axis) if isinstance(s, For) else []
        prefetches = [
            _later(t, indices, s, loop.axis) for t, indices in places if isinstance(s, For)
        ]
        body.append(
            replace(s, body=(*prefetches, *s.body)) if isinstance(s, For) and prefetches else s
        )
    return replace(loop, body=tuple(body))


def _later(t: Tensor, indices: tuple[Expr, ...], s: For, around: Axis) -> Prefetch:
    """The same lanes of the row of a later iteration, or of the last one."""
    row = t.shape[-1]
    size_bytes = row * t.dtype.size_bytes if isinstance(row, int) else INDIRECT_DISTANCE
    iterations = min(MOST, max(FEWEST, INDIRECT_DISTANCE // max(1, size_bytes)))
    later = call("minimum", add(around, int_const(iterations)), sub(around.upper, ONE))
    image = substitutor({around: later})
    return Prefetch(t, tuple([image(i) for i in indices]), s.width or lanes_for([t]))
