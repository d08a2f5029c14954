"""Loops in two versions where a call's sizes decide whether what they store leaves the caches.

Streaming stores, blocks of whole lines and preloaded rows pay beyond the caches and cost time in
them. With symbolic sizes a kernel that mostly waits for memory gets the loops of both: they stand
one after the other, and those that a call's sizes do not choose make no iteration. They store
the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from tensorad.codegen.caches.cache_hints import LARGE, is_memory_bound, largest_unknown
from tensorad.codegen.cost.memory_model import SHORTEST
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import Check, For, Kernel, Store
from tensorad.codegen.loops.substitute import where
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import elements_formula
from tensorad.ir.expr import Expr, add, call, int_const
from tensorad.ir.tensor import Tensor

SHARE: Final = 3
"""Two versions where memory takes at least this part of the time that is computed."""


@dataclass(frozen=True, eq=False)
class Version:
    """A kernel, or its loops for sizes on one side of the last cache.

    Attributes:
        assume_large: whether symbolic sizes are taken for so large that no cache holds a tensor.
        streamed: what its stores are to take past the caches.
        waits: whether these stores wait for memory, so that buffers pay.
    """

    kernel: Kernel
    assume_large: bool = False
    streamed: tuple[Tensor, ...] = ()
    waits: bool = False


Versions = tuple[Version, ...]
"""One, or two: within the last cache and beyond it."""


def split_versions(schedules: Schedules, versions: Versions) -> Versions:
    """The kernel twice where sizes decide about its stores."""
    (only,) = versions
    if not _may_leave(only.kernel, schedules):
        return versions
    return only, replace(only, assume_large=True)


def join_versions(schedules: Schedules, versions: Versions) -> Versions:
    """One kernel of both, guarded by sizes; the first alone if the other never streams."""
    in_caches, *others = versions
    if not others:
        return versions
    (beyond_caches,) = others
    if not any(_streams(s) for s in statements(beyond_caches.kernel.body) if isinstance(s, For)):
        return (in_caches,)
    leaves = _leaves_caches(in_caches.kernel)
    why = f"used where {leaves}"
    note(Decision(beyond_caches.streamed, "streaming stores in loops of their own", why))
    parts = (
        _where(leaves, in_caches.kernel, run=False),
        _where(leaves, beyond_caches.kernel, run=True),
    )
    scratch = tuple(dict.fromkeys((*in_caches.kernel.scratch, *beyond_caches.kernel.scratch)))
    body = tuple([s for part in parts for s in part])
    kernel = replace(
        in_caches.kernel,
        body=body,
        scratch=scratch,
        unaliased_with=beyond_caches.kernel.unaliased_with,
    )
    return (Version(kernel),)


def _may_leave(kernel: Kernel, schedules: Schedules) -> bool:
    """Whether sizes decide if stores stream, and that is worth loops of their own."""
    found = largest_unknown(kernel)
    if not found or any(schedules.of(t.name).streaming is not None for t in found):
        return False
    if not all(isinstance(s, For) for s in kernel.body):
        return False
    if any(isinstance(s, Check) for s in statements(kernel.body)):
        return False
    return is_memory_bound(kernel, SHARE)


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
