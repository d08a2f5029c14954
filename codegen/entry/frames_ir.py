"""Frames of calls, as LLVM IR, and the entry of callers that are not Python.

A call takes a frame that nobody uses, or makes one; it waits for nobody.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from tensorad.codegen.entry.failure_ir import NOTE, RECORD
from tensorad.codegen.entry.plan_words import (
    ARGUMENTS,
    CALL_AT,
    DYNAMIC,
    FRAME_BYTES,
    IDLE,
    KEPT,
    MOVED,
    MOVED_WORDS,
    NO_ADDRESS,
    NO_FRAME,
    SCRATCH_BYTES,
    SHARES,
    TEMPLATE,
    TEMPLATE_WORDS,
)
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.target import link
from tensorad.codegen.threads import native_settings as settings
from tensorad.codegen.threads.pool import driver
from tensorad.process import once

_ADVISES: Final = sys.platform == "linux"
_SYSTEM: Final = {
    "aligned_alloc": "ptr @aligned_alloc(i64, i64)",
    "calloc": "ptr @calloc(i64, i64)",
    "free": "void @free(ptr)",
    "madvise": "i32 @madvise(ptr, i64, i32)",
}
_SYMBOLS: Final = ("aligned_alloc", "calloc", "free", *["madvise"] * _ADVISES)
"""What the text needs of the C library."""
_RARE: Final = ("make", "reserve", "dispose", "copy", "note")
_FAILED: Final = 1
"""What the driver answers when a step has failed."""
_LARGE_PAGE: Final = 1 << 21
"""Bytes of a large page of x86-64, and of aarch64 with pages of 4 KiB otherwise."""
_PAGE: Final = 4096
_HUGE_PAGES: Final = 14
"""Advice that memory is worth large pages."""


def frames_text() -> str:
    """The module.

    @take(plan) -> the call block of a frame, or null; @ended(plan, call, status of the driver) ->
    what the call returns: its frame is given back, or what failed noted.
    @enter(plan, addresses) -> 0 or what failed. @reach(plan, addresses, kept) is the same from
    Python, whose lock is given away; where a call block may be kept, it is for the caller to end.
    @leave(plan) frees frames that nobody uses.
    """
    return "\n".join([_rare_text(), _often_text()])


def _rare_text() -> str:
    """What makes and frees frames, and notes failures."""
    declared = [f"declare {_SYSTEM[name]}" for name in _SYMBOLS]
    return "\n".join([*declared, _BLOCK, _COPY, _RESERVE, _MAKE, _DISPOSE, RECORD, NOTE])


def _often_text() -> str:
    """What runs in every call."""
    entries = (_entry("enter", "run", keeps=False), _entry("reach", "released", keeps=True))
    return "\n".join([_DECLARATIONS, _TAKE, _ENDED, *entries, _LEAVE])


@once
def frame_library() -> link.Library:
    """The code that all plans share.

    Only what runs in every call is worth the time of a better level of code generation.
    """
    rare = link.load(_rare_text(), _RARE, _SYMBOLS, opt=0)
    addresses = {name: driver().library.addresses[name] for name in ("run", "released")}
    addresses.update(rare.addresses)
    addresses["settings"] = settings.ADDRESS
    often = ("take", "ended", "enter", "reach", "leave")
    _kept.append(rare)
    return link.load(_often_text(), often, (), opt=1, addresses=addresses)


_kept: Final[list[link.Library]] = []
"""What other native code calls by its address."""


def trampoline_text(plan: int, buffers: Sequence[int]) -> str:
    """The module: @entered(addresses), of one plan.

    Args:
        buffers: the positions of those that have elements, whose addresses are looked at.
    """
    looks = [
        f"""
look{n}:
  {loaded(f"%a{n}", "ptr", "%addresses", 8 * n)}
  %none{n} = icmp eq ptr %a{n}, null
  br i1 %none{n}, label %absent, label %{then}"""
        for n, then in zip(buffers, [*[f"look{n}" for n in buffers[1:]], "run"], strict=False)
    ]
    missing = ", ".join([f"[{NO_ADDRESS - n}, %look{n}]" for n in buffers])
    absent = f"""
absent:
  %missing = phi i64 {missing}
  ret i64 %missing"""
    return f"""
