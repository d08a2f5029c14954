"""The plain entry of compiled functions, as LLVM IR: arrays by their addresses, no Python.

A call takes a frame that nobody uses, or makes one; it waits for nobody. What went wrong is left in
a record of the entry, whose number is what the call returns.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored
from tensorad.codegen.threads import native_settings as settings

SYMBOLS: Final = ("aligned_alloc", "free")
"""What the text needs of the C library."""

# The words of an entry.
FRAME_BYTES, TEMPLATE, TEMPLATE_WORDS, MOVED, MOVED_WORDS = range(5)
"""Bytes of a frame; what its words are at first, and how many; which of them count from its
address, and how many."""
CALL_AT, SLOTS_AT, HEAP_AT, ARGUMENTS, DYNAMIC = range(5, 10)
"""In a frame, in bytes, its call block, its slots and the words `HEAP`; how many arguments there
are, and tensors of which only the run tells the size."""
SHARES, SCRATCH_BYTES, IDLE, KEPT = range(10, 14)
"""Whether threads share loops; bytes of scratch memory for each; frames that nobody uses, and how
many there may be."""
FAILURES, FAILURE_WORDS, WORD_COUNTS, PLACES, TICKET = range(14, 19)
"""Records of failures, words of one; of each step the words that it uses, and the first place of
its failures; the number of the last failure."""
ENTRY_WORDS: Final = 19
# The words of a record of a failure: its number, what the driver says, words.
NUMBER, STEP, CODE, VALUE, EXTENT, DEPTH, ALLOWED = range(7)
FAILURE_HEAD: Final = 7
RECORDS: Final = 4096
"""Records of an entry; a further failure has the place of the first one."""
NUMBER_BITS: Final = 32
"""What a failed call returns: the place where it ended, then so many bits of its number."""
NO_CHECK: Final = 0
"""Of the places of a step the one that belongs to none of its checks, which follow."""
NO_FRAME: Final = -1
"""What a call returns for which the system has no memory."""
_LARGE_PAGE: Final = 1 << 21


def plain_text() -> str:
    """The module: @enter(entry, addresses) -> 0 or what failed, @leave(entry)."""
    return "\n".join(
        [_DECLARATIONS, _COPY, _RESERVE, _MAKE, _DISPOSE, _NOTE, _TAKEN, _ENTER, _LEAVE]
    )


def trampoline_text(entry: int) -> str:
    """The module: @entered(addresses), of one entry."""
    return f"""
declare i64 @enter(ptr, ptr)
define i64 @entered(ptr %addresses) nounwind {{
  %entry = inttoptr i64 {entry} to ptr
  %code = call i64 @enter(ptr %entry, ptr %addresses)
  ret i64 %code
}}"""


_DECLARATIONS: Final = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @run(ptr)
@settings = external global i64"""

_COPY: Final = """
define internal void @copy(ptr %from, ptr %to, i64 %words) nounwind {
begin:
  br label %look
look:
  %k = phi i64 [0, %begin], [%k1, %word]
  %rest = icmp slt i64 %k, %words
  br i1 %rest, label %word, label %done
word:
  %here = getelementptr i64, ptr %from, i64 %k
  %there = getelementptr i64, ptr %to, i64 %k
  %value = load i64, ptr %here
  store i64 %value, ptr %there
  %k1 = add i64 %k, 1
  br label %look
done:
  ret void
}"""

_RESERVE: Final = f"""
define internal i1 @reserve(ptr %frame, ptr %call, i64 %need) nounwind {{
begin:
  %has = load i64, ptr %frame
  %enough = icmp uge i64 %has, %need
  br i1 %enough, label %yes, label %more
more:
  {loaded("%old", "ptr", "%call", 8 * block.SCRATCH)}
  call void @free(ptr %old)
  store i64 0, ptr %frame
  store ptr null, ptr %old.at
  %large = icmp uge i64 %need, {_LARGE_PAGE // 2}
  %alignment = select i1 %large, i64 {_LARGE_PAGE}, i64 64
  %less = sub i64 %alignment, 1
  %above = add i64 %need, %less
  %mask = sub i64 0, %alignment
  %bytes = and i64 %above, %mask
  %new = call ptr @aligned_alloc(i64 %alignment, i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %no, label %got
got:
  store ptr %new, ptr %old.at
  store i64 %bytes, ptr %frame
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}"""

