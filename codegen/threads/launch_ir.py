"""The launch of one slice of a parallel loop on the thread pool, as LLVM IR.

The calling thread puts the job where workers find it, takes its part, and waits for those that
began.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored

SPINS: Final = 2000
"""Pauses before a waiting thread sleeps: some 50 us."""
_PARAMETERS: Final = (
    "ptr %pool, ptr %fn, ptr %slots, ptr %index, ptr %sizes, i64 %start, i64 %count, "
    "i64 %finest, i64 %threads, i32 %mode, ptr %error"
)
LAUNCH_ARGUMENTS: Final = (
    "ptr %pool, ptr %fn, ptr %slots, ptr %index, ptr %sizes, i64 %b, i64 %c, "
    "i64 %finest, i64 %used, i32 %m, ptr %error"
)
LAUNCH: Final = f"""
define internal i64 @launch({_PARAMETERS}) nounwind {{
entry:
  {field("%gen", "%pool", block.GENERATION)}
  {field("%state", "%pool", block.STATE)}
  {field("%sleepers", "%pool", block.SLEEPERS)}
  {field("%waiting", "%pool", block.WAITING)}
  {field("%job", "%pool", block.JOB)}
  store ptr %fn, ptr %job
  {stored("ptr %slots", "%j1", "%job", 8)}
  {stored("ptr %index", "%j2", "%job", 16)}
  {stored("ptr %sizes", "%j3", "%job", 24)}
  {stored("i64 %count", "%j4", "%job", 32)}
  %parts = mul i64 %threads, %finest
  %above = add i64 %count, %parts
  %above1 = sub i64 %above, 1
  %chunk = udiv i64 %above1, %parts
  {stored("i64 %chunk", "%j5", "%job", 40)}
  {stored("i64 %threads", "%j6", "%job", 48)}
  {stored("i32 %mode", "%j7", "%job", 56)}
  {loaded("%blocks", "i64", "%error", 8 * block.SCRATCH_WORD)}
  {stored("i64 %blocks", "%j8", "%job", 64)}
  {loaded("%bytes", "i64", "%error", 8 * block.SCRATCH_WORD + 8)}
  {stored("i64 %bytes", "%j9", "%job", 72)}
  {stored("i64 %start", "%j10", "%job", 80)}
  store atomic i32 0, ptr %waiting seq_cst, align 4
  %cpu = call i32 @here()
  {field("%place", "%pool", block.ERRORS + block.CPU)}
  store atomic i32 %cpu, ptr %place monotonic, align 4
  br label %clear
clear:
  %i = phi i64 [0, %entry], [%i1, %clear]
  %io = mul i64 %i, 64
  %io1 = add i64 %io, {block.ERRORS + 8}
  {field("%old", "%pool", "%io1")}
  store i64 0, ptr %old
  {field("%first", "%old", block.NEXT - 8)}
  %from = mul i64 %count, %i
  %from1 = udiv i64 %from, %threads
  %from2 = add i64 %start, %from1
  store i64 %from2, ptr %first
  %i1 = add i64 %i, 1
  %rest = icmp slt i64 %i1, %threads
  br i1 %rest, label %clear, label %open
open:
  %opened = atomicrmw or ptr %state, i32 {block.OPEN} seq_cst
  %g = atomicrmw add ptr %gen, i32 1 seq_cst
  %s = load atomic i32, ptr %sleepers seq_cst, align 4
  %asleep = icmp ne i32 %s, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  call void @wake(ptr %gen)
  br label %work
work:
  call void @part(ptr %pool, i64 0)
  %closed = atomicrmw and ptr %state, i32 {~block.OPEN} seq_cst
  br label %spin
spin:
  %n = phi i32 [0, %work], [%n1, %again]
  %p = load atomic i32, ptr %state acquire, align 4
  %over = icmp eq i32 %p, 0
  br i1 %over, label %collect, label %again
again:
  call void @relax()
  %n1 = add i32 %n, 1
  %tired = icmp sgt i32 %n1, {SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %p2 = load atomic i32, ptr %state seq_cst, align 4
  %over2 = icmp eq i32 %p2, 0
  br i1 %over2, label %collect, label %nap
nap:
  call void @wait(ptr %state, i32 %p2)
  br label %sleep
collect:
  br label %look
look:
  %t = phi i64 [0, %collect], [%t1, %skip]
  %best = phi i64 [9223372036854775807, %collect], [%best1, %skip]
  %code = phi i64 [0, %collect], [%code1, %skip]
  %o = mul i64 %t, 64
  %o1 = add i64 %o, {block.ERRORS}
  {field("%slot", "%pool", "%o1")}
  {loaded("%c", "i64", "%slot", 8)}
  %bad = icmp ne i64 %c, 0
  %b = load i64, ptr %slot
  %lower = icmp slt i64 %b, %best
  %take = and i1 %bad, %lower
  br i1 %take, label %copy, label %skip
copy:
  {field("%slot2", "%slot", 16)}
  {field("%slot3", "%slot", 24)}
  %v = load i64, ptr %slot2
  %x = load i64, ptr %slot3
  store i64 %v, ptr %error
  {stored("i64 %x", "%error1", "%error", 8)}
  br label %skip
skip:
  %best1 = phi i64 [%best, %look], [%b, %copy]
  %code1 = phi i64 [%code, %look], [%c, %copy]
  %t1 = add i64 %t, 1
  %more = icmp slt i64 %t1, %threads
  br i1 %more, label %look, label %out
out:
  ret i64 %code1
}}"""
