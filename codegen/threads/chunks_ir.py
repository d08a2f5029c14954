"""Memory that is taken in order and given back in order, in chunks that are kept, as LLVM IR."""

from __future__ import annotations

import os
from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored
from tensorad.codegen.loops.scratch import ALIGNMENT

SYMBOLS: Final = ("posix_memalign", "memcpy", "open", "read", "close")
"""What the text needs of the C library."""
LEAST_CHUNK: Final = 1 << 16
"""Bytes of the first chunk; each further one has twice as many."""
MOST_CHUNK: Final = 1 << 28
"""Bytes from which on chunks do not grow."""
LARGE_CHUNK: Final = 1 << 24
"""Bytes from which on a chunk has to be at most a quarter of what the machine has left."""
_READ: Final = 256
"""Bytes of /proc/meminfo that are read."""
FIRST, NOW, TOP, END = (8 * n for n in range(4))
"""Words of memory that is taken in order, in bytes."""

_TAKE: Final = f"""
define internal i64 @bump(ptr %call, ptr %region, i64 %need, i64 %align) nounwind {{
entry:
  %less = sub i64 %align, 1
  %mask = sub i64 0, %align
  br label %try
try:
  {loaded("%top", "i64", "%region", TOP)}
  {loaded("%end", "i64", "%region", END)}
  %above = add i64 %top, %less
  %start = and i64 %above, %mask
  %new = add i64 %start, %need
  %fits = icmp ule i64 %new, %end
  br i1 %fits, label %take, label %more
take:
  store i64 %new, ptr %top.at
  ret i64 %start
more:
  %all = add i64 %need, %align
  %got = call i1 @chunk(ptr %call, ptr %region, i64 %all)
  br i1 %got, label %try, label %none
none:
  ret i64 0
}}
define internal i1 @chunk(ptr %call, ptr %region, i64 %need) nounwind {{
entry:
  %place = alloca ptr
  {loaded("%now", "ptr", "%region", NOW)}
  %begun = icmp ne ptr %now, null
  %linkp = select i1 %begun, ptr %now, ptr %region
  %next = load ptr, ptr %linkp
  %least = add i64 %need, {block.CHUNK_HEAD}
  %there = icmp ne ptr %next, null
  br i1 %there, label %look, label %size
look:
  {loaded("%has", "i64", "%next", 8 * block.CHUNK_BYTES)}
  %enough = icmp uge i64 %has, %least
  br i1 %enough, label %use, label %size
size:
  br i1 %begun, label %after, label %wish
after:
  {loaded("%before", "i64", "%now", 8 * block.CHUNK_BYTES)}
  %double = mul i64 %before, 2
  %huge = icmp ugt i64 %double, {MOST_CHUNK}
  %twice = select i1 %huge, i64 {MOST_CHUNK}, i64 %double
  br label %wish
wish:
  %wish0 = phi i64 [{LEAST_CHUNK}, %size], [%twice, %after]
  %larger = icmp ugt i64 %wish0, %least
  %wish1 = select i1 %larger, i64 %wish0, i64 %least
  {loaded("%heap", "ptr", "%call", 8 * block.HEAP)}
  %limit = load i64, ptr %heap
  {loaded("%used", "i64", "%heap", 8)}
  %room = sub i64 %limit, %used
  %roomy = icmp sle i64 %wish1, %room
  %bytes = select i1 %roomy, i64 %wish1, i64 %least
  %allowed = icmp sle i64 %bytes, %room
  br i1 %allowed, label %ask, label %none
ask:
  %small = icmp ult i64 %bytes, {LARGE_CHUNK}
  br i1 %small, label %make, label %left
left:
  %machine = call i64 @available()
  %quarter = lshr i64 %machine, 2
  %there1 = icmp ule i64 %bytes, %quarter
  br i1 %there1, label %make, label %none
make:
  %failed = call i32 @posix_memalign(ptr %place, i64 {ALIGNMENT}, i64 %bytes)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %link, label %none
link:
  %new = load ptr, ptr %place
  store ptr %next, ptr %new
  {stored("i64 %bytes", "%newbytes", "%new", 8 * block.CHUNK_BYTES)}
  store ptr %new, ptr %linkp
  %used1 = add i64 %used, %bytes
  store i64 %used1, ptr %used.at
  br label %use
use:
  %chosen = phi ptr [%next, %look], [%new, %link]
  call void @begin(ptr %region, ptr %chosen)
  ret i1 true
none:
  ret i1 false
}}
define internal void @begin(ptr %region, ptr %chunk) nounwind {{
  {stored("ptr %chunk", "%nowp", "%region", NOW)}
  {loaded("%bytes", "i64", "%chunk", 8 * block.CHUNK_BYTES)}
  %start = ptrtoint ptr %chunk to i64
  %top = add i64 %start, {block.CHUNK_HEAD}
  %end = add i64 %start, %bytes
  {stored("i64 %top", "%topp", "%region", TOP)}
  {stored("i64 %end", "%endp", "%region", END)}
  ret void
}}
define internal void @restore(ptr %region, ptr %chunk, i64 %top) nounwind {{
entry:
  {loaded("%now", "ptr", "%region", NOW)}
  {stored("i64 %top", "%topp", "%region", TOP)}
  %same = icmp eq ptr %now, %chunk
  br i1 %same, label %done, label %back
back:
  %none = icmp eq ptr %chunk, null
  {stored("ptr %chunk", "%nowp", "%region", NOW)}
  br i1 %none, label %empty, label %some
empty:
  {stored("i64 0", "%endp0", "%region", END)}
  ret void
some:
  {loaded("%bytes", "i64", "%chunk", 8 * block.CHUNK_BYTES)}
  %start = ptrtoint ptr %chunk to i64
  %end = add i64 %start, %bytes
  {stored("i64 %end", "%endp", "%region", END)}
  ret void
done:
  ret void
}}
define internal void @emptied(ptr %call) nounwind {{
  {field("%stack", "%call", 8 * block.STACK)}
  {field("%records", "%call", 8 * block.RECORDS)}
  call void @restore(ptr %stack, ptr null, i64 0)
  call void @restore(ptr %records, ptr null, i64 0)
  {stored("i64 0", "%depth", "%call", 8 * block.DEPTH)}
  ret void
}}"""
"""@bump: the address of so many bytes, 0 where there is no memory; @chunk: go on to a chunk with so
many bytes; @restore: what was taken since is free; @emptied: all is."""

