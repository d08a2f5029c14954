"""No iteration of a parallel loop is lost or runs twice, however tiny the loops are."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import pytest

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.target import link
from tensorad.codegen.threads.linux_calls import HAS_THREADS
from tensorad.codegen.threads.pool import driver, pool_for

WORD: Final = ctypes.c_int64
KERNEL: Final = """
define i64 @f(ptr %slots, ptr %index, ptr %sizes, i64 %begin, i64 %end, ptr %error) nounwind {
entry:
  %asked = icmp slt i64 %end, 0
  br i1 %asked, label %answer, label %head
answer:
  %count = load i64, ptr %sizes
  ret i64 %count
head:
  %n = phi i64 [%begin, %entry], [%n1, %body]
  %more = icmp slt i64 %n, %end
  br i1 %more, label %body, label %done
body:
  %counts = load ptr, ptr %slots
  %at = getelementptr i64, ptr %counts, i64 %n
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %n1 = add i64 %n, 1
  br label %head
done:
  ret i64 0
}"""
"""One more for each iteration; an iteration that two threads run at once may count once, but one
that a thread runs after another counts twice."""


@pytest.mark.skipif(not HAS_THREADS, reason="loops run on one thread on this system")
@pytest.mark.parametrize(("threads", "count"), [(2, 64), (2, 97), (3, 64)])
def test_tiny_loops_count_each_iteration_once(threads: int, count: int) -> None:
    library = link.load(KERNEL, ("f",), ())
    counts, loops = np.zeros(count, np.int64), 20_000
    slots: Any = (WORD * 1)(counts.ctypes.data)
    sizes, nothing = (WORD * 1)(count), (WORD * 4)()
    steps = np.array([[library.addresses["f"], 0, 1]] * loops, np.int64)
    words = (WORD * block.CALL_WORDS)()
    words[block.STEPS], words[block.COUNT] = steps.ctypes.data, loops
    words[block.SLOTS], words[block.SIZES] = ctypes.addressof(slots), ctypes.addressof(sizes)
    words[block.INDICES] = words[block.INSIDE] = ctypes.addressof(nothing)
    words[block.THREADS], words[block.POOL] = threads, pool_for(threads)
    assert driver().run(ctypes.addressof(words)) == 0
    assert counts.tolist() == [loops] * count
