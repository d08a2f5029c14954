"""A long call answers signals, such as Ctrl-C: it runs in slices and asks Python between them.

Python handles signals in its main thread, between its own instructions; a call that takes seconds
is one of them. So the driver cuts what takes long, and asks itself: between two slices of a
parallel loop and between kernels, when no thread is at work. A handler may do anything then. Where
kernels are short it looks at the clock after some of them only.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Final

from tensorad.codegen.llvm.call_block import (
    ASKED,
    LEFT,
    LOOKED,
    PACE,
    REPEATS,
    SLICES,
    THREAD,
    TOOK,
    loaded,
    stored,
)
from tensorad.codegen.target.link import python_addresses
from tensorad.process import in_forked_child

SYMBOLS: Final = ("clock_gettime",)
"""What the text needs of the C library."""
PYTHON: Final = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_CheckSignals",
    "PyThread_get_thread_ident",
)
"""What it needs of Python."""
INTERRUPTED: Final = 2
"""What a call answers that a handler of signals has ended by an exception, which is set."""
_ASKED_NS: Final = 100_000_000
"""Nanoseconds between two questions; each takes the interpreter's lock."""
_SLICE_NS: Final = 50_000_000
"""Nanoseconds that a slice should take."""
_GROWTH: Final = 16
"""How many times longer than the slice before it may be: its iterations may take longer."""
_SOON_NS, _LATE_NS = 1_000_000, 4_000_000
"""Nanoseconds between two looks at the clock after which twice as many kernels run until the next
one, and after which one does."""
_MOST_KERNELS: Final = 256
"""Kernels between two looks; a look takes some 30 ns."""
_EACH: Final = 8
"""Iterations of a slice for each of several threads, at least: they share them evenly."""
_LONGER: Final = 4
"""How many times longer a slice may be for that; of long iterations it has fewer, one for each."""

_main: Final = ctypes.c_uint64(threading.main_thread().ident or 0)


def addresses() -> dict[str, int]:
    """Where the text finds Python's functions and the number of the main thread."""
    return {**python_addresses(PYTHON), "main_thread": ctypes.addressof(_main)}


@in_forked_child
def _forked() -> None:
    """The thread that forks is the child's main one."""
    _main.value = threading.get_ident()


