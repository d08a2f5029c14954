"""A call that takes long answers signals, and leaves everything in order."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.cost.call_length import SLICE_POINTS, points_run
from tensorad.codegen.directives import Schedule
from tensorad.codegen.entry.plan_words import CALL_AT
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.lower import lower_program
from tensorad.codegen.target import link
from tensorad.codegen.threads.pool import driver, pool_for
from tensorad.compiled import CompiledFunction
from tensorad.ir.expr import Expr
from tests.codegen.threads.test_parallel_driver import WORD, launched
from tests.codegen.threads.test_threads import python
from tests.support.programs.linear import recurrence, while_positive

SLEEPING = """
declare i32 @usleep(i32)
define i64 @kernel(ptr %slots, ptr %index, ptr %sizes, i64 %begin, i64 %end, ptr %error) nounwind {
  %asked = icmp slt i64 %end, 0
  br i1 %asked, label %count, label %run
count:
  %n = load i64, ptr %sizes
  ret i64 %n
run:
  %length = sub i64 %end, %begin
  %one = icmp eq i64 %end, 0
  %times = select i1 %one, i64 1, i64 %length
  %short = trunc i64 %times to i32
  %us = mul i32 %short, 2000
  %r = call i32 @usleep(i32 %us)
  %ran = load ptr, ptr %slots
  %old = atomicrmw add ptr %ran, i64 %times seq_cst
  ret i64 0
}"""
"""A kernel that takes 2 ms for each iteration, of which it counts those run."""


class Stop(Exception):
    """What the handler of a signal raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Have a signal come after some seconds, which raises Stop."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Sleeper:
    """A call of kernels that sleep: `steps` of them, each of so many iterations."""

    def __init__(
        self, count: int, threads: int, *, parallel: bool = True, steps: int = 1, slices: int = 1
    ) -> None:
        self._library = link.load(SLEEPING, ("kernel",), ("usleep",))
        step = [self._library.addresses["kernel"], 0, int(parallel)]
        self._ran, self._sizes = np.zeros(1, np.int64), np.array([count], np.int64)
        self._steps, self._slots = np.array([step] * steps), np.array([self._ran.ctypes.data])
        self._nothing = np.zeros(4, np.int64)
        self.words = (WORD * block.CALL_WORDS)()
        self.words[block.STEPS], self.words[block.COUNT] = self._steps.ctypes.data, steps
        self.words[block.SLOTS] = self._slots.ctypes.data
        self.words[block.SIZES] = self._sizes.ctypes.data
        for place in (block.INDICES, block.INSIDE):
            self.words[place] = self._nothing.ctypes.data
        self.words[block.THREADS], self.words[block.POOL] = threads, pool_for(threads)
        self.words[block.SLICES] = slices

    def run(self) -> int:
        """How many iterations ran."""
        self._ran[0] = 0
        assert driver().run(ctypes.addressof(self.words)) == 0
        return self.ran

    @property
    def ran(self) -> int:
        return int(self._ran[0])


@pytest.mark.parametrize("marks", [0, block.WHOLE])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_parallel_loop_ends_at_its_next_slice(
    alarm: Callable[[float], None], threads: int, marks: int
) -> None:
    sleeper = Sleeper(threads * 4000 | marks, threads, slices=200)  # 8 s
    alarm(0.2)
    with pytest.raises(Stop):
        sleeper.run()
    assert sleeper.ran < threads * 2000  # about 150, of which 50 between two questions
    assert not sleeper.words[block.THREAD], "nobody asks for it any more"
    again = Sleeper(20 | marks, threads)
    assert again.run() == 20, "the pool goes on"


def test_kernels_on_one_thread_end_at_the_next(alarm: Callable[[float], None]) -> None:
    sleeper = Sleeper(1, 1, parallel=False, steps=4000)
    alarm(0.2)
    with pytest.raises(Stop):
        sleeper.run()
    assert 0 < sleeper.ran < 2000


def test_every_iteration_runs_once_in_slices() -> None:
    for threads in (1, 2):
        for slices in (1, 7, 100, 1 << 40):
            assert Sleeper(60, threads, slices=slices).run() == 60


