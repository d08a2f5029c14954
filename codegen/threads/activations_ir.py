"""Steps of definitions and records: calls, returns, records made and looked into.

An activation is one run of a definition: its own slots, sizes and temporaries, in memory that is a
stack. Records lie in memory that only grows until the call ends, or until a definition does whose
results are no records, or an iteration of a loop that carries none.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, loaded, stored
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.target import link
from tensorad.codegen.threads.chunks_ir import CHUNKS, NOW, SYMBOLS, TOP
from tensorad.codegen.threads.control_ir import index_text, word_text
from tensorad.process import once

_CALL: Final = f"""
define internal i64 @enter(ptr %call, ptr %slots, ptr %index, ptr %sizes, i64 %next) nounwind {{
entry:
  {index_text("number", 0)}
  {loaded("%table", "ptr", "%call", 8 * block.ROUTINES)}
  %offset = mul i64 %number, {8 * block.ROUTINE_WORDS}
  {field("%routine", "%table", "%offset")}
  {loaded("%entry0", "i64", "%routine", 8 * block.ENTRY)}
  {loaded("%bytes", "i64", "%routine", 8 * block.FRAME_BYTES)}
  {loaded("%template", "ptr", "%routine", 8 * block.TEMPLATE)}
  {loaded("%words", "i64", "%routine", 8 * block.TEMPLATE_BYTES)}
  {loaded("%first", "i64", "%routine", 8 * block.FIRST_PLACED)}
  {loaded("%placed", "i64", "%routine", 8 * block.PLACED)}
  {loaded("%at", "i64", "%routine", 8 * block.SIZES_AT)}
  {field("%stack", "%call", 8 * block.STACK)}
  {field("%records", "%call", 8 * block.RECORDS)}
  {loaded("%chunk", "i64", "%stack", NOW)}
  {loaded("%top", "i64", "%stack", TOP)}
  {loaded("%rchunk", "i64", "%records", NOW)}
  {loaded("%rtop", "i64", "%records", TOP)}
  %base = call i64 @bump(ptr %call, ptr %stack, i64 %bytes, i64 {ALIGNMENT})
  %none = icmp eq i64 %base, 0
  br i1 %none, label %wrong, label %have
have:
  %frame = inttoptr i64 %base to ptr
  {stored("ptr %slots", "%f0", "%frame", 8 * block.CALLER_SLOTS)}
  {stored("ptr %sizes", "%f1", "%frame", 8 * block.CALLER_SIZES)}
  {stored("i64 %next", "%f2", "%frame", 8 * block.BACK)}
  {stored("i64 %chunk", "%f3", "%frame", 8 * block.STACK_CHUNK)}
  {stored("i64 %top", "%f4", "%frame", 8 * block.STACK_TOP)}
  {loaded("%releases", "i64", "%routine", 8 * block.RELEASES)}
  %keeps = icmp eq i64 %releases, 0
  %mark = select i1 %keeps, i64 -1, i64 %rtop
  {stored("i64 %rchunk", "%f5", "%frame", 8 * block.RECORD_CHUNK)}
  {stored("i64 %mark", "%f6", "%frame", 8 * block.RECORD_TOP)}
  {field("%own", "%frame", block.FRAME_HEAD)}
  {field("%ownsizes", "%own", "%at")}
  %copied = call ptr @memcpy(ptr %own, ptr %template, i64 %words)
  %last = add i64 %first, %placed
  br label %placing
placing:
  %p = phi i64 [%first, %have], [%p1, %place]
  %more = icmp slt i64 %p, %last
  br i1 %more, label %place, label %passing
place:
  %pp = getelementptr i64, ptr %own, i64 %p
  %rel = load i64, ptr %pp
  %abs = add i64 %rel, %base
  store i64 %abs, ptr %pp
  %p1 = add i64 %p, 1
  br label %placing
passing:
  {index_text("count", 1)}
  %given = getelementptr i64, ptr %index, i64 2
  br label %pass
pass:
  %a = phi i64 [0, %passing], [%a1, %hand]
  %left = icmp slt i64 %a, %count
  br i1 %left, label %hand, label %told
hand:
  %ap = getelementptr i64, ptr %given, i64 %a
  %from = load i64, ptr %ap
  %fromp = getelementptr i64, ptr %slots, i64 %from
  %value = load i64, ptr %fromp
  %to = getelementptr i64, ptr %own, i64 %a
  store i64 %value, ptr %to
  %a1 = add i64 %a, 1
  br label %pass
told:
  %manyp = getelementptr i64, ptr %given, i64 %count
  %many = load i64, ptr %manyp
  %pairs = getelementptr i64, ptr %manyp, i64 1
  br label %tell
tell:
  %w = phi i64 [0, %told], [%w1, %size]
  %open = icmp slt i64 %w, %many
  br i1 %open, label %size, label %go
size:
  %pair = mul i64 %w, 2
  %wp = getelementptr i64, ptr %pairs, i64 %pair
  %wfrom = load i64, ptr %wp
  {loaded("%wto", "i64", "%wp", 8)}
  %wfromp = getelementptr i64, ptr %sizes, i64 %wfrom
  %wvalue = load i64, ptr %wfromp
  %wtop = getelementptr i64, ptr %ownsizes, i64 %wto
  store i64 %wvalue, ptr %wtop
  %w1 = add i64 %w, 1
  br label %tell
go:
  {stored("ptr %own", "%c0", "%call", 8 * block.NOW_SLOTS)}
  {stored("ptr %ownsizes", "%c1", "%call", 8 * block.NOW_SIZES)}
  {loaded("%depth", "i64", "%call", 8 * block.DEPTH)}
  %depth1 = add i64 %depth, 1
  store i64 %depth1, ptr %depth.at
  ret i64 %entry0
wrong:
  ret i64 -1
}}
define internal i64 @leave(ptr %call, ptr %slots) nounwind {{
entry:
  {field("%frame", "%slots", -block.FRAME_HEAD)}
  {loaded("%before", "ptr", "%frame", 8 * block.CALLER_SLOTS)}
  {loaded("%sizes", "ptr", "%frame", 8 * block.CALLER_SIZES)}
  {loaded("%next", "i64", "%frame", 8 * block.BACK)}
  {loaded("%chunk", "ptr", "%frame", 8 * block.STACK_CHUNK)}
  {loaded("%top", "i64", "%frame", 8 * block.STACK_TOP)}
  {loaded("%rchunk", "ptr", "%frame", 8 * block.RECORD_CHUNK)}
  {loaded("%rtop", "i64", "%frame", 8 * block.RECORD_TOP)}
  {stored("ptr %before", "%c0", "%call", 8 * block.NOW_SLOTS)}
  {stored("ptr %sizes", "%c1", "%call", 8 * block.NOW_SIZES)}
  {loaded("%depth", "i64", "%call", 8 * block.DEPTH)}
  %depth1 = sub i64 %depth, 1
  store i64 %depth1, ptr %depth.at
  {field("%stack", "%call", 8 * block.STACK)}
  call void @restore(ptr %stack, ptr %chunk, i64 %top)
  %keeps = icmp eq i64 %rtop, -1
  br i1 %keeps, label %done, label %release
release:
  {field("%records", "%call", 8 * block.RECORDS)}
  call void @restore(ptr %records, ptr %rchunk, i64 %rtop)
  br label %done
done:
  ret i64 %next
}}"""
"""@enter: the first step of a definition, in an activation of its own; @leave: the step behind."""

_RECORDS: Final = f"""
define i64 @record(ptr %call, ptr %slots, ptr %index, ptr %sizes,
                            i64 %kind, i64 %s) nounwind {{
entry:
  %next = add i64 %s, 1
  {field("%records", "%call", 8 * block.RECORDS)}
  switch i64 %kind, label %wrong [
    i64 {block.MAKE}, label %make i64 {block.FILL}, label %fill
    i64 {block.INSIDE_RECORD}, label %inside i64 {block.SWITCH}, label %switch
    i64 {block.CALL}, label %call_step i64 {block.RETURN}, label %return
    i64 {block.GROW}, label %grow i64 {block.EMPTY}, label %empty
    i64 {block.MARK}, label %mark i64 {block.RELEASE}, label %release
    i64 {block.KEEP}, label %keep_array i64 {block.FOLLOW}, label %follow
  ]
mark:
  {word_text("mc", 0, "sizes")}
  {word_text("mt", 1, "sizes")}
  {loaded("%chunk0", "i64", "%records", NOW)}
  {loaded("%top0", "i64", "%records", TOP)}
  store i64 %chunk0, ptr %mcp
  store i64 %top0, ptr %mtp
  ret i64 %next
release:
  {word_text("rc", 0, "sizes")}
  {word_text("rt", 1, "sizes")}
  %chunk1 = inttoptr i64 %rc to ptr
  call void @restore(ptr %records, ptr %chunk1, i64 %rt)
  ret i64 %next
empty:
  call void @emptied(ptr %call)
  ret i64 0
call_step:
  %to0 = call i64 @enter(ptr %call, ptr %slots, ptr %index, ptr %sizes, i64 %next)
  ret i64 %to0
return:
  %to1 = call i64 @leave(ptr %call, ptr %slots)
  ret i64 %to1
make:
  {word_text("mh", 0, "slots")}
  {word_text("mb", 1, "sizes")}
  {index_text("tag", 2)}
  {index_text("align", 3)}
  %made = call i64 @bump(ptr %call, ptr %records, i64 %mb, i64 %align)
  %none = icmp eq i64 %made, 0
  br i1 %none, label %wrong, label %write
write:
  %new = inttoptr i64 %made to ptr
  store i64 %tag, ptr %new
  %target = inttoptr i64 %mh to ptr
  store i64 %made, ptr %target
  ret i64 %next
fill:
  {word_text("fh", 0, "slots")}
  {word_text("fo", 1, "sizes")}
  {word_text("fs", 2, "slots")}
  {word_text("fb", 3, "sizes")}
  %fhp2 = inttoptr i64 %fh to ptr
  %filled = load ptr, ptr %fhp2
  {field("%field", "%filled", "%fo")}
  %source = inttoptr i64 %fs to ptr
  %word = icmp eq i64 %fb, 8
  br i1 %word, label %one, label %many
one:
  %value = load i64, ptr %source
  store i64 %value, ptr %field
  ret i64 %next
many:
  %copied = call ptr @memcpy(ptr %field, ptr %source, i64 %fb)
  ret i64 %next
inside:
  {word_text("it", 0, "slots")}
  {word_text("ih", 1, "slots")}
  {word_text("io", 2, "sizes")}
  %ihp2 = inttoptr i64 %ih to ptr
  %record = load i64, ptr %ihp2
  %place = add i64 %record, %io
  store i64 %place, ptr %itp
  ret i64 %next
switch:
  {word_text("sn", 0, "slots")}
  %chosen = inttoptr i64 %sn to ptr
  %its = load i64, ptr %chosen
  %at0 = add i64 %its, 1
  %armp = getelementptr i64, ptr %index, i64 %at0
  %arm = load i64, ptr %armp
  ret i64 %arm
grow:
  {word_text("gs", 0, "slots")}
  {index_text("gpair", 1)}
  {word_text("gb", 2, "sizes")}
  {word_text("ga", 3, "sizes")}
  {index_text("gextra", 4)}
  {word_text("gc", 5, "sizes")}
  %rows = add i64 %ga, %gextra
  %all2 = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %rows, i64 %gc)
  %all = extractvalue {{i64, i1}} %all2, 0
  %over0 = extractvalue {{i64, i1}} %all2, 1
  %need2 = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %all, i64 %gb)
  %need = extractvalue {{i64, i1}} %need2, 0
  %over1 = extractvalue {{i64, i1}} %need2, 1
  %over2 = icmp ugt i64 %need, {1 << 62}
  %over3 = or i1 %over0, %over1
  %over = or i1 %over2, %over3
  br i1 %over, label %wrong, label %small