RELEASED: Final = f"""
@main_thread = external global i64
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @PyThread_get_thread_ident()
declare i32 @clock_gettime(i32, ptr)
define i64 @released(ptr %call) nounwind {{
entry:
  {loaded("%slices", "i64", "%call", 8 * SLICES)}
  %thread = call ptr @PyEval_SaveThread()
  %long = icmp ne i64 %slices, 0
  br i1 %long, label %whose, label %plain
plain:
  %r0 = call i64 @run(ptr %call)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %r0
whose:
  %id = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @main_thread
  %answers = icmp eq i64 %id, %main
  {loaded("%took", "i64", "%call", 8 * TOOK)}
  %before = sub i64 %took, 1
  %lasts = icmp uge i64 %before, {_ASKED_NS}
  {loaded("%repeats", "i64", "%call", 8 * REPEATS)}
  %endless = icmp ne i64 %repeats, 0
  %may = or i1 %lasts, %endless
  %asks = and i1 %answers, %may
  %state = select i1 %asks, ptr %thread, ptr null
  {loaded("%old", "ptr", "%call", 8 * THREAD)}
  store ptr %state, ptr %old.at
  {loaded("%never", "i64", "%call", 8 * ASKED)}
  %now = call i64 @clock()
  store i64 %now, ptr %never.at
  {stored("i64 1", "%c0", "%call", 8 * LEFT)}
  {stored("i64 1", "%c1", "%call", 8 * PACE)}
  {stored("i64 %now", "%c2", "%call", 8 * LOOKED)}
  %r1 = call i64 @run(ptr %call)
  store ptr null, ptr %old.at
  %end = call i64 @clock()
  %took1 = sub i64 %end, %now
  %whole = icmp eq i64 %r1, 0
  %took2 = select i1 %whole, i64 %took1, i64 %took
  store i64 %took2, ptr %took.at
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %r1
}}
define internal i64 @clock() nounwind {{
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  {loaded("%seconds", "i64", "%time", 0)}
  {loaded("%rest", "i64", "%time", 8)}
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}
define internal i64 @fit(i64 %size, i64 %took) nounwind {{
  %zero = icmp eq i64 %took, 0
  %some = select i1 %zero, i64 1, i64 %took
  %before = uitofp i64 %size to double
  %time = uitofp i64 %some to double
  %wanted = fmul double %before, {float(_SLICE_NS)}
  %fit = fdiv double %wanted, %time
  %most = fmul double %before, {float(_GROWTH)}
  %fewer = fcmp olt double %fit, %most
  %next = select i1 %fewer, double %fit, double %most
  %r = fptoui double %next to i64
  ret i64 %r
}}
define internal i64 @even(i64 %size, i64 %threads) nounwind {{
  %single = icmp ult i64 %threads, 2
  %one = select i1 %single, i64 1, i64 %threads
  %each = select i1 %single, i64 1, i64 {_EACH}
  %most = mul i64 %one, %each
  %none = icmp eq i64 %size, 0
  %size1 = select i1 %none, i64 1, i64 %size
  %longer = mul i64 %size1, {_LONGER}
  %fat = icmp ult i64 %longer, %most
  %least = select i1 %fat, i64 %longer, i64 %most
  %few = icmp ult i64 %size1, %least
  %some = select i1 %few, i64 %least, i64 %size1
  %fewer = icmp ult i64 %some, %one
  %enough = select i1 %fewer, i64 %one, i64 %some
  %left = urem i64 %enough, %one
  %r = sub i64 %enough, %left
  ret i64 %r
}}
define internal i1 @look(ptr %call) nounwind {{
entry:
  {loaded("%left", "i64", "%call", 8 * LEFT)}
  %left1 = sub i64 %left, 1
  store i64 %left1, ptr %left.at
  %due = icmp sle i64 %left1, 0
  br i1 %due, label %clock, label %on
on:
  ret i1 false
clock:
  %now = call i64 @clock()
  {loaded("%last", "i64", "%call", 8 * LOOKED)}
  {loaded("%pace", "i64", "%call", 8 * PACE)}
  %took = sub i64 %now, %last
  %soon = icmp slt i64 %took, {_SOON_NS}
  %late = icmp sgt i64 %took, {_LATE_NS}
  %twice = mul i64 %pace, 2
  %many = icmp sgt i64 %twice, {_MOST_KERNELS}
  %most = select i1 %many, i64 {_MOST_KERNELS}, i64 %twice
  %same = select i1 %late, i64 1, i64 %pace
  %next = select i1 %soon, i64 %most, i64 %same
  store i64 %next, ptr %pace.at
  store i64 %next, ptr %left.at
  store i64 %now, ptr %last.at
  %ends = call i1 @ask(ptr %call, i64 %now)
  ret i1 %ends
}}
define internal i1 @ask(ptr %call, i64 %now) nounwind {{
entry:
  {loaded("%last", "i64", "%call", 8 * ASKED)}
  %since = sub i64 %now, %last
  %due = icmp sgt i64 %since, {_ASKED_NS}
  br i1 %due, label %python, label %on
on:
  ret i1 false
python:
  {loaded("%thread", "ptr", "%call", 8 * THREAD)}
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %same = call ptr @PyEval_SaveThread()
  %then = call i64 @clock()
  store i64 %then, ptr %last.at
  %ends = icmp ne i32 %raised, 0
  ret i1 %ends
}}"""
"""@released: run with the interpreter's lock given away, and ask if the call seems long, the one
before it took long or only the run tells how long it takes, and Python's main thread makes it.
@fit: iterations of the next slice, after one of `size` that `took` so many nanoseconds; @even:
about as many that threads share evenly. @ask: whether a handler of signals ends the call, if it is
time to ask; @look: the same after a kernel, mostly without a look at the clock."""
