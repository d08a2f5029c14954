"""A thread's part of a parallel loop, as LLVM IR: its own iterations, then those of others.

Every thread begins with a stretch of its own, the same in each loop of as many iterations: what
it has written lies in its cache when the next loop reads it. It takes half of what is left each
time, down to small pieces, and so do those that have finished their own.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, kernel_call, loaded, stored

PART: Final = f"""
define internal void @part(ptr %pool, i64 %id) nounwind {{
entry:
  %local = alloca [3 x i64]
  {field("%job", "%pool", block.JOB)}
  %fn = load ptr, ptr %job
  {loaded("%slots", "ptr", "%job", 8)}
  {loaded("%index", "ptr", "%job", 16)}
  {loaded("%sizes", "ptr", "%job", 24)}
  {loaded("%count", "i64", "%job", 32)}
  {loaded("%chunk", "i64", "%job", 40)}
  {loaded("%blocks", "i64", "%job", 64)}
  {loaded("%bytes", "i64", "%job", 72)}
  %before = mul i64 %id, %bytes
  %own = add i64 %blocks, %before
  {stored("i64 %own", "%local2", "%local", 8 * block.SCRATCH_WORD)}
  {loaded("%threads", "i64", "%job", 48)}
  {loaded("%start", "i64", "%job", 80)}
  %eo = mul i64 %id, 64
  %eo2 = add i64 %eo, {block.ERRORS}
  {field("%mine", "%pool", "%eo2")}
  {field("%mine1", "%mine", 8)}
  {field("%mine2", "%mine", 16)}
  {field("%mine3", "%mine", 24)}
  br label %share
share:
  %whose = phi i64 [%id, %entry], [%other, %done]
  %tried = phi i64 [1, %entry], [%tried1, %done]
  %wo = mul i64 %whose, 64
  %wo2 = add i64 %wo, {block.ERRORS + block.NEXT}
  {field("%next", "%pool", "%wo2")}
  %whose1 = add i64 %whose, 1
  %upto = mul i64 %count, %whose1
  %upto1 = udiv i64 %upto, %threads
  %end = add i64 %start, %upto1
  br label %claim
claim:
  %b = load atomic i64, ptr %next monotonic, align 8
  %left = sub i64 %end, %b
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %take, label %done
take:
  %left1 = add i64 %left, 1
  %half = lshr i64 %left1, 1
  %tiny = icmp slt i64 %half, %chunk
  %size = select i1 %tiny, i64 %chunk, i64 %half
  %e0 = add i64 %b, %size
  %small = icmp slt i64 %e0, %end
  %e = select i1 %small, i64 %e0, i64 %end
  %pair = cmpxchg ptr %next, i64 %b, i64 %e monotonic monotonic
  %got = extractvalue {{i64, i1}} %pair, 1
  br i1 %got, label %run, label %claim
run:
  %code = {kernel_call("%b", "%e", "%local")}
  %failed = icmp ne i64 %code, 0
  %known = load i64, ptr %mine1
  %first = icmp eq i64 %known, 0
  %before1 = load i64, ptr %mine
  %lower = icmp slt i64 %b, %before1
  %wanted = or i1 %first, %lower
  %keep = and i1 %failed, %wanted
  br i1 %keep, label %note, label %claim
note:
  store i64 %b, ptr %mine
  store i64 %code, ptr %mine1
  %v = load i64, ptr %local
  store i64 %v, ptr %mine2
  {loaded("%x", "i64", "%local", 8)}
  store i64 %x, ptr %mine3
  br label %claim
done:
  %around = icmp eq i64 %whose1, %threads
  %other = select i1 %around, i64 0, i64 %whose1
  %tried1 = add i64 %tried, 1
  %all = icmp sge i64 %tried, %threads
  br i1 %all, label %out, label %share
out:
  ret void
}}"""
