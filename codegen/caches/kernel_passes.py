"""What is done to one finished kernel: a list of passes, over one version of its loops or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.caches.cache_hints import is_memory_bound, streamed_tensors, with_cache_hints
from tensorad.codegen.caches.fuse_passes import with_joined_passes
from tensorad.codegen.caches.misaligned_tiles import with_tile_buffers
from tensorad.codegen.caches.multiversion import Version, Versions, join_versions, split_versions
from tensorad.codegen.caches.narrow_scratch import with_narrow_scratch
from tensorad.codegen.caches.pipeline_stores import with_rows_overlapped
from tensorad.codegen.caches.prefetch_next_row import with_next_row_prefetches
from tensorad.codegen.caches.symbolic_strips import with_symbolic_strips
from tensorad.codegen.caches.unread_scratch import without_unread_scratch
from tensorad.codegen.caches.write_combining import with_write_combining
from tensorad.codegen.cost.parallel_work import with_work
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.forms import alone, loops_differ
from tensorad.codegen.loops.ir import Kernel, Stmt
from tensorad.codegen.loops.printer import format_kernel
from tensorad.codegen.loops.verify import verify_loops
from tensorad.ir.analysis.decisions import Decision, listening, note
from tensorad.ir.tensor import Tensor
from tensorad.passes import Form, Pass, run_passes

KernelPass = Pass[Schedules, Versions]
Change = Callable[[Schedules, Version], Version]
_Buffered = Callable[
    [Sequence[Stmt], Mapping[Tensor, None], Sequence[Tensor]],
    tuple[tuple[Stmt, ...], list[Tensor]],
]
"""(body, what streams, scratch) -> the body by way of buffers, and these."""


def finished_kernel(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel after all passes."""
    (version,) = run_passes(KERNEL_PASSES, schedules, (Version(kernel),), KERNEL)
    return version.kernel


def _each(change: Change) -> Callable[[Schedules, Versions], Versions]:
    """A change of every version; what is told about the first holds for both."""

    def run(schedules: Schedules, versions: Versions) -> Versions:
        first, *others = versions
        made = [change(schedules, first)]
        if others:
            with listening(Decision):
                made.extend([change(schedules, v) for v in others])
        unchanged = all(a is b for a, b in zip(made, versions, strict=True))
        return versions if unchanged else tuple(made)

    return run


def _each_kernel(change: Callable[[Kernel, Schedules], Kernel]) -> Callable[..., Versions]:
    """A change of every version's kernel."""
    return _each(lambda schedules, v: _with_kernel(v, change(v.kernel, schedules)))


def _with_kernel(v: Version, kernel: Kernel) -> Version:
    return v if kernel is v.kernel else replace(v, kernel=kernel)


def _by_buffers(change: _Buffered, *, assume_large: bool = False) -> Callable[..., Versions]:
    """A change of versions whose streamed stores wait for memory; `assume_large`: only of the
    second."""

    def run(schedules: Schedules, v: Version) -> Version:
        if not v.waits or (assume_large and not v.assume_large):
            return v
        body, made = change(v.kernel.body, dict.fromkeys(v.streamed), v.kernel.scratch)
        if body is v.kernel.body:
            return v
        return replace(v, kernel=replace(v.kernel, body=body, scratch=(*v.kernel.scratch, *made)))

    return _each(run)


def _with_streams(schedules: Schedules, v: Version) -> Version:
    streamed = tuple(streamed_tensors(v.kernel, schedules, assume_large=v.assume_large))
    if not streamed:
        return v
    why = "they exceed the last cache with what is read"
    note(Decision(streamed, "streaming stores", why))
    return replace(v, streamed=streamed, waits=is_memory_bound(v.kernel))


def _marked(schedules: Schedules, v: Version) -> Version:
    return _with_kernel(v, with_cache_hints(v.kernel, v.streamed, assume_large=v.assume_large))


KERNEL_PASSES: Final[tuple[KernelPass, ...]] = (
    Pass(
        "narrow_scratch",
        _each_kernel(lambda kernel, schedules: with_narrow_scratch(kernel)),
        "first: it reads what is stored off plain loops, and the bytes of scratch decide later",
    ),
    Pass("split_versions", split_versions, "before all that the side of the last cache decides"),
    Pass("choose_streams", _each(_with_streams), "on plain loops, whose work says what waits"),
    Pass(
        "buffer_streams",
        _by_buffers(with_write_combining),
        "before strips: it takes whole loops, strips are single ones",
    ),
    Pass(
        "buffer_ragged_strips",
        _by_buffers(lambda body, streamed, scratch: with_tile_buffers(body, streamed)),
        "on strips of the schedule, before others are made",
    ),
    Pass(
        "strip_symbolic_tiles",
        _by_buffers(
            lambda body, streamed, scratch: with_symbolic_strips(body, streamed), assume_large=True
        ),
        "on tiles that are left; before marks, which its stores get too",
    ),
    Pass("mark_memory", _each(_marked), "once loops stand: what is asked for depends on them"),
    Pass(
        "join_row_passes",
        _each_kernel(with_joined_passes),
        "with marked stores: those that stream begin with lines",
    ),
    Pass(
        "drop_unread_scratch",
        _each_kernel(lambda kernel, schedules: without_unread_scratch(kernel)),
        "after joining: who read it has it in a register then",
    ),
    Pass(
        "prefetch_next_rows",
        _each_kernel(lambda kernel, schedules: with_next_row_prefetches(kernel)),
        "on joined passes: it shares prefetches among those that are left",
    ),
    Pass(
        "overlap_rows", _each_kernel(with_rows_overlapped), "passes are joined, stores are marked"
    ),
    Pass("join_versions", join_versions, "all that treats versions apart is done", required=True),
    Pass("estimate_work", _each_kernel(with_work), "last: the loops are those that run"),
)
"""All stay within one kernel, change no value and no order of a sum."""


def _show(schedules: Schedules, versions: Versions) -> str:
    sides = ["", "beyond the last cache:\n"] if len(versions) > 1 else [""]
    texts = [format_kernel(v.kernel) for v in versions]
    return "".join([side + text for side, text in zip(sides, texts, strict=True)])


def _verify(schedules: Schedules, versions: Versions) -> None:
    for v in versions:
        verify_loops(alone(v.kernel))


def _compare(schedules: Schedules, before: Versions, after: Versions) -> str:
    """Versions store the same, so each is compared with the first before."""
    want = alone(before[0].kernel)
    found = [loops_differ(want, alone(v.kernel)) for v in after]
    return next(filter(None, found), "")


KERNEL: Final[Form[Schedules, Versions]] = Form(_show, _verify, _compare)
