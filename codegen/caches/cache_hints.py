"""Decides which stores stream and what is prefetched (`streamed_tensors`, `_marked`).

The loops and their order are given. Nothing here changes a value, so the machine's caches and
the sizes may decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tensorad.codegen.caches.prefetch_indirect import indirect_rows, with_indirect_prefetches
from tensorad.codegen.caches.prefetch_rows import (
    direct_reads,
    is_plain,
    next_iteration_prefetches,
    offset,
    row_prefetches,
    row_preloads,
    with_row_prefetches,
)
from tensorad.codegen.cost.memory_model import BYTES_PER_CYCLE, LINE, MAX_STRIDE
from tensorad.codegen.cost.parallel_work import loop_work
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import For, Kernel, Stmt, Store
from tensorad.codegen.loops.rewrite import Around, Block, rewrite_blocks
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import (
    ASSUMED_EXTENT,
    elements_formula,
    fixed_bytes,
    size_value,
)
from tensorad.ir.expr import ONE, Axis, Expr, Read
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reads

ELSEWHERE: Final = 8192
"""Bytes between rows from which what lies behind one of them is not read soon."""
LONG_BUFFER: Final = 1024
"""Bytes of a buffer that is read while stores wait."""
SHORT_ROWS: Final = 2048
"""Rows of at least this many bytes the processor prefetches itself."""
LARGE: Final = 3
"""An output streams where it is larger than the last cache divided by this."""
ALIKE: Final = 4
"""Outputs of unknown size count as large beside each other unless one is smaller by this factor."""


def with_cache_hints(kernel: Kernel, streamed: Sequence[Tensor], *, assume_large: bool) -> Kernel:
    """The kernel with the stores marked that stream, and what is prefetched.

    Args:
        assume_large: whether symbolic sizes are taken for so large that no cache holds a tensor.
    """
    given = dict.fromkeys(kernel.reads)
    unknown = [t for t in (*given, *kernel.writes) if fixed_bytes(t) is None]
    beyond_l2 = tensors_beyond_l2(kernel, assume_large=assume_large)
    if not streamed and not beyond_l2 and not unknown:
        return kernel
    marks = _Marks(
        dict.fromkeys(streamed), dict.fromkeys(beyond_l2), dict.fromkeys((*beyond_l2, *unknown))
    )
    body = rewrite_blocks(kernel.body, partial(_marked, marks=marks))
    unaliased_with = _aliasing_store(kernel, streamed)
    return replace(kernel, body=body, unaliased_with=unaliased_with)


def _aliasing_store(kernel: Kernel, streamed: Sequence[Tensor]) -> Tensor | None:
    """The tensor whose stores wait for memory while loads of scratch are compared with them."""
    own = dict.fromkeys([t for t, _ in kernel.beside])
    sizes = [fixed_bytes(t) for t in kernel.scratch if t not in own]
    rows = any(n is None or n >= LONG_BUFFER for n in sizes)
    return streamed[0] if streamed and rows else None


def tensors_beyond_l2(kernel: Kernel, *, assume_large: bool) -> list[Tensor]:
    """What a kernel reads and writes that no second cache holds."""
    given = dict.fromkeys(kernel.reads)
    second = machine.current().l2

    def is_beyond_l2(t: Tensor) -> bool:
        size_bytes, least = fixed_bytes(t), second if t in given else second // 4
        return assume_large if size_bytes is None else size_bytes > least

    return [t for t in dict.fromkeys((*given, *kernel.writes)) if is_beyond_l2(t)]


def is_memory_bound(kernel: Kernel, share: int = 1) -> bool:
    """Whether memory needs longer than a part, one of `share`, of what the kernel computes.

    Copies of whole lines come all at once and nothing is computed meanwhile: they save bytes
    where there is nothing to compute. Plain stores are brought and taken away beside the rest.
    """
    cycles = sum([_assumed(loop_work(s)) for s in kernel.body if isinstance(s, For)])
    moved = sum([_assumed_bytes(t) for t in dict.fromkeys(kernel.reads)])
    moved += 2 * sum([_assumed_bytes(t) for t in kernel.writes])  # plain stores bring lines, too
    return cycles * BYTES_PER_CYCLE < share * moved


def _assumed(e: Expr) -> int:
    """A number of symbolic sizes where each of them is the assumed one."""
    return size_value(e, dict.fromkeys(sizes_in(e), ASSUMED_EXTENT))


def _assumed_bytes(t: Tensor) -> int:
    """The bytes of a tensor, n * m of one extent included, as `_assumed` counts its loops."""
    return _assumed(elements_formula(t.shape, t.dtype.size_bytes))


def streamed_tensors(
    kernel: Kernel, schedules: Schedules, *, assume_large: bool = False
) -> list[Tensor]:
    """Tensors that the kernel only writes and that no cache could keep for a later reader.

    Args:
        assume_large: whether that is so for the largest ones of unknown size.
    """
    last = machine.current().l3
    every = dict.fromkeys((*kernel.reads, *kernel.writes))
    total = sum([fixed_bytes(t) or 0 for t in every])
    endless = assume_large and any(fixed_bytes(t) is None for t in every)
    largest = dict.fromkeys(largest_unknown(kernel) if assume_large else ())
    found: list[Tensor] = []
    for t in kernel.writes:
        chosen = schedules.of(t.name).streaming
        large = (endless or total > last) and (is_large(t) or t in largest)
        if large if chosen is None else chosen:
            found.append(t)
    if not found:
        return found
    read = {e.tensor for s in statements(kernel.body) for e in reads(*expressions(s))}
    return [t for t in found if t not in read]


def largest_unknown(kernel: Kernel) -> list[Tensor]:
    """The tensors of unknown size that a kernel writes, without those that are much smaller."""
    found = [t for t in kernel.writes if fixed_bytes(t) is None]
    most = max([_assumed_bytes(t) for t in found], default=0)
    return [t for t in found if ALIKE * _assumed_bytes(t) >= most]


def is_large(t: Tensor) -> bool:
    """Whether stores of it had better pass all caches, with what else is read and written."""
    return LARGE * (fixed_bytes(t) or 0) > machine.current().l3


@dataclass(frozen=True)
class _Marks:
    """Which tensors hints are for."""

    streamed: dict[Tensor, None]
    beyond_l2: dict[Tensor, None]
    maybe_beyond_l2: dict[Tensor, None]
    """Those of unknown size, too: loops that are not vectorised, and those with lanes in rows far
    apart, lose nothing by what they could spare."""


def _marked(block: Block, around: Around, marks: _Marks) -> list[Stmt]:
    """A block with its stores marked, and its loops with their hints."""
    streamed, beyond_l2 = marks.streamed, marks.beyond_l2
    outer = tuple([c.axis for c in around.outer if isinstance(c, For)])
    outer_axis = outer[-1] if outer else None
    in_vector_loop = any(map(is_vectorised, around.outer))
    result: list[Stmt] = []
    beside = False
    passes = sum(map(is_vectorised, block))
    for s in block:
        if isinstance(s, Store) and all(t in streamed for t in s.tensors):
            result.append(replace(s, streaming=True))
            continue
        inner = around.inside(s)
        if not isinstance(inner, For):
            result.append(inner)
            continue
        lanes = is_vectorised(inner)
        loads = lanes or (not in_vector_loop and is_plain(inner))
        large = {t: None for t in beyond_l2 if is_large(t)}
        prefetches = next_iteration_prefetches(inner, large, outer_axis)
        later_rows = row_prefetches(inner, beyond_l2, outer) if passes > 1 else {}
        beside = beside or bool(later_rows)
        prefetches |= later_rows
        near = {
            t: None for t in (beyond_l2 if lanes else marks.maybe_beyond_l2) if t not in prefetches
        }
        loaded = row_preloads(inner, near, outer) if loads else {}
        result.extend([line for lines in loaded.values() for line in lines])
        if lanes:
            rest = {t: None for t in near if t not in loaded}
            later = [line for lines in prefetches.values() for line in lines]
            inner = replace(inner, body=(*later, *inner.body))
            inner = replace(inner, prefetched=_prefetched(inner, rest, outer_axis, beside))
            inner = with_row_prefetches(inner, marks.maybe_beyond_l2)
            result.extend(_row_by_row(inner) if streamed else [inner])
        else:
            result.append(with_indirect_prefetches(inner, beyond_l2))
    return result


def _prefetched(
    s: For, beyond_l2: dict[Tensor, None], around: Axis | None, beside: bool
) -> tuple[Tensor, ...]:
    """Large tensors that the loop reads itself in short rows, or across their rows, and those
    that it stores after loops of its own: their lines come while it computes.

    `beside`: whether lines of other rows are prefetched, so that the processor follows none."""
    found: dict[Tensor, None] = {}
    unfollowed = beside or bool(indirect_rows(s, beyond_l2, around))  # by the processor
    for t, places in direct_reads(s, beyond_l2).items():
        alone = not unfollowed and (not _is_short(s, t) or _end_to_end(s, places, around))
        near = not any(_is_elsewhere(e, around) for e in places)
        if (near and not alone) or any(_is_across(s, e) for e in places):
            found[t] = None
    if any(isinstance(c, For) for c in s.body):
        stored = [c for c in s.body if isinstance(c, Store) and not c.streaming]
        found.update(dict.fromkeys([t for c in stored for t in c.tensors if t in beyond_l2]))
    return tuple(found)


def _is_short(s: For, t: Tensor) -> bool:
    extent = s.axis.extent
    return extent is not None and extent * t.dtype.size_bytes < SHORT_ROWS


def _is_elsewhere(e: Read, around: Axis | None) -> bool:
    """Whether the next row is farther away than what would be prefetched."""
    step = 0 if around is None else access(e.tensor, e.indices).stride(around)
    return step is not None and abs(step) * e.tensor.dtype.size_bytes > ELSEWHERE


def _end_to_end(s: For, places: Sequence[Read], around: Axis | None) -> bool:
    """Whether the rows lie one after the other, in the order they are read: one stream."""
    if around is None or len(places) > 1 or around.step is not ONE:
        return False
    where = access(places[0].tensor, places[0].indices)
    return where.stride(s.axis) == 1 and where.stride(around) == s.axis.extent


def _is_across(s: For, e: Read) -> bool:
    stride = access(e.tensor, e.indices).stride(s.axis)
    return stride is not None and abs(stride) > MAX_STRIDE


def _row_by_row(s: For) -> list[For]:
    """The loop, or one per row that it stores: rows that are not aligned with each other."""
    stores = [c for c in s.body if isinstance(c, Store)]
    if len(stores) < max(2, len(s.body)) or not all(c.streaming for c in stores):
        return [s]
    if len({t for c in stores for t in c.tensors}) > 1:
        return [s]
    if any(_is_across(s, e) for e in reads(*[v for c in stores for v in c.values])):
        return [s]
    t = stores[0].tensors[0]
    starts = [offset(t, c.indices) for c in stores]
    rows: dict[int, list[Store]] = {}
    for n in sorted(range(len(stores)), key=lambda n: starts[n].constant):
        at, stride = starts[n].constant, starts[n].terms.get(s.axis, 0)
        if not stride or starts[n].terms != starts[0].terms:
            return [s]
        rows.setdefault(next((r for r in rows if at < r + stride), at), []).append(stores[n])
    if all((row - min(rows)) * t.dtype.size_bytes % LINE == 0 for row in rows):
        return [s]
    first, *others = [replace(s, body=tuple(row)) for row in rows.values()]
    return [first, *[replace(row, prefetched=()) for row in others]]
