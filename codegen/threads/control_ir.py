"""Steps of a call that run no kernel: memory exchanged, counters, jumps, stores that grow."""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import loaded
from tensorad.codegen.loops.scratch import ALIGNMENT

SYMBOLS: Final = ("posix_memalign", "free", "memcpy")
"""What the text needs of the C library."""
MOST_BYTES: Final = 1 << 62
"""More is refused before it is added to or doubled."""


def index_text(name: str, n: int) -> str:
    """Operand n of the step, a number."""
    return (
        f"%at{name} = getelementptr i64, ptr %index, i64 {n}\n  %{name} = load i64, ptr %at{name}"
    )


def word_text(name: str, n: int, of: str) -> str:
    """The word of the slots or sizes that operand n names: its address, and its value."""
    return f"""{index_text(name + "n", n)}
  %{name}p = getelementptr i64, ptr %{of}, i64 %{name}n
  %{name} = load i64, ptr %{name}p"""


CONTROL: Final = f"""
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare {{i64, i1}} @llvm.umul.with.overflow.i64(i64, i64)
define internal i64 @control(ptr %call, ptr %slots, ptr %index, ptr %sizes,
                             i64 %kind, i64 %s, i64 %target) nounwind {{
entry:
  %next = add i64 %s, 1
  switch i64 %kind, label %wrong [
    i64 {block.PLACE}, label %place i64 {block.ROW}, label %row
    i64 {block.EXCHANGE}, label %exchange i64 {block.LOAD}, label %load
    i64 {block.BEGIN}, label %begin
    i64 {block.UNTIL}, label %until i64 {block.ADVANCE}, label %advance
    i64 {block.UNLESS}, label %unless i64 {block.ASSIGN}, label %assign
    i64 {block.JUMP}, label %jump i64 {block.ARM}, label %arm
    i64 {block.SAME}, label %same i64 {block.ODD}, label %odd
    i64 {block.LAST}, label %last i64 {block.WITHIN}, label %within
    i64 {block.RESERVE}, label %reserve i64 {block.PYTHON}, label %python
  ]
place:
  {word_text("pt", 0, "slots")}
  {word_text("ps", 1, "slots")}
  store i64 %ps, ptr %ptp
  ret i64 %next
row:
  {word_text("rt", 0, "slots")}
  {word_text("rs", 1, "slots")}
  {word_text("rc", 2, "sizes")}
  {word_text("rb", 3, "sizes")}
  {index_text("more", 4)}
  {word_text("rm", 5, "sizes")}
  %rn = add i64 %rc, %more
  %bytes = mul i64 %rb, %rm
  %offset = mul i64 %rn, %bytes
  %moved = add i64 %rs, %offset
  store i64 %moved, ptr %rtp
  ret i64 %next
exchange:
  {word_text("xa", 0, "slots")}
  {word_text("xb", 1, "slots")}
  store i64 %xa, ptr %xbp
  store i64 %xb, ptr %xap
  ret i64 %next
load:
  {word_text("lt", 0, "sizes")}
  {word_text("lc", 1, "slots")}
  %given = inttoptr i64 %lc to ptr
  %count0 = load i64, ptr %given
  %some = icmp sgt i64 %count0, 0
  %count = select i1 %some, i64 %count0, i64 0
  store i64 %count, ptr %ltp
  ret i64 %next
begin:
  {word_text("bi", 0, "sizes")}
  {word_text("bt", 1, "sizes")}
  {index_text("back", 2)}
  %highest = sub i64 %bt, 1
  %reversed = icmp ne i64 %back, 0
  %first = select i1 %reversed, i64 %highest, i64 0
  store i64 %first, ptr %bip
  ret i64 %next
until:
  {word_text("ui", 0, "sizes")}
  {word_text("ut", 1, "sizes")}
  %done = icmp uge i64 %ui, %ut
  %to0 = select i1 %done, i64 %target, i64 %next
  ret i64 %to0
advance:
  {word_text("ai", 0, "sizes")}
  {index_text("by", 1)}
  %ai1 = add i64 %ai, %by
  store i64 %ai1, ptr %aip
  ret i64 %target
unless:
  {word_text("ub", 0, "slots")}
  %flag = inttoptr i64 %ub to ptr
  %bool = load i8, ptr %flag
  %false = icmp eq i8 %bool, 0
  %to1 = select i1 %false, i64 %target, i64 %next
  ret i64 %to1
assign:
  {word_text("st", 0, "sizes")}
  {word_text("ss", 1, "sizes")}
  store i64 %ss, ptr %stp
  ret i64 %next
jump:
  ret i64 %target
arm:
  {word_text("an", 0, "slots")}
  {index_text("own", 1)}
  %chosen = inttoptr i64 %an to ptr
  %number = load i64, ptr %chosen
  %other = icmp ne i64 %number, %own
  %to2 = select i1 %other, i64 %target, i64 %next
  ret i64 %to2
same:
  {word_text("sa", 0, "slots")}
  {word_text("sb", 1, "slots")}
  %equal = icmp eq i64 %sa, %sb
  %to3 = select i1 %equal, i64 %target, i64 %next
  ret i64 %to3
odd:
  {word_text("on", 0, "sizes")}
  %bit = trunc i64 %on to i1
  %to4 = select i1 %bit, i64 %target, i64 %next
  ret i64 %to4
last:
  {word_text("ni", 0, "sizes")}
  {word_text("nt", 1, "sizes")}
  {index_text("down", 2)}
  %top = sub i64 %nt, 1
  %lowest = icmp ne i64 %down, 0
  %end = select i1 %lowest, i64 0, i64 %top
  %ends = icmp eq i64 %ni, %end
  %to5 = select i1 %ends, i64 %target, i64 %next
  ret i64 %to5
within:
  {word_text("wi", 0, "sizes")}
  {word_text("wt", 1, "sizes")}
  {index_text("beside", 2)}
  %place1 = add i64 %wi, %beside
  %inside = icmp ult i64 %place1, %wt
  %to6 = select i1 %inside, i64 %next, i64 %target
  ret i64 %to6
reserve:
  {word_text("vs", 0, "slots")}
  {index_text("heap", 1)}
  {word_text("vb", 2, "sizes")}
  {word_text("va", 3, "sizes")}
  {index_text("extra", 4)}
  {word_text("vc", 5, "sizes")}
  %rows = add i64 %va, %extra
  %all2 = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %rows, i64 %vc)
  %all = extractvalue {{i64, i1}} %all2, 0
  %over0 = extractvalue {{i64, i1}} %all2, 1
  %need2 = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %all, i64 %vb)
  %need = extractvalue {{i64, i1}} %need2, 0
  %over1 = extractvalue {{i64, i1}} %need2, 1
  %over2 = icmp ugt i64 %need, {MOST_BYTES}
  %over3 = or i1 %over0, %over1
  %over = or i1 %over2, %over3
  br i1 %over, label %wrong, label %small
small:
  {loaded("%words", "ptr", "%call", 8 * block.HEAP)}
  %usedp = getelementptr i64, ptr %words, i64 1
  %ownp = getelementptr i64, ptr %words, i64 %heap
  %capp = getelementptr i64, ptr %ownp, i64 1
  %old = load ptr, ptr %ownp
  %cap = load i64, ptr %capp
  %fits = icmp ule i64 %need, %cap
  br i1 %fits, label %keep, label %grow
keep:
  %kept = ptrtoint ptr %old to i64
  store i64 %kept, ptr %vsp
  ret i64 %next
grow:
  %limit = load i64, ptr %words
  %used = load i64, ptr %usedp
  %others = sub i64 %used, %cap
  %room = sub i64 %limit, %others
  %double = mul i64 %cap, 2
  %larger = icmp ugt i64 %double, %need
  %wish0 = select i1 %larger, i64 %double, i64 %need
  %wish1 = add i64 %wish0, {ALIGNMENT - 1}
  %wish = and i64 %wish1, {-ALIGNMENT}
  %roomy = icmp sle i64 %wish, %room
  %size = select i1 %roomy, i64 %wish, i64 %need
  %allowed = icmp sle i64 %size, %room
  br i1 %allowed, label %make, label %wrong
make:
  %failed = call i32 @posix_memalign(ptr %ownp, i64 {ALIGNMENT}, i64 %size)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %copy, label %lost
lost:
  store ptr %old, ptr %ownp
  br label %wrong
copy:
  %new = load ptr, ptr %ownp
  %copied = call ptr @memcpy(ptr %new, ptr %old, i64 %cap)
  call void @free(ptr %old)
  store i64 %size, ptr %capp
  %used1 = add i64 %others, %size
  store i64 %used1, ptr %usedp
  %address = ptrtoint ptr %new to i64
  store i64 %address, ptr %vsp
  ret i64 %next
python:
  %code = inttoptr i64 %target to ptr
  %answer = call i64 %code(ptr %slots, ptr %sizes)
  %threw = icmp ne i64 %answer, 0
  %thrown = sub i64 {block.RAISED + 1}, %answer
  %to7 = select i1 %threw, i64 %thrown, i64 %next
  ret i64 %to7
wrong:
  ret i64 {block.OUT_OF_MEMORY}
}}"""
"""@control: one such step; the number of the next one, or the negative code of what ends all."""