declare i64 @enter(ptr, ptr)
define i64 @entered(ptr %addresses) nounwind {{
begin:
  br label %{f"look{buffers[0]}" if buffers else "run"}{"".join(looks)}{absent if buffers else ""}
run:
  %plan = inttoptr i64 {plan} to ptr
  %code = call i64 @enter(ptr %plan, ptr %addresses)
  ret i64 %code
}}"""


_DECLARATIONS: Final = """
declare ptr @make(ptr)
declare i1 @reserve(ptr, ptr, i64)
declare void @dispose(ptr, ptr)
declare void @copy(ptr, ptr, i64)
declare i64 @note(ptr, ptr)
declare i64 @run(ptr)
declare i64 @released(ptr)
@settings = external global i64"""

_ADVICE: Final = f"""
  %own = ptrtoint ptr %got to i64
  %above = add i64 %own, {_PAGE - 1}
  %page = and i64 %above, {-_PAGE}
  %before = sub i64 %page, %own
  %rest = sub i64 %bytes, %before
  %first = inttoptr i64 %page to ptr
  %r = call i32 @madvise(ptr %first, i64 %rest, i32 {_HUGE_PAGES})"""
_BLOCK: Final = f"""
define internal ptr @block(i64 %alignment, i64 %bytes) nounwind {{
begin:
  %got = call ptr @aligned_alloc(i64 %alignment, i64 %bytes)
  %none = icmp eq ptr %got, null
  br i1 %none, label %done, label %look
look:
  %large = icmp uge i64 %bytes, {_LARGE_PAGE}
  br i1 %large, label %advise, label %done
advise:{_ADVICE if _ADVISES else ""}
  br label %done
done:
  ret ptr %got
}}"""

_COPY: Final = """
define void @copy(ptr %from, ptr %to, i64 %words) nounwind {
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
define i1 @reserve(ptr %frame, ptr %call, i64 %need) nounwind {{
begin:
  {loaded("%old", "ptr", "%call", 8 * block.SCRATCH)}
  call void @free(ptr %old)
  store i64 0, ptr %frame
  store ptr null, ptr %old.at
  %large = icmp uge i64 %need, {_LARGE_PAGE // 2}
  %alignment = select i1 %large, i64 {_LARGE_PAGE}, i64 {ALIGNMENT}
  %less = sub i64 %alignment, 1
  %above = add i64 %need, %less
  %mask = sub i64 0, %alignment
  %bytes = and i64 %above, %mask
  %new = call ptr @block(i64 %alignment, i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %no, label %yes
yes:
  store ptr %new, ptr %old.at
  store i64 %bytes, ptr %frame
  ret i1 true
no:
  ret i1 false
}}"""

_MAKE: Final = f"""
define ptr @make(ptr %plan) nounwind {{
begin:
  {loaded("%bytes", "i64", "%plan", 8 * FRAME_BYTES)}
  {loaded("%template", "ptr", "%plan", 8 * TEMPLATE)}
  {loaded("%words", "i64", "%plan", 8 * TEMPLATE_WORDS)}
  {loaded("%moved", "ptr", "%plan", 8 * MOVED)}
  {loaded("%moves", "i64", "%plan", 8 * MOVED_WORDS)}
  %frame = call ptr @block(i64 {ALIGNMENT}, i64 %bytes)
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
define void @dispose(ptr %plan, ptr %frame) nounwind {{
begin:
  {loaded("%dynamic", "i64", "%plan", 8 * DYNAMIC)}
  {field("%call", "%frame", CALL_AT)}
  {loaded("%heap", "ptr", "%call", 8 * block.HEAP)}
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

_TAKE: Final = f"""
define ptr @take(ptr %plan) nounwind {{
begin:
  {loaded("%idle", "ptr", "%plan", 8 * IDLE)}
  {loaded("%kept", "i64", "%plan", 8 * KEPT)}
  br label %look
look:
  %k = phi i64 [0, %begin], [%k1, %busy]
  %more = icmp slt i64 %k, %kept
  br i1 %more, label %see, label %none
see:
  %place = getelementptr i64, ptr %idle, i64 %k
  %there = load atomic i64, ptr %place monotonic, align 8
  %some = icmp ne i64 %there, 0
  br i1 %some, label %try, label %busy
try:
  %taken = atomicrmw xchg ptr %place, i64 0 acquire
  %got = icmp ne i64 %taken, 0
  br i1 %got, label %old, label %busy
busy:
  %k1 = add i64 %k, 1
  br label %look
none:
  %made = call ptr @make(ptr %plan)
  %lacking = icmp eq ptr %made, null
  br i1 %lacking, label %refused, label %have
old:
  %kept.frame = inttoptr i64 %taken to ptr
  br label %have
have:
  %frame = phi ptr [%kept.frame, %old], [%made, %none]
  {field("%call", "%frame", CALL_AT)}
  {loaded("%shares", "i64", "%plan", 8 * SHARES)}
  {loaded("%each", "i64", "%plan", 8 * SCRATCH_BYTES)}
  {loaded("%heap", "ptr", "%call", 8 * block.HEAP)}
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
  %has = load i64, ptr %frame
  %enough = icmp uge i64 %has, %need
  br i1 %enough, label %ready, label %reserve
reserve:
  %roomy = call i1 @reserve(ptr %frame, ptr %call, i64 %need)
  br i1 %roomy, label %ready, label %lost
ready:
  ret ptr %call
lost:
  call void @dispose(ptr %plan, ptr %frame)
  br label %refused
refused:
  ret ptr null
}}"""

_ENDED: Final = f"""
define i64 @ended(ptr %plan, ptr %call, i64 %status) nounwind {{
begin:
  {loaded("%idle", "ptr", "%plan", 8 * IDLE)}
  {loaded("%kept", "i64", "%plan", 8 * KEPT)}
  {field("%frame", "%call", -CALL_AT)}
  %own = ptrtoint ptr %frame to i64
  %bad = icmp eq i64 %status, {_FAILED}
  br i1 %bad, label %failed, label %put
put:
  %p = phi i64 [0, %begin], [%p1, %full]
  %room = icmp slt i64 %p, %kept
  br i1 %room, label %try, label %drop
try:
  %free = getelementptr i64, ptr %idle, i64 %p
  %pair = cmpxchg ptr %free, i64 0, i64 %own release monotonic
  %stored = extractvalue {{i64, i1}} %pair, 1
  br i1 %stored, label %done, label %full
full:
  %p1 = add i64 %p, 1
  br label %put
failed:
  %told = call i64 @note(ptr %plan, ptr %call)
  br label %drop
drop:
  %answer = phi i64 [%status, %put], [%told, %failed]
  call void @dispose(ptr %plan, ptr %frame)
  ret i64 %answer
done:
  ret i64 %status
}}"""


_KEEP: Final = """
  %given = icmp ne ptr %kept, null
  %good = icmp eq i64 %status, 0
  %keeps = and i1 %given, %good
  br i1 %keeps, label %keep, label %end
keep:
  store ptr %call, ptr %kept
  ret i64 0
end:"""


def _entry(name: str, run: str, *, keeps: bool) -> str:
    """A function that takes a frame, runs the driver and ends the call.

    Args:
        keeps: whether the caller may have the call block of a call that did not fail.
    """
    return f"""
define i64 @{name}(ptr %plan, ptr %addresses{", ptr %kept" * keeps}) nounwind {{
begin:
  %call = call ptr @take(ptr %plan)
  %none = icmp eq ptr %call, null
  br i1 %none, label %lacking, label %run
run:
  {loaded("%slots", "ptr", "%call", 8 * block.SLOTS)}
  {loaded("%arguments", "i64", "%plan", 8 * ARGUMENTS)}
  call void @copy(ptr %addresses, ptr %slots, i64 %arguments)
  %status = call i64 @{run}(ptr %call){_KEEP * keeps}
  %answer = call i64 @ended(ptr %plan, ptr %call, i64 %status)
  ret i64 %answer
lacking:
  ret i64 {NO_FRAME}
}}"""


_LEAVE: Final = f"""
define void @leave(ptr %plan) nounwind {{
begin:
  {loaded("%idle", "ptr", "%plan", 8 * IDLE)}
  {loaded("%kept", "i64", "%plan", 8 * KEPT)}
  br label %look
look:
  %k = phi i64 [0, %begin], [%k1, %next]
  %more = icmp slt i64 %k, %kept
  br i1 %more, label %see, label %done
see:
  %place = getelementptr i64, ptr %idle, i64 %k
  %taken = atomicrmw xchg ptr %place, i64 0 acquire
  %got = icmp ne i64 %taken, 0
  br i1 %got, label %drop, label %next
drop:
  %frame = inttoptr i64 %taken to ptr
  call void @dispose(ptr %plan, ptr %frame)
  br label %next
next:
  %k1 = add i64 %k, 1
  br label %look
done:
  ret void
}}"""
