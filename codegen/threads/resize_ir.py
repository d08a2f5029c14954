"""Workers of the thread pool begin and end, as LLVM IR.

One native call does it all: a signal that Python turns into an exception between two steps would
leave a thread that nobody joins, or that has the number of another one.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, stored
from tensorad.codegen.threads.linux_calls import HAS_THREADS

SYMBOLS: Final = ("pthread_create", "pthread_join") if HAS_THREADS else ()
"""What the text needs of the C library."""

_RESIZE: Final = f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define i32 @resize(ptr %pool, i64 %workers) nounwind {{
entry:
  {field("%busy", "%pool", block.POOL_BUSY)}
  {field("%number", "%pool", block.WORKERS)}
  {field("%stopped", "%pool", block.STOP)}
  {field("%gen", "%pool", block.GENERATION)}
  %pair = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %got = extractvalue {{i32, i1}} %pair, 1
  br i1 %got, label %compare, label %late
late:
  ret i32 0
compare:
  %old = load i64, ptr %number
  %over = icmp sgt i64 %old, %workers
  br i1 %over, label %stop, label %grow
stop:
  store atomic i32 1, ptr %stopped seq_cst, align 4
  %g = atomicrmw add ptr %gen, i32 1 seq_cst
  call void @wake(ptr %gen)
  br label %join
join:
  %n = phi i64 [%old, %stop], [%n1, %join]
  %no = mul i64 %n, {block.ARGUMENT_BYTES}
  %no1 = add i64 %no, {block.ARGUMENTS + 24}
  {field("%ending", "%pool", "%no1")}
  %thread = load i64, ptr %ending
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %n1 = sub i64 %n, 1
  %rest = icmp sgt i64 %n1, 0
  br i1 %rest, label %join, label %ended
ended:
  store atomic i32 0, ptr %stopped seq_cst, align 4
  br label %grow
grow:
  %begun = phi i64 [%old, %compare], [0, %ended], [%id, %create]
  %enough = icmp sge i64 %begun, %workers
  br i1 %enough, label %done, label %prepare
prepare:
  %id = add i64 %begun, 1
  %line = mul i64 %id, 64
  %line1 = add i64 %line, {block.ERRORS + block.CPU}
  {field("%place", "%pool", "%line1")}
  store atomic i32 -1, ptr %place monotonic, align 4
  %start = load atomic i32, ptr %gen monotonic, align 4
  %ao = mul i64 %id, {block.ARGUMENT_BYTES}
  %ao1 = add i64 %ao, {block.ARGUMENTS}
  {field("%argument", "%pool", "%ao1")}
  store ptr %pool, ptr %argument
  {stored("i64 %id", "%argument1", "%argument", 8)}
  {stored("i32 %start", "%argument2", "%argument", 16)}
  {field("%handle", "%argument", 24)}
  br label %create
create:
  %refused = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker, ptr %argument)
  %none = icmp ne i32 %refused, 0
  br i1 %none, label %done, label %grow
done:
  store i64 %begun, ptr %number
  store atomic i32 0, ptr %busy release, align 4
  ret i32 1
}}"""
_NOTHING: Final = """
define i32 @resize(ptr %pool, i64 %workers) nounwind {
  ret i32 1
}"""
RESIZE: Final = _RESIZE if HAS_THREADS else _NOTHING
"""@resize: have so many workers; 0 where a loop has the pool, and then nothing was done.

All end where there are too many. The system may give fewer than asked for: they do the same work.
A worker that begins has not been on any processor.
"""