_AVAILABLE: Final = f"""
@meminfo = private constant [14 x i8] c"/proc/meminfo\\00"
declare i32 @open(ptr, i32, ...)
declare i64 @read(i32, ptr, i64)
declare i32 @close(i32)
define internal i64 @available() nounwind {{
entry:
  %text = alloca [{_READ} x i8]
  %file = call i32 (ptr, i32, ...) @open(ptr @meminfo, i32 {os.O_RDONLY | os.O_CLOEXEC})
  %opened = icmp sge i32 %file, 0
  br i1 %opened, label %get, label %unknown
get:
  %bytes = call i64 @read(i32 %file, ptr %text, i64 {_READ})
  %closed = call i32 @close(i32 %file)
  br label %next
next:
  %n = phi i64 [0, %get], [%n1, %more]
  %line = phi i64 [0, %get], [%line1, %more]
  %value = phi i64 [0, %get], [%value1, %more]
  %inside = icmp slt i64 %n, %bytes
  %before = icmp slt i64 %line, 3
  %go = and i1 %inside, %before
  br i1 %go, label %look, label %done
look:
  {field("%at", "%text", "%n")}
  %letter = load i8, ptr %at
  %ends = icmp eq i8 %letter, 10
  %step = zext i1 %ends to i64
  %line1 = add i64 %line, %step
  %digit = sub i8 %letter, 48
  %isdigit = icmp ult i8 %digit, 10
  %third = icmp eq i64 %line, 2
  %counts = and i1 %isdigit, %third
  %ten = mul i64 %value, 10
  %wide = zext i8 %digit to i64
  %longer = add i64 %ten, %wide
  %value1 = select i1 %counts, i64 %longer, i64 %value
  br label %more
more:
  %n1 = add i64 %n, 1
  br label %next
done:
  %whole = icmp eq i64 %line, 3
  %some = icmp ne i64 %value, 0
  %known = and i1 %whole, %some
  br i1 %known, label %found, label %unknown
found:
  %all = shl i64 %value, 10
  ret i64 %all
unknown:
  ret i64 {(1 << 63) - 1}
}}"""
"""@available: bytes that the machine has left, the third line of /proc/meminfo; without such a file
as many as can be asked for."""

_DECLARED: Final = """
declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @memcpy(ptr, ptr, i64)"""
CHUNKS: Final = "\n".join([_DECLARED, _AVAILABLE, _TAKE])