small:
  %ownp = getelementptr i64, ptr %sizes, i64 %gpair
  {loaded("%cap", "i64", "%ownp", 8)}
  %old = load i64, ptr %ownp
  %fits = icmp ule i64 %need, %cap
  br i1 %fits, label %keep, label %take
keep:
  store i64 %old, ptr %gsp
  ret i64 %next
take:
  %double = mul i64 %cap, 2
  %larger = icmp ugt i64 %double, %need
  %size = select i1 %larger, i64 %double, i64 %need
  %got = call i64 @bump(ptr %call, ptr %records, i64 %size, i64 {ALIGNMENT})
  %lost = icmp eq i64 %got, 0
  br i1 %lost, label %wrong, label %move
move:
  %to = inttoptr i64 %got to ptr
  %from = inttoptr i64 %old to ptr
  %moved = call ptr @memcpy(ptr %to, ptr %from, i64 %cap)
  store i64 %got, ptr %ownp
  store i64 %size, ptr %cap.at
  store i64 %got, ptr %gsp
  ret i64 %next
keep_array:
  {word_text("kh", 0, "slots")}
  {word_text("ko", 1, "sizes")}
  {word_text("ks", 2, "slots")}
  {word_text("kb", 3, "sizes")}
  {word_text("ka", 4, "sizes")}
  {word_text("kc", 5, "sizes")}
  %rest = mul i64 %ka, %kc
  %array = mul i64 %rest, %kb
  %there = call i64 @bump(ptr %call, ptr %records, i64 %array, i64 {ALIGNMENT})
  %full = icmp eq i64 %there, 0
  br i1 %full, label %wrong, label %kept
kept:
  %khp2 = inttoptr i64 %kh to ptr
  %holder = load ptr, ptr %khp2
  {field("%link", "%holder", "%ko")}
  store i64 %there, ptr %link
  %copy = inttoptr i64 %there to ptr
  %original = inttoptr i64 %ks to ptr
  %copied1 = call ptr @memcpy(ptr %copy, ptr %original, i64 %array)
  ret i64 %next
follow:
  {word_text("ft", 0, "slots")}
  {word_text("fr", 1, "slots")}
  {word_text("fl", 2, "sizes")}
  %frp2 = inttoptr i64 %fr to ptr
  %linked = load ptr, ptr %frp2
  {field("%linkp", "%linked", "%fl")}
  %target1 = load i64, ptr %linkp
  store i64 %target1, ptr %ftp
  ret i64 %next
wrong:
  ret i64 -1
}}"""
"""@record: one such step; the number of the next one, or -1 where there is no memory."""

_DECLARED: Final = """
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)"""


@once
def record_library() -> link.Library:
    """@record, which only some programs need; it is never unloaded."""
    text = "\n".join([_DECLARED, CHUNKS, _CALL, _RECORDS])
    with link.lock:
        return link.load(text, ("record",), SYMBOLS, opt=0)
