"""Workers leave the processor of another thread of their loop, and keep what they may use."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from tensorad.codegen.llvm.call_block import CPU, ERRORS, POOL_BYTES
from tensorad.codegen.target import link
from tensorad.codegen.threads.affinity_ir import MOVE_AWAY, SYMBOLS
from tensorad.codegen.threads.linux_calls import HAS_THREADS

pytestmark = pytest.mark.skipif(not HAS_THREADS, reason="loops run on one thread on this system")
TRIES = 20
"""The system may move this thread at any time, too, but not every time."""
several = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one processor only",
)


@cache
def library() -> tuple[Callable[[], int], Callable[[int, int, int, int], None], object]:
    """(the current processor, @apart, what keeps them alive)."""
    text = f"""
declare i64 @syscall(i64, ...)
{MOVE_AWAY}
define i32 @now() {{
  %r = call i32 @here()
  ret i32 %r
}}
define void @leave(ptr %pool, i64 %id, i64 %threads, i32 %here) {{
  call void @apart(ptr %pool, i64 %id, i64 %threads, i32 %here)
  ret void
}}"""
    found = link.load(text, ("now", "leave"), ("syscall", *SYMBOLS), opt=0)
    word = ctypes.c_int64
    now = ctypes.CFUNCTYPE(ctypes.c_int32)(found.addresses["now"])
    leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p, word, word, ctypes.c_int32)
    return now, leave(found.addresses["leave"]), found


def moves(places: Callable[[int], Sequence[int]], threads: int) -> list[bool]:
    """Whether worker 1 moved, try by try; `places` says where the others are, given its place."""
    now, leave, _ = library()
    pool = np.zeros(POOL_BYTES, np.uint8)
    cpus = pool[ERRORS : ERRORS + 64 * threads].view(np.int32).reshape(threads, 16)[:, CPU // 4]
    allowed = os.sched_getaffinity(0)
    found = []
    for _ in range(TRIES):
        here = now()
        cpus[:] = places(here)
        leave(pool.ctypes.data, 1, threads, here)
        found.append(now() != here)
        assert os.sched_getaffinity(0) == allowed
    return found


@several
def test_a_worker_leaves_the_processor_of_the_launcher() -> None:
    assert sum(moves(lambda here: [here, -1], 2)) > TRIES // 2


@several
def test_a_worker_stays_where_nobody_else_is() -> None:
    assert not all(moves(lambda here: [-1, here], 2))
    others = os.sched_getaffinity(0)
    assert not all(moves(lambda here: [min(others - {here}), here], 2))


@several
def test_a_worker_stays_where_no_processor_is_free() -> None:
    everywhere = sorted(os.sched_getaffinity(0))
    threads = len(everywhere) + 1
    assert not all(moves(lambda here: [*everywhere, here], threads))


def test_a_thread_bound_to_one_processor_stays() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert not any(moves(lambda here: [here, -1], 2))
    finally:
        os.sched_setaffinity(0, allowed)
