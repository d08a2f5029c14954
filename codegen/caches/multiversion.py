"""Loops in two versions where a call's sizes decide whether what they store leaves the caches.

Streaming stores, blocks of whole lines and loads of bands pay beyond the caches and cost time in
them. With symbolic sizes a kernel that mostly waits for memory gets the loops of both: they stand
one after the other, and those that a call's sizes do not ask for make no iteration. They store
the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final

from tensorad.codegen.caches.fuse_passes import with_row_passes
from tensorad.codegen.caches.hints import (
    LARGE,
    largest_unknown,
    streamed_tensors,
    waits_for_memory,
    with_memory_hints,
)
from tensorad.codegen.caches.pipeline_stores import with_rows_overlapped
from tensorad.codegen.cost.memory_model import SHORTEST
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import Check, For, Kernel, Store
from tensorad.codegen.loops.substitute import where
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, listening, note
from tensorad.ir.analysis.sizes import elements_formula
from tensorad.ir.expr import Expr, add, call, int_const

SHARE: Final = 3
"""Two versions where memory takes at least this part of the time that is computed."""


def for_all_sizes(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with all hints about memory, in two versions if sizes decide about them."""
    near = _hinted(kernel, schedules, beyond=False)
    if not _may_leave(kernel, schedules):
        return near
    with listening(Decision):  # what is told about the first version holds for both
        far = _hinted(kernel, schedules, beyond=True)
    if not any(_streams(s) for s in statements(far.body) if isinstance(s, For)):
        return near
    leaves = _leaves_caches(kernel)
    streamed = tuple(streamed_tensors(kernel, schedules, beyond=True))
    note(Decision(streamed, "streaming stores in loops of their own", f"used where {leaves}"))
    body = (*_where(leaves, near, run=False), *_where(leaves, far, run=True))
    scratch = tuple(dict.fromkeys((*near.scratch, *far.scratch)))
    return replace(near, body=body, scratch=scratch, apart=far.apart)


def _hinted(kernel: Kernel, schedules: Schedules, *, beyond: bool) -> Kernel:
    made = with_row_passes(with_memory_hints(kernel, schedules, beyond=beyond), schedules)
    return with_rows_overlapped(made, schedules)


def _may_leave(kernel: Kernel, schedules: Schedules) -> bool:
    """Whether sizes decide if stores stream, and that is worth loops of their own."""
    found = largest_unknown(kernel)
    if not found or any(schedules.of(t.name).streaming is not None for t in found):
        return False
    if not all(isinstance(s, For) for s in kernel.body):
        return False
    if any(isinstance(s, Check) for s in statements(kernel.body)):
        return False
    return waits_for_memory(kernel, SHARE)


def _streams(s: For) -> bool:
    """Whether a loop stores rows long enough to stream."""
    if s.kind != "vector":
        return False
    found = [t for c in s.body if isinstance(c, Store) and c.streaming for t in c.tensors]
    length = SHORTEST if s.axis.extent is None else s.axis.extent
    return any(length * t.dtype.size_bytes >= SHORTEST for t in found)


def _leaves_caches(kernel: Kernel) -> Expr:
    """Whether the call's sizes make outputs so large that their stores had better stream."""
    every = dict.fromkeys((*kernel.reads, *kernel.writes))
    least = reduce(add, [elements_formula(t.shape, t.dtype.size_bytes) for t in every])
    unknown = [
        elements_formula(t.shape, LARGE * t.dtype.size_bytes) for t in largest_unknown(kernel)
    ]
    for size_bytes in dict.fromkeys(unknown):
        least = call("minimum", least, size_bytes)
    return call("gt", least, int_const(machine.current().l3))


def _where(leaves: Expr, kernel: Kernel, *, run: bool) -> list[For]:
    """The kernel's loops, without iterations unless the condition is `run`."""
    loops = [s for s in kernel.body if isinstance(s, For)]  # `_may_leave` has seen no others
    return [where(leaves, s, run=run) for s in loops]
