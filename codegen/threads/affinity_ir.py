"""A worker leaves the processor that another thread of the same loop uses, as LLVM IR.

Where two threads share a processor while another one is free, the kernel may leave them there for
seconds: both sleep and wake too often to be moved by its load balancer.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm.call_block import CPU, ERRORS, field
from tensorad.codegen.threads.linux_calls import CALLS, HAS_THREADS

_WORDS: Final = 16
"""Of a set of processors: 1,024 of them. A larger system refuses, and nobody moves."""
SYMBOLS: Final = ("sched_getcpu",) if HAS_THREADS else ()
"""What the text needs of the C library."""


def _call(number: int, words: str) -> str:
    return f"call i64 (i64, ...) @syscall(i64 {number}, i32 0, i64 {8 * _WORDS}, ptr {words})"


_SET: Final = f"[{_WORDS} x i64]"
_COPIED: Final = "\n  ".join(
    [
        f"""%at{n} = getelementptr i64, ptr %allowed, i64 {n}
  %word{n} = load i64, ptr %at{n}
  %into{n} = getelementptr i64, ptr %free, i64 {n}
  store i64 %word{n}, ptr %into{n}
  %bits{n} = call i64 @llvm.ctpop.i64(i64 %word{n})
  %count{n + 1} = add i64 %count{n}, %bits{n}"""
        for n in range(_WORDS)
    ]
).replace("%count0", "0")
_JOINED: Final = "\n  ".join(
    [
        f"""%rest{n} = getelementptr i64, ptr %free, i64 {n}
  %left{n} = load i64, ptr %rest{n}
  %any{n + 1} = or i64 %any{n}, %left{n}"""
        for n in range(_WORDS)
    ]
).replace("%any0", "0")

_MOVE: Final = f"""
declare i32 @sched_getcpu()
declare i64 @llvm.ctpop.i64(i64)
define internal i32 @here() nounwind {{
  %r = call i32 @sched_getcpu()
  ret i32 %r
}}
define internal void @apart(ptr %pool, i64 %id, i64 %threads, i32 %here) nounwind {{
entry:
  %allowed = alloca {_SET}, align 8
  %free = alloca {_SET}, align 8
  store {_SET} zeroinitializer, ptr %allowed
  %got = {_call(CALLS.sched_getaffinity, "%allowed")}
  %told = icmp sgt i64 %got, 0
  br i1 %told, label %copy, label %out
copy:
  {_COPIED}
  %enough = icmp sge i64 %count{_WORDS}, %threads
  br i1 %enough, label %look, label %out
look:
  %t = phi i64 [0, %copy], [%t1, %next]
  %met = phi i1 [false, %copy], [%met1, %next]
  %o = mul i64 %t, 64
  %o1 = add i64 %o, {ERRORS + CPU}
  {field("%its", "%pool", "%o1")}
  %cpu = load atomic i32, ptr %its monotonic, align 4
  %other = icmp ne i64 %t, %id
  %known = icmp ult i32 %cpu, {64 * _WORDS}
  %counts = and i1 %other, %known
  br i1 %counts, label %taken, label %next
taken:
  %same = icmp eq i32 %cpu, %here
  %met2 = or i1 %met, %same
  %wide = zext i32 %cpu to i64
  %w = lshr i64 %wide, 6
  %b = and i64 %wide, 63
  %at = getelementptr i64, ptr %free, i64 %w
  %old = load i64, ptr %at
  %bit = shl i64 1, %b
  %others = xor i64 %bit, -1
  %new = and i64 %old, %others
  store i64 %new, ptr %at
  br label %next
next:
  %met1 = phi i1 [%met, %look], [%met2, %taken]
  %t1 = add i64 %t, 1
  %more = icmp slt i64 %t1, %threads
  br i1 %more, label %look, label %decide
decide:
  {_JOINED}
  %room = icmp ne i64 %any{_WORDS}, 0
  %go = and i1 %met1, %room
  br i1 %go, label %move, label %out
move:
  %moved = {_call(CALLS.sched_setaffinity, "%free")}
  %back = {_call(CALLS.sched_setaffinity, "%allowed")}
  br label %out
out:
  ret void
}}"""
_STAY: Final = """
define internal i32 @here() nounwind {
  ret i32 -1
}
define internal void @apart(ptr %pool, i64 %id, i64 %threads, i32 %here) nounwind {
  ret void
}"""
MOVE_AWAY: Final = _MOVE if HAS_THREADS else _STAY
"""@here: the processor this thread runs on, -1 where the system does not tell. @apart: the worker
`id` of `threads`, now on the processor `here`, goes where none of the others took part last.

It may use the same processors as before afterwards: only where it runs now has changed. Nothing is
done where there are fewer processors than threads.
"""
