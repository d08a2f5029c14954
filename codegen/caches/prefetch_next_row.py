"""Prefetches the next row while passes over a row run.

A row that several passes read comes from memory in the first of them, which would wait for it:
passes that compute much prefetch the row after it, each for some of the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.caches.cache_hints import SHORT_ROWS, tensors_beyond_l2
from tensorad.codegen.caches.pass_legality import only_computes, same_bounds
from tensorad.codegen.cost.memory_model import PREFETCH_DISTANCE
from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Fold, For, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import all_expressions, targets
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import Axis, Call, Param, Read, add, int_const, mul
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, reads

LANES: Final = 64
"""Most elements that a pass of unknown width prefetches at a time."""
ROW_PART: Final = 8
"""The part of the second cache that a prefetched row may fill."""

_Wanted = dict[For, dict[Prefetch, None]]
"""What each pass prefetches in each of its steps."""


def with_next_row_prefetches(kernel: Kernel) -> Kernel:
    """The kernel with the next rows prefetched where several passes read a row.

    Rows of tensors of unknown size, too: in a cache that costs nothing that can be measured.
    """
    written = dict.fromkeys(kernel.writes)
    beyond_l2 = dict.fromkeys(tensors_beyond_l2(kernel, assume_large=True))
    large = [t for t in kernel.reads if t not in written and t in beyond_l2]
    made: dict[Tensor, None] = {}

    def statement(s: Stmt) -> Stmt | None:
        if not isinstance(s, For):
            return None
        wanted = _wanted(s, large)
        made.update({f.tensor: None for own in wanted.values() for f in own})
        return replace(s, body=tuple([_prefetching(c, wanted) for c in s.body])) if wanted else None

    body = rewrite(kernel.body, statement)
    if not made:
        return kernel
    names = ", ".join([t.name for t in large if t in made])
    why = "several passes read a row"
    note(Decision(kernel.writes, f"the next row of {names} is fetched", why))
    return replace(kernel, body=body)


def _wanted(s: For, large: Sequence[Tensor]) -> _Wanted:
    """What the passes in a loop prefetch of the next row; nothing where there is one alone."""
    passes = [c for c in s.body if isinstance(c, For) and is_vectorised(c)]
    wanted: _Wanted = {}
    if len(passes) < 2:
        return wanted
    for t in large:
        found = _row_after(t, s.axis, passes, wanted)
        if found is not None:
            loop, prefetch = found
            wanted.setdefault(loop, {})[prefetch] = None
    return wanted


def _prefetching(s: Stmt, wanted: _Wanted) -> Stmt:
    more = wanted.get(s) if isinstance(s, For) else None
    return replace(s, body=(*s.body, *more)) if isinstance(s, For) and more else s


def _row_after(
    t: Tensor, row: Axis, passes: Sequence[For], prefetches: Mapping[For, Mapping[Prefetch, None]]
) -> tuple[For, Prefetch] | None:
    """The pass that prefetches a later row of a tensor, and what each of its steps prefetches."""
    found = [(s, e) for s in passes for e in reads(*all_expressions(s.body)) if e.tensor is t]
    if not found or not _is_row(found[0][1], found[0][0], row):
        return None
    first, e = found[0]
    able = [s for s in passes if only_computes(s) and same_bounds(s.axis, first.axis)]
    if not able:
        return None
    loop = max(able, key=lambda s: _ease(s, len(prefetches.get(s, ()))))
    size_bytes = (first.axis.extent or 1) * t.dtype.size_bytes
    further = mul(int_const(-(-PREFETCH_DISTANCE // size_bytes)), row.step)
    image = substitutor({row: add(row, further), first.axis: loop.axis})
    indices = tuple([image(i) for i in e.indices])
    return loop, Prefetch(t, indices, loop.width or LANES)


def _is_row(e: Read, loop: For, row: Axis) -> bool:
    """Whether a pass reads a row that lies together, and the loop around the rows."""
    extent = loop.axis.extent
    if extent is None or any(i.kinds & READ for i in e.indices):
        return False
    if any(isinstance(leaf, Param) for leaf in free_leaves(*e.indices)):
        return False
    where = access(e.tensor, e.indices)
    size_bytes = extent * e.dtype.size_bytes
    fits = SHORT_ROWS <= size_bytes <= machine.current().l2 // ROW_PART
    return fits and where.stride(loop.axis) == 1 and bool(where.stride(row))


def _ease(s: For, prefetches: int) -> float:
    """What a pass computes for each line that it moves once it prefetches one more.

    A store that streams moves a line, too, but nothing waits for its arrival: it counts half.
    """
    streams = sum(isinstance(c, Store) and c.streaming for c in s.body)
    return _work(s) / (1 + prefetches + streams / 2)


def _work(s: For) -> int:
    """Operations of one element, folds included."""
    own = dict.fromkeys([s.axis, *targets(s.body)])
    nodes = postorder(*all_expressions(s.body))
    calls = [e for e in nodes if isinstance(e, Call) and any(x in own for x in free_leaves(e))]
    folds = sum(isinstance(c, Fold) for c in s.body)
    return folds + sum([cost_of(e).half_cycles for e in calls])
