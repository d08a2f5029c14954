"""Records of failures, as LLVM IR: what stopped a call, by the code that it returns.

Memory for them is taken when the first call fails. They are a ring that calls write to at once: a
record has its number before and after, so that who reads it sees whether it is whole.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.entry.plan_words import (
    ALLOWED,
    CODE,
    DEPTH,
    EXTENT,
    FAILURE_HEAD,
    FAILURE_WORDS,
    FAILURES,
    NO_CHECK,
    NUMBER_BITS,
    PLACES,
    RECORDS,
    STEP,
    TICKET,
    VALUE,
    WORD_COUNTS,
)
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored

RECORD: Final = f"""
define internal ptr @record(ptr %plan, i64 %number) nounwind {{
begin:
  {loaded("%size", "i64", "%plan", 8 * FAILURE_WORDS)}
  {field("%place", "%plan", 8 * FAILURES)}
  %old = load atomic i64, ptr %place acquire, align 8
  %some = icmp ne i64 %old, 0
  br i1 %some, label %have, label %first
first:
  %bytes = mul i64 %size, 8
  %new = call ptr @calloc(i64 {RECORDS}, i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %lacking, label %show
show:
  %own = ptrtoint ptr %new to i64
  %pair = cmpxchg ptr %place, i64 0, i64 %own acq_rel acquire
  %others = extractvalue {{i64, i1}} %pair, 0
  %shown = extractvalue {{i64, i1}} %pair, 1
  br i1 %shown, label %have, label %late
late:
  call void @free(ptr %new)
  br label %have
have:
  %at = phi i64 [%old, %begin], [%own, %show], [%others, %late]
  %records = inttoptr i64 %at to ptr
  %slot = urem i64 %number, {RECORDS}
  %start = mul i64 %slot, %size
  %record = getelementptr i64, ptr %records, i64 %start
  ret ptr %record
lacking:
  ret ptr null
}}"""

NOTE: Final = f"""
define i64 @note(ptr %plan, ptr %call) nounwind {{
begin:
  {field("%counter", "%plan", 8 * TICKET)}
  {loaded("%counts", "ptr", "%plan", 8 * WORD_COUNTS)}
  {loaded("%places", "ptr", "%plan", 8 * PLACES)}
  %before = atomicrmw add ptr %counter, i64 1 monotonic
  %after = add i64 %before, 1
  %number = and i64 %after, {(1 << NUMBER_BITS) - 1}
  {loaded("%step", "i64", "%call", 8 * block.STEP)}
  {loaded("%code", "i64", "%call", 8 * block.CODE)}
  %record = call ptr @record(ptr %plan, i64 %number)
  %lacking = icmp eq ptr %record, null
  br i1 %lacking, label %tell, label %write
write:
  store atomic i64 0, ptr %record seq_cst, align 8
  {stored("i64 %step", "%r1", "%record", 8 * STEP)}
  {stored("i64 %code", "%r2", "%record", 8 * CODE)}
  {loaded("%value", "i64", "%call", 8 * block.VALUE)}
  {stored("i64 %value", "%r3", "%record", 8 * VALUE)}
  {loaded("%extent", "i64", "%call", 8 * block.EXTENT)}
  {stored("i64 %extent", "%r4", "%record", 8 * EXTENT)}
  {loaded("%depth", "i64", "%call", 8 * block.DEPTH)}
  {stored("i64 %depth", "%r5", "%record", 8 * DEPTH)}
  {loaded("%heap", "ptr", "%call", 8 * block.HEAP)}
  %allowed = load i64, ptr %heap
  {stored("i64 %allowed", "%r6", "%record", 8 * ALLOWED)}
  {loaded("%sizes", "ptr", "%call", 8 * block.NOW_SIZES)}
  %which = getelementptr i64, ptr %counts, i64 %step
  %count = load i64, ptr %which
  {field("%words", "%record", 8 * FAILURE_HEAD)}
  call void @copy(ptr %sizes, ptr %words, i64 %count)
  store atomic i64 %number, ptr %record seq_cst, align 8
  br label %tell
tell:
  %first = getelementptr i64, ptr %places, i64 %step
  %base = load i64, ptr %first
  %checked = icmp sgt i64 %code, 0
  %own = select i1 %checked, i64 %code, i64 {NO_CHECK}
  %place = add i64 %base, %own
  %high = shl i64 %place, {NUMBER_BITS}
  %told = or i64 %high, %number
  ret i64 %told
}}"""
