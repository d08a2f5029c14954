"""The driver with kernels written here: who runs which iterations, and whose error counts."""

from __future__ import annotations

import ctypes
import itertools
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.threads.driver_ir import LIGHT_LOOPS
from tensorad.codegen.threads.linux_calls import HAS_THREADS
from tensorad.codegen.threads.pool import driver, pool_for

threaded = pytest.mark.skipif(not HAS_THREADS, reason="loops run on one thread on this system")
common = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
WORD = ctypes.c_int64
KERNEL = ctypes.CFUNCTYPE(
    WORD, *[ctypes.c_void_p] * 3, WORD, WORD, ctypes.POINTER(WORD)
)  # slots, index, sizes, begin, end, error

Run = Callable[[int, int], int]
"""(begin, end) -> the code of an error, or 0."""


def launched(
    answer: int, run: Run, threads: int, words: Any = None, pool: int | None = None, times: int = 1
) -> tuple[int, list[int]]:
    """Run a parallel step, once or more often: (the error's code, the words of the error).

    Args:
        words: the call block, if it was used before.
        pool: the address of another pool than the process's; 0 for none.
    """

    def kernel(_: object, __: object, ___: object, begin: int, end: int, error: object) -> int:
        if end < 0:
            return answer
        error[0] = begin  # type: ignore[index]  # a pointer to words
        return run(begin, end)

    called = KERNEL(kernel)
    address = ctypes.cast(called, ctypes.c_void_p).value
    steps = np.array([[address, 0, 1]] * times, np.int64)
    words = words or (WORD * block.CALL_WORDS)()
    nothing = (WORD * 4)()
    words[block.STEPS], words[block.COUNT] = steps.ctypes.data, times
    for place in (block.SLOTS, block.INDICES, block.SIZES, block.INSIDE):
        words[place] = ctypes.addressof(nothing)
    words[block.THREADS] = threads
    words[block.POOL] = pool_for(threads) if pool is None else pool
    failed = driver().run(ctypes.addressof(words))
    return (words[block.CODE] if failed else 0), [words[block.VALUE], words[block.STEP]]


@pytest.mark.skipif(not common, reason="another system than Linux on x86-64 or AArch64")
def test_linux_has_threads() -> None:
    assert HAS_THREADS, "without them other tests would be left out"


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [2, 3, 7, 64, 1000])
def test_every_iteration_runs_once(count: int, threads: int) -> None:
    taken: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        taken.append((begin, end))
        return 0

    assert launched(count, run, threads)[0] == 0
    assert sorted([n for begin, end in taken for n in range(begin, end)]) == list(range(count))
    assert len(taken) <= threads * 12  # halves down to a 32nd


@threaded
def test_threads_begin_with_their_own_half() -> None:
    first: dict[int, int] = {}
    met = threading.Barrier(2)

    def run(begin: int, end: int) -> int:
        if threading.get_ident() not in first:
            first[threading.get_ident()] = begin
            met.wait(10)
        return 0

    launched(100, run, 2)
    assert sorted(first.values()) == [0, 50]


def test_without_a_pool_one_thread_runs_all() -> None:
    """Where systems have no threads for loops, whatever the settings ask for."""
    taken: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        taken.append((begin, end))
        return 0

    assert launched(64, run, 4, pool=0)[0] == 0
    assert taken == [(0, 64)]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_lowest_error_counts(threads: int) -> None:
    def run(begin: int, end: int) -> int:
        return 7 if end > 30 else 0

    code, (value, _) = launched(64, run, threads)
    assert code == 7 and value <= 30


@threaded
def test_light_loops_do_not_wake_threads() -> None:
    seen: dict[int, None] = {}
    met = threading.Barrier(2)

    def together(begin: int, end: int) -> int:
        if threading.get_ident() not in seen:
            seen[threading.get_ident()] = None
            met.wait(10)
        return 0

    def run(begin: int, end: int) -> int:
        seen[threading.get_ident()] = None
        time.sleep(0.001)
        return 0

    launched(64, together, 2)
    assert len(seen) == 2
    for _ in range(100):
        time.sleep(0.05)  # the worker sleeps after some 50 us, of time that it gets
        seen.clear()
        launched(64 | block.LIGHT, run, 2)
        if len(seen) == 1:
            break
    assert len(seen) == 1


@threaded
def test_many_light_loops_of_a_call_wake_threads() -> None:
    taken: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        taken.append((begin, end))
        return 0

    for _ in range(100):
        time.sleep(0.05)  # the worker sleeps after some 50 us, of time that it gets
        taken.clear()
        launched(64 | block.LIGHT, run, 2, times=LIGHT_LOOPS)
        if taken[: LIGHT_LOOPS - 1] == [(0, 64)] * (LIGHT_LOOPS - 1):
            break
    first, last = taken[: LIGHT_LOOPS - 1], taken[LIGHT_LOOPS - 1 :]
    assert first == [(0, 64)] * (LIGHT_LOOPS - 1), "each alone"
    assert (0, 64) not in last
    assert sorted(n for begin, end in last for n in range(begin, end)) == list(range(64))


@threaded
def test_threads_beyond_the_number_end() -> None:
    """They would be woken for every loop, and light loops would wait until they are awake."""

    def count() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    pool_for(8)
    most = count()
    for threads in (2, 5, 3):
        pool_for(threads)
        assert count() == most - 8 + threads
        assert launched(64, lambda begin, end: 0, threads)[0] == 0
    pool_for(1)
    assert count() == most - 5  # they sleep: nothing is shared


@threaded
def test_threads_that_begin_have_not_been_anywhere() -> None:
    """The processor of a thread that ended is free for others."""

    def place() -> int:
        return ctypes.c_int32.from_address(pool_for(2) + block.ERRORS + 64 + block.CPU).value

    def run(begin: int, end: int) -> int:
        time.sleep(0.001)
        return 0

    launched(64, run, 2)
    assert place() >= 0
    pool_for(3)
    assert place() == -1


@threaded
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_take_whole_parts_of_joined_strips(threads: int) -> None:
    taken: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        taken.append((begin, end))
        return 0

    for count in (threads, 64):
        taken.clear()
        assert launched(count | block.WHOLE, run, threads)[0] == 0
        ends = [count * t // threads for t in range(threads + 1)]
        assert sorted(taken) == list(itertools.pairwise(ends))


@pytest.mark.parametrize("marks", [0, block.LIGHT, block.WHOLE, block.LIGHT | block.WHOLE])
def test_one_iteration_starts_nobody(marks: int) -> None:
    seen: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        seen.append((begin, end))
        return int(threading.current_thread() is not threading.main_thread())

    assert launched(1 | marks, run, 3)[0] == 0
    assert seen == [(0, 1)]