_MAKE: Final = f"""
define internal ptr @make(ptr %entry) nounwind {{
begin:
  {loaded("%bytes", "i64", "%entry", 8 * FRAME_BYTES)}
  {loaded("%template", "ptr", "%entry", 8 * TEMPLATE)}
  {loaded("%words", "i64", "%entry", 8 * TEMPLATE_WORDS)}
  {loaded("%moved", "ptr", "%entry", 8 * MOVED)}
  {loaded("%moves", "i64", "%entry", 8 * MOVED_WORDS)}
  %frame = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %base = ptrtoint ptr %frame to i64
  %none = icmp eq ptr %frame, null
  br i1 %none, label %done, label %copy
copy:
  call void @copy(ptr %template, ptr %frame, i64 %words)
  br label %move
move:
  %m = phi i64 [0, %copy], [%m1, %one]
  %left = icmp slt i64 %m, %moves
  br i1 %left, label %one, label %done
one:
  %which = getelementptr i64, ptr %moved, i64 %m
  %at = load i64, ptr %which
  %place = getelementptr i64, ptr %frame, i64 %at
  %offset = load i64, ptr %place
  %address = add i64 %offset, %base
  store i64 %address, ptr %place
  %m1 = add i64 %m, 1
  br label %move
done:
  ret ptr %frame
}}"""


def _chunks(name: str, region: int, then: str) -> str:
    """Blocks that free the chunks of a region, then go on."""
    return f"""{name}:
  {loaded(f"%{name}0", "ptr", "%call", 8 * region)}
  br label %{name}next
{name}next:
  %{name}1 = phi ptr [%{name}0, %{name}], [%{name}2, %{name}one]
  %{name}end = icmp eq ptr %{name}1, null
  br i1 %{name}end, label %{then}, label %{name}one
{name}one:
  %{name}2 = load ptr, ptr %{name}1
  call void @free(ptr %{name}1)
  br label %{name}next"""


_DISPOSE: Final = f"""
define internal void @dispose(ptr %entry, ptr %frame) nounwind {{
begin:
  {loaded("%at", "i64", "%entry", 8 * CALL_AT)}
  {loaded("%heapat", "i64", "%entry", 8 * HEAP_AT)}
  {loaded("%dynamic", "i64", "%entry", 8 * DYNAMIC)}
  {field("%call", "%frame", "%at")}
  {field("%heap", "%frame", "%heapat")}
  br label %tensors
tensors:
  %k = phi i64 [0, %begin], [%k1, %tensor]
  %rest = icmp slt i64 %k, %dynamic
  br i1 %rest, label %tensor, label %stack
tensor:
  %two = mul i64 %k, 16
  %after = add i64 %two, 16
  {field("%place", "%heap", "%after")}
  %held = load ptr, ptr %place
  call void @free(ptr %held)
  %k1 = add i64 %k, 1
  br label %tensors
{_chunks("stack", block.STACK, "records")}
{_chunks("records", block.RECORDS, "last")}
last:
  {loaded("%scratch", "ptr", "%call", 8 * block.SCRATCH)}
  call void @free(ptr %scratch)
  call void @free(ptr %frame)
  ret void
}}"""

_NOTE: Final = f"""
define internal i64 @note(ptr %entry, ptr %frame, ptr %call) nounwind {{
begin:
  {field("%counter", "%entry", 8 * TICKET)}
  {loaded("%records", "ptr", "%entry", 8 * FAILURES)}
  {loaded("%size", "i64", "%entry", 8 * FAILURE_WORDS)}
  {loaded("%counts", "ptr", "%entry", 8 * WORD_COUNTS)}
  {loaded("%places", "ptr", "%entry", 8 * PLACES)}
  {loaded("%heapat", "i64", "%entry", 8 * HEAP_AT)}
  {field("%heap", "%frame", "%heapat")}
  %before = atomicrmw add ptr %counter, i64 1 monotonic
  %after = add i64 %before, 1
  %number = and i64 %after, {(1 << NUMBER_BITS) - 1}
  %slot = urem i64 %number, {RECORDS}
  %start = mul i64 %slot, %size
  %record = getelementptr i64, ptr %records, i64 %start
  store atomic i64 0, ptr %record seq_cst, align 8
  {loaded("%step", "i64", "%call", 8 * block.STEP)}
  {stored("i64 %step", "%r1", "%record", 8 * STEP)}
  {loaded("%code", "i64", "%call", 8 * block.CODE)}
  {stored("i64 %code", "%r2", "%record", 8 * CODE)}
  {loaded("%value", "i64", "%call", 8 * block.VALUE)}
  {stored("i64 %value", "%r3", "%record", 8 * VALUE)}
  {loaded("%extent", "i64", "%call", 8 * block.EXTENT)}
  {stored("i64 %extent", "%r4", "%record", 8 * EXTENT)}
  {loaded("%depth", "i64", "%call", 8 * block.DEPTH)}
  {stored("i64 %depth", "%r5", "%record", 8 * DEPTH)}
  %allowed = load i64, ptr %heap
  {stored("i64 %allowed", "%r6", "%record", 8 * ALLOWED)}
  {loaded("%sizes", "ptr", "%call", 8 * block.NOW_SIZES)}
  %which = getelementptr i64, ptr %counts, i64 %step
  %count = load i64, ptr %which
  {field("%words", "%record", 8 * FAILURE_HEAD)}
  call void @copy(ptr %sizes, ptr %words, i64 %count)
  store atomic i64 %number, ptr %record seq_cst, align 8
  %first = getelementptr i64, ptr %places, i64 %step
  %base = load i64, ptr %first
  %checked = icmp sgt i64 %code, 0
  %own = select i1 %checked, i64 %code, i64 {NO_CHECK}
  %place = add i64 %base, %own
  %high = shl i64 %place, {NUMBER_BITS}
  %told = or i64 %high, %number
  ret i64 %told
}}"""

