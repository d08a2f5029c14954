"""Tiny parallel loops whose iterations are counted, by the million.

python -m tests.support.interleavings.stress [LAUNCHES]: so many (10,000,000) that threads share,
of two callers at once, while another thread changes how many there are.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from typing import Final, NamedTuple

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.target import link
from tensorad.codegen.threads.pool import driver, pool_for

ITERATIONS: Final = 5
_CALL: Final = 1000
"""Loops of one call."""
COUNTS: Final = """
define i64 @counts(ptr %slots, ptr %i, ptr %sizes, i64 %begin, i64 %end, ptr %error) nounwind {
entry:
  %asked = icmp slt i64 %end, 0
  br i1 %asked, label %answer, label %words
answer:
  %iterations = load i64, ptr %sizes
  ret i64 %iterations
words:
  %counters = load ptr, ptr %slots
  br label %head
head:
  %k = phi i64 [%begin, %words], [%k1, %body]
  %more = icmp slt i64 %k, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %counters, i64 %k
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store volatile i64 %new, ptr %at
  %k1 = add i64 %k, 1
  br label %head
done:
  ret i64 0
}"""
"""A kernel that adds one for each iteration, of which there are as many as its first size says.

One that two threads run at once may count once, but one that runs after another counts twice.
"""


class Caller:
    """Calls of a thread, each of `_CALL` loops, and how often each iteration has run."""

    def __init__(self, threads: int) -> None:
        self._code = link.load(COUNTS, ("counts",), (), opt=1)
        self.counters = np.zeros(ITERATIONS, np.int64)
        slots = np.array([self.counters.ctypes.data, 0], np.int64)
        steps = np.array([[self._code.addresses["counts"], 0, 1]] * _CALL, np.int64)
        sizes, nothing = np.array([ITERATIONS], np.int64), np.zeros(4, np.int64)
        self._kept = (slots, steps, sizes, nothing)
        self._words = (ctypes.c_int64 * block.CALL_WORDS)()
        self._words[block.STEPS], self._words[block.COUNT] = steps.ctypes.data, _CALL
        self._words[block.SLOTS] = slots.ctypes.data
        self._words[block.SIZES] = sizes.ctypes.data
        for place in (block.INDICES, block.INSIDE):
            self._words[place] = nothing.ctypes.data
        self._words[block.THREADS] = threads
        self._words[block.POOL] = pool_for(threads)

    def run(self, ends: threading.Event) -> str:
        """Call until somebody says stop: what was wrong after one of the calls, "" if nothing."""
        for n in itertools.count(1):
            if driver().run(ctypes.addressof(self._words)):
                return "a call fails"
            if (self.counters != n * _CALL).any():
                return f"after {n * _CALL} loops iterations ran {self.counters.tolist()} times"
            if ends.is_set():
                break
        return ""


class Counted(NamedTuple):
    """What a stress has run.

    Attributes:
        launches: loops that threads shared; `loops`: with those that ran alone, as the pool was
            with another call.
        wrong: texts.
    """

    launches: int
    loops: int
    wrong: list[str]


def stress(launches: int) -> Counted:
    """Have threads share at least so many loops."""
    ends = threading.Event()
    told: list[str] = []
    callers = [Caller(2), Caller(3)]
    running = [threading.Thread(target=lambda c=c: told.append(c.run(ends))) for c in callers]
    generation = ctypes.c_uint32.from_address(pool_for(2) + block.GENERATION)
    begins = generation.value
    for thread in running:
        thread.start()
    for numbers in itertools.count():
        pool_for(2 + numbers % 3)
        time.sleep(0.01)
        shared = (generation.value - begins) % (1 << 32) - numbers
        if shared >= launches or told:
            break
    ends.set()
    for thread in running:
        thread.join()
    return Counted(shared, sum([int(c.counters[0]) for c in callers]), [t for t in told if t])


if __name__ == "__main__":
    began = time.perf_counter()
    found = stress(int((sys.argv[1:] or ["10000000"])[0]))
    seconds = time.perf_counter() - began
    print(f"{found.launches:,} of {found.loops:,} loops were shared, {seconds:.1f} s")
    sys.exit("\n".join(found.wrong))