def test_a_call_that_was_short_is_cut_no_more() -> None:
    taken: list[tuple[int, int]] = []

    def run(begin: int, end: int) -> int:
        taken.append((begin, end))
        return 0

    words = (WORD * block.CALL_WORDS)()
    words[block.SLICES] = 10
    assert launched(60, run, 1, words)[0] == 0
    assert taken[0] == (0, 6) and taken[-1][1] == 60
    assert 0 < words[block.TOOK] < 10**8
    taken.clear()
    assert launched(60, run, 1, words)[0] == 0
    assert taken == [(0, 60)]
    words[block.TOOK] = 10**9
    assert launched(60, run, 1, words)[0] == 0
    assert taken[1] == (0, 6)


def test_few_long_iterations_are_cut_as_well() -> None:
    """Ten for two threads, each of 60 ms: four together, although eight each would be more even."""
    ended: list[int] = []
    before: dict[int, set[int]] = {}

    def run(begin: int, end: int) -> int:
        for n in range(begin, end):
            before[n] = set(ended)
            time.sleep(0.06)
            ended.append(n)
        return 0

    words = (WORD * block.CALL_WORDS)()
    words[block.SLICES] = 100
    assert launched(10 | block.WHOLE, run, 2, words)[0] == 0
    assert sorted(ended) == list(range(10))
    for n in range(4, 10):
        assert before[n] >= set(range(n // 4 * 4)), f"{n} waits for the slices before"


@pytest.mark.slow
def test_handlers_that_raise_nothing_let_it_go_on() -> None:
    """They may call, change the number of threads, and fork a child that calls, too."""
    code = """
    import os, signal
    from tensorad import set_num_threads
    from tensorad.codegen.threads.pool import pool_for
    from tests.codegen.threads.test_interrupts import Sleeper, adder

    seen, f, a, parent = [], adder(), np.ones(1000, "f"), os.getpid()

    def handle(number, frame):
        set_num_threads(2 + len(seen) % 2)
        pool_for(2 + len(seen) % 2)
        assert (f(a) == 2).all()
        child = os.fork() if len(seen) == 1 else None
        if child != 0:
            seen.append(None if child is None else os.waitpid(child, 0)[1])
            signal.setitimer(signal.ITIMER_REAL, 0.1)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    whole = Sleeper(400, 2, slices=100).run() == 400
    signal.setitimer(signal.ITIMER_REAL, 0)
    if os.getpid() != parent:
        os._exit(0 if whole and Sleeper(40, 2).run() == 40 else 1)
    print(whole, seen[:2])
    """
    assert python(code, TENSORAD_NUM_THREADS="2") == "True [None, 0]"


def test_threads_beside_the_main_one_are_not_interrupted(alarm: Callable[[float], None]) -> None:
    sleeper = Sleeper(300, 2, slices=100)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(sleeper.run)
        alarm(0.05)
        with pytest.raises(Stop):
            time.sleep(20)
        assert found.result(20) == 300


def test_points_are_told_from_the_sizes() -> None:
    """About: a triangle counts as a rectangle, and sums over data as long ones."""
    n = te.size("n")
    x, at = te.placeholder((n, n), name="X"), te.placeholder((n + 1,), "int64", name="at")

    def points(body: Callable[[Expr], Expr], size: int) -> int:
        y = te.compute((n,), body, name="Y")
        program = lower_program([y], [x, at], choices=Schedule(vector=False))
        return points_run(program.kernels, {n: size})

    def total(lower: Any, upper: Any) -> Callable[[Expr], Expr]:
        k = te.reduce_axis((lower, upper), name="k")
        return lambda i: te.sum(x[i, k], axis=k)

    def rows(lower: Callable[[Expr], Any], upper: Callable[[Expr], Any]) -> Callable[[Expr], Expr]:
        return lambda i: total(lower(i), upper(i))(i)

    assert 1000**2 <= points(total(0, n), 1000) < 2 * 1000**2
    assert 1000**2 / 2 <= points(rows(lambda i: 0, lambda i: i + 1), 1000) < 2 * 1000**2
    assert points(total(0, 3), 1000) < 8 * 1000
    assert points(rows(lambda i: at[i], lambda i: at[i + 1]), 1000) > SLICE_POINTS / 2
    assert points(total(0, n), 0) == 0


def test_a_loop_that_never_ends_is_interrupted_in_its_first_call(
    alarm: Callable[[float], None],
) -> None:
    a = te.placeholder((), name="a")
    f = build(while_positive(a), [a])
    seen: list[bool] = []
    other = threading.Timer(0.05, lambda: seen.append(True))
    other.start()
    alarm(0.3)
    with pytest.raises(Stop):
        f(np.float32(1.0))
    assert seen, "other threads run meanwhile"
    assert f(np.float32(-2.0)) == -1.5


def test_a_loop_of_short_kernels_looks_at_the_clock_after_some_of_them() -> None:
    x = te.placeholder((5000,), name="x")
    f = build(recurrence(x)[0], [x])
    f(np.zeros(5000, np.float32))
    idle = f._executable.layout({}, ()).frames.idle
    call = (ctypes.c_int64 * block.CALL_WORDS).from_address(idle[0] + CALL_AT)
    assert call[block.REPEATS] == 1
    assert call[block.PACE] > 32
    sleeper = Sleeper(1, 1, parallel=False, steps=4)
    sleeper.words[block.REPEATS] = 1
    sleeper.run()
    assert sleeper.words[block.PACE] <= 2


def adder() -> CompiledFunction:
    x = te.placeholder((1000,), name="X")
    return build(te.compute((1000,), lambda i: x[i] + 1.0, "Y"), [x])


def slow(rows: int, terms: int) -> CompiledFunction:
    """Sums of functions, row by row."""
    x, k = te.placeholder((rows,), name="X"), te.reduce_axis(terms, name="k")
    return build(te.compute((rows,), lambda i: te.sum(te.log(x[i] + k), axis=k), name="Y"), [x])


def folded(rows: int, terms: int) -> CompiledFunction:
    """The same in order, in kernels that follow each other."""
    x, k = te.placeholder((rows,), name="X"), te.reduce_axis(terms, name="k")
    step = te.comm_reducer(lambda a, b: te.sqrt(a + b), lambda dt: 0.0, name="step")
    y = te.compute((), lambda: step(x[k % rows] + 1.0, axis=k), name="Y")
    for n in range(20):
        y = te.compute((), lambda y=y: step(x[k % rows] + y[()], axis=k), name=f"Y{n}")
    return build(y, [x])


CTRL_C = """
import os, signal, threading, time
from tests.codegen.threads import test_interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it ignored
threads = int(os.environ["TENSORAD_NUM_THREADS"])

def timed(act):
    start = time.process_time()  # what others do to the machine does not count
    try:
        result = act()
    except KeyboardInterrupt:
        result = None
    return (time.process_time() - start) / threads, result

def interrupted(act):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return timed(act)

make = getattr(test_interrupts, os.environ["KIND"])
x, terms, whole = np.linspace(0.1, 1, 512, dtype="f"), 2000, 0.0
while whole < 0.4:
    terms = int(terms * min(8, 0.5 / max(whole, 0.01)))
    f = make(512, terms)
    f(x)
    whole, _ = timed(lambda: f(x))
f = make(512, terms)
took, result = interrupted(lambda: f(x))  # by way of Python, which learns what native calls need
whole, want = timed(lambda: f(x))
answers = [(took, result)]
kept = np.zeros_like(want)
answers.append(interrupted(lambda: f(x)))
answers.append(interrupted(lambda: f(x, out=kept)))
print([result for _, result in answers])
print(all(took < 0.2 + whole / 3 for took, _ in answers) or (whole, answers))
print(np.array_equal(f(x, out=kept), want))
print(np.count_nonzero(f._executable.layout({}, ()).frames.idle))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "native", "threads"),
    [
        ("slow", "1", "2"),
        ("slow", "0", "1"),
        ("folded", "1", "1"),
        ("folded", "0", "2"),
    ],
)
def test_ctrl_c_in_a_long_call(kind: str, native: str, threads: str) -> None:
    """A call that takes half a second, on whatever machine."""
    told = python(CTRL_C, KIND=kind, TENSORAD_NATIVE_CALLS=native, TENSORAD_NUM_THREADS=threads)
    assert told.splitlines() == ["[None, None, None]", "True", "True", "1"]
