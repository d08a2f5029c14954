"""No iteration of a parallel loop is lost or runs twice, however tiny the loops are."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.lower import lower_program
from tensorad.codegen.target import link
from tensorad.codegen.threads.pool import driver, pool_for
from tests.codegen.threads.test_parallel_driver import launched, threaded
from tests.support.interleavings.stress import COUNTS
from tests.support.machines import described

WORD: Final = ctypes.c_int64


@threaded
@pytest.mark.parametrize(("threads", "count"), [(2, 64), (2, 97), (3, 64)])
def test_tiny_loops_count_each_iteration_once(threads: int, count: int) -> None:
    library = link.load(COUNTS, ("counts",), ())
    counts, loops = np.zeros(count, np.int64), 100_000
    slots: Any = (WORD * 1)(counts.ctypes.data)
    sizes, nothing = (WORD * 1)(count), (WORD * 4)()
    steps = np.array([[library.addresses["counts"], 0, 1]] * loops, np.int64)
    words = (WORD * block.CALL_WORDS)()
    words[block.STEPS], words[block.COUNT] = steps.ctypes.data, loops
    words[block.SLOTS], words[block.SIZES] = ctypes.addressof(slots), ctypes.addressof(sizes)
    words[block.INDICES] = words[block.INSIDE] = ctypes.addressof(nothing)
    words[block.THREADS], words[block.POOL] = threads, pool_for(threads)
    assert driver().run(ctypes.addressof(words)) == 0
    assert counts.tolist() == [loops] * count


def shared(code: Callable[[int], int]) -> tuple[int, int]:
    """The code and the first iteration of the error of a loop of 100 that two threads share."""
    first: dict[int, None] = {}
    met = threading.Barrier(2)

    def run(begin: int, end: int) -> int:
        if threading.get_ident() not in first:
            first[threading.get_ident()] = None
            met.wait(10)
        return code(begin)

    found, (value, _) = launched(100, run, 2)
    assert len(first) == 2
    return found, value


@threaded
def test_errors_of_all_threads_are_looked_at() -> None:
    assert shared(lambda begin: 9 if begin >= 50 else 0) == (9, 50)
    assert shared(lambda begin: 7 if begin < 50 else 0) == (7, 0)
    assert shared(lambda begin: 7 if begin < 50 else 9) == (7, 0)
    wrong: list[int] = []

    def later(begin: int) -> int:
        if begin:
            wrong.append(begin)
        return 1000 + begin if begin else 0

    code, value = shared(later)
    assert (code, value) == (1000 + min(wrong), min(wrong))


@threaded
def test_a_thread_that_sleeps_is_woken() -> None:
    for _ in range(3):
        time.sleep(0.1)  # it sleeps after some 50 us
        assert shared(lambda begin: 0) == (0, 0)


@threaded
def test_each_thread_has_scratch_of_its_own() -> None:
    n, m = 600, 300
    x = te.placeholder((n, m), "float64", name="X")
    k = te.reduce_axis(m, name="k")
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j]), name="e")
    s = te.compute((n,), lambda i: te.sum(e[i, k], axis=k), name="s")
    y = te.compute((n, m), lambda i, j: e[i, m - 1 - j] / s[i], name="y")
    array = np.linspace(-1.0, 1.0, n * m).reshape(n, m)
    with described():
        (kernel,) = lower_program([y], [x]).kernels
        assert kernel.scratch
        f = ta.build(y, [x])
        for _ in range(5):
            want = np.exp(array)
            want = want[:, ::-1] / want.sum(1)[:, None]
            np.testing.assert_allclose(f(array), want, rtol=1e-12)