_TAKEN: Final = f"""
define internal ptr @taken(ptr %entry) nounwind {{
begin:
  {loaded("%idle", "ptr", "%entry", 8 * IDLE)}
  {loaded("%kept", "i64", "%entry", 8 * KEPT)}
  br label %look
look:
  %k = phi i64 [0, %begin], [%k1, %busy]
  %more = icmp slt i64 %k, %kept
  br i1 %more, label %see, label %none
see:
  %place = getelementptr i64, ptr %idle, i64 %k
  %there = load atomic i64, ptr %place monotonic, align 8
  %some = icmp ne i64 %there, 0
  br i1 %some, label %take, label %busy
take:
  %taken = atomicrmw xchg ptr %place, i64 0 acquire
  %got = icmp ne i64 %taken, 0
  br i1 %got, label %have, label %busy
busy:
  %k1 = add i64 %k, 1
  br label %look
have:
  %frame = inttoptr i64 %taken to ptr
  ret ptr %frame
none:
  ret ptr null
}}"""

_ENTER: Final = f"""
define i64 @enter(ptr %entry, ptr %addresses) nounwind {{
begin:
  {loaded("%places", "ptr", "%entry", 8 * IDLE)}
  {loaded("%kept", "i64", "%entry", 8 * KEPT)}
  {loaded("%at", "i64", "%entry", 8 * CALL_AT)}
  {loaded("%slotsat", "i64", "%entry", 8 * SLOTS_AT)}
  {loaded("%arguments", "i64", "%entry", 8 * ARGUMENTS)}
  {loaded("%heapat", "i64", "%entry", 8 * HEAP_AT)}
  {loaded("%shares", "i64", "%entry", 8 * SHARES)}
  {loaded("%each", "i64", "%entry", 8 * SCRATCH_BYTES)}
  %old = call ptr @taken(ptr %entry)
  %idle = icmp ne ptr %old, null
  br i1 %idle, label %have, label %new
new:
  %made = call ptr @make(ptr %entry)
  %none = icmp eq ptr %made, null
  br i1 %none, label %lacking, label %have
have:
  %frame = phi ptr [%old, %begin], [%made, %new]
  {field("%call", "%frame", "%at")}
  {field("%slots", "%frame", "%slotsat")}
  {field("%heap", "%frame", "%heapat")}
  {loaded("%pool0", "i64", "@settings", 8 * settings.POOL)}
  {loaded("%threads0", "i64", "@settings", 8 * settings.THREADS)}
  {loaded("%limit", "i64", "@settings", 8 * settings.LIMIT)}
  %alone = icmp eq i64 %shares, 0
  %threads = select i1 %alone, i64 1, i64 %threads0
  %pool = select i1 %alone, i64 0, i64 %pool0
  {stored("i64 %threads", "%c1", "%call", 8 * block.THREADS)}
  {stored("i64 %pool", "%c2", "%call", 8 * block.POOL)}
  store i64 %limit, ptr %heap
  %need = mul i64 %threads, %each
  %roomy = call i1 @reserve(ptr %frame, ptr %call, i64 %need)
  br i1 %roomy, label %run, label %lost
lost:
  call void @dispose(ptr %entry, ptr %frame)
  br label %lacking
lacking:
  ret i64 {NO_FRAME}
run:
  call void @copy(ptr %addresses, ptr %slots, i64 %arguments)
  %status = call i64 @run(ptr %call)
  %good = icmp eq i64 %status, 0
  br i1 %good, label %give, label %failed
failed:
  %number = call i64 @note(ptr %entry, ptr %frame, ptr %call)
  call void @dispose(ptr %entry, ptr %frame)
  ret i64 %number
give:
  %own = ptrtoint ptr %frame to i64
  br label %put
put:
  %p = phi i64 [0, %give], [%p1, %full]
  %room = icmp slt i64 %p, %kept
  br i1 %room, label %try, label %drop
try:
  %free = getelementptr i64, ptr %places, i64 %p
  %pair = cmpxchg ptr %free, i64 0, i64 %own release monotonic
  %stored = extractvalue {{i64, i1}} %pair, 1
  br i1 %stored, label %done, label %full
full:
  %p1 = add i64 %p, 1
  br label %put
drop:
  call void @dispose(ptr %entry, ptr %frame)
  br label %done
done:
  ret i64 0
}}"""

_LEAVE: Final = """
define void @leave(ptr %entry) nounwind {
begin:
  br label %look
look:
  %frame = call ptr @taken(ptr %entry)
  %none = icmp eq ptr %frame, null
  br i1 %none, label %done, label %drop
drop:
  call void @dispose(ptr %entry, ptr %frame)
  br label %look
done:
  ret void
}"""
