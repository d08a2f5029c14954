"""Fuses passes over one row (`pass_legality` decides) and prefetches the next row meanwhile.

The loops and the order of every sum are given. What is stored and read again at the same place
stays in a register; a row that several passes read comes from memory in the first of them, which
would wait for it: passes that compute much prefetch the row after it, each for some of the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.caches.cache_hints import SHORT_ROWS, tensors_beyond_l2
from tensorad.codegen.caches.pass_legality import only_computes, same_bounds, with_pass
from tensorad.codegen.cost.memory_model import PREFETCH_DISTANCE
from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Check, Fold, For, If, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite, storing
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import all_expressions, statements, targets
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import (
    Axis,
    Call,
    Param,
    Read,
    add,
    int_const,
    mul,
)
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, reads

LANES: Final = 64
"""Most elements that a pass of unknown width prefetches at a time."""
ROW_PART: Final = 8
"""The part of the second cache that a prefetched row may fill."""


def with_row_passes(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with neighbouring passes fused and the next rows prefetched.

    Rows of tensors of unknown size, too: in a cache that costs nothing that can be measured.
    """
    if not any(_has_passes(s) for s in statements(kernel.body)):
        return kernel
    made = _Passes(kernel, schedules)
    body = rewrite(kernel.body, made.statement)
    if made.joined:
        why = "one reads what the other stores or reads at the same place"
        note(Decision(kernel.writes, "passes over a row as one", why))
    if made.prefetched:
        names = ", ".join([t.name for t in made.prefetched])
        note(
            Decision(
                kernel.writes, f"the next row of {names} is fetched", "several passes read a row"
            )
        )
    if made.joined:
        return _without_unread(replace(kernel, body=body))
    return replace(kernel, body=body) if made.prefetched else kernel


def _without_unread(kernel: Kernel) -> Kernel:
    """The kernel without scratch that is stored only: all who read it have it in a register."""
    every = [*statements(kernel.body)]
    checked = [s.read for s in every if isinstance(s, Check)]
    found = reads(*all_expressions(every), *checked)
    kept = dict.fromkeys([*kernel.writes, *[e.tensor for e in found]])
    scratch = tuple([t for t in kernel.scratch if t in kept])
    if len(scratch) == len(kernel.scratch):
        return kernel
    return replace(kernel, body=_storing(kernel.body, kept), scratch=scratch)


def _storing(body: tuple[Stmt, ...], kept: Mapping[Tensor, None]) -> tuple[Stmt, ...]:
    """The statements with the stores of these tensors only, without loops that do nothing then."""

    def statement(s: Stmt) -> list[Store] | None:
        match s:
            case For(body=()) | If(then=(), orelse=()):
                return []
            case Store():
                return storing(s, kept.__contains__)
        return None

    return rewrite(body, statement)


def _has_passes(s: Stmt) -> bool:
    return isinstance(s, For) and sum(is_vectorised(c) for c in s.body) > 1


class _Passes:
    """What changes in one kernel."""

    def __init__(self, kernel: Kernel, schedules: Schedules) -> None:
        self.schedules = schedules
        self.joined = 0
        self.prefetched: dict[Tensor, None] = {}
        written = dict.fromkeys(kernel.writes)
        beyond_l2 = dict.fromkeys(tensors_beyond_l2(kernel, assume_large=True))
        self.beyond_l2 = [t for t in kernel.reads if t not in written and t in beyond_l2]

    def statement(self, s: Stmt) -> Stmt | None:
        """A loop around passes, whose inner loops are changed."""
        if not isinstance(s, For) or not _has_passes(s):
            return None
        return replace(s, body=self.prefetch_next_row(s.axis, self.join(s.body)))

    def join(self, body: Sequence[Stmt]) -> list[Stmt]:
        """Every pass that may run with one before it does."""
        made = [t for s in statements(body) if isinstance(s, Store) for t in s.tensors]
        wanted = [self.schedules.of(t.name).passes for t in dict.fromkeys(made)]
        result: list[Stmt] = []
        for s in body:
            together = None
            if isinstance(s, For) and False not in wanted:
                together = with_pass(result, s, free=None not in wanted)
            if together is not None:
                self.joined += 1
            result = [*result, s] if together is None else together
        return result

    def prefetch_next_row(self, row: Axis, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The passes, each of which may prefetch what others read in the next row."""
        passes = [s for s in body if isinstance(s, For) and is_vectorised(s)]
        if len(passes) < 2:
            return tuple(body)
        wanted: dict[For, dict[Prefetch, None]] = {}
        for t in self.beyond_l2:
            prefetches = _row_after(t, row, passes, wanted)
            if prefetches is not None:
                loop, prefetch = prefetches
                wanted.setdefault(loop, {})[prefetch] = None
                self.prefetched[t] = None
        found: list[Stmt] = []
        for s in body:
            more = wanted.get(s) if isinstance(s, For) else None
            found.append(replace(s, body=(*s.body, *more)) if isinstance(s, For) and more else s)
        return tuple(found)


# The next row


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
