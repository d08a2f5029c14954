"""The driver that runs a table of kernels and the thread pool it uses, as LLVM IR."""

from __future__ import annotations

import platform
from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.llvm.call_block import field, kernel_call, loaded, stored
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.threads.affinity_ir import MOVE_AWAY
from tensorad.codegen.threads.control_ir import CONTROL
from tensorad.codegen.threads.launch_ir import LAUNCH, LAUNCH_ARGUMENTS, SPINS
from tensorad.codegen.threads.linux_calls import CALLS
from tensorad.codegen.threads.resize_ir import RESIZE
from tensorad.codegen.threads.signals_ir import INTERRUPTED, RELEASED
from tensorad.codegen.threads.work_sharing_ir import PART

_X86: Final = platform.machine().lower() in ("x86_64", "amd64")
_SAVE_MODE: Final = "call void @llvm.x86.sse.stmxcsr(ptr %mode)" if _X86 else ""
_LOAD_MODE: Final = "call void @llvm.x86.sse.ldmxcsr(ptr %mode)" if _X86 else ""
_PAUSE: Final = "call void @llvm.x86.sse2.pause()" if _X86 else ""
_DEFAULT_MODE: Final = 0x1F80
"""All exceptions masked, round to nearest, subnormals kept."""
LIGHT_LOOPS: Final = 8
"""Of a call, run alone as threads sleep, before these are woken: as many are likely to come."""
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129


def driver_text() -> str:
    """The module: @run, @released, @worker, @resize."""
    futex = f"call i64 (i64, ...) @syscall(i64 {CALLS.futex}, ptr"
    return f"""
declare i64 @syscall(i64, ...)
declare i64 @llvm.abs.i64(i64, i1)
{_declarations()}
define internal void @relax() nounwind {{
  {_PAUSE}
  ret void
}}
define internal void @wait(ptr %word, i32 %old) nounwind {{
  %r = {futex} %word, i32 {_WAIT_PRIVATE}, i32 %old, ptr null)
  ret void
}}
define internal void @wake(ptr %word) nounwind {{
  %r = {futex} %word, i32 {_WAKE_PRIVATE}, i32 2147483647)
  ret void
}}
{PART}
{MOVE_AWAY}
{_WORKER}
{LAUNCH}
{CONTROL}
{_DRIVER}
{RELEASED}
{RESIZE}
"""


def _declarations() -> str:
    if not _X86:
        return ""
    return (
        "declare void @llvm.x86.sse.stmxcsr(ptr)\n"
        "declare void @llvm.x86.sse.ldmxcsr(ptr)\n"
        "declare void @llvm.x86.sse2.pause()"
    )


_WORKER: Final = f"""
define internal ptr @worker(ptr %argument) nounwind {{
entry:
  %mode = alloca i32
  %pool = load ptr, ptr %argument
  {loaded("%id", "i64", "%argument", 8)}
  {loaded("%start", "i32", "%argument", 16)}
  {field("%gen", "%pool", block.GENERATION)}
  {field("%state", "%pool", block.STATE)}
  {field("%sleepers", "%pool", block.SLEEPERS)}
  {field("%waiting", "%pool", block.WAITING)}
  {field("%stopped", "%pool", block.STOP)}
  {field("%threads", "%pool", block.JOB + 48)}
  {field("%jobmode", "%pool", block.JOB + 56)}
  {field("%first", "%pool", block.ERRORS + block.CPU)}
  %line = mul i64 %id, 64
  %line1 = add i64 %line, {block.ERRORS + block.CPU}
  {field("%place", "%pool", "%line1")}
  br label %idle
idle:
  %last = phi i32 [%start, %entry], [%now, %done], [%now, %finish]
  br label %spin
spin:
  %n = phi i32 [0, %idle], [%n1, %again]
  %g = load atomic i32, ptr %gen acquire, align 4
  %new = icmp ne i32 %g, %last
  br i1 %new, label %go, label %again
again:
  call void @relax()
  %n1 = add i32 %n, 1
  %tired = icmp sgt i32 %n1, {SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @wait(ptr %gen, i32 %last)
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  %g2 = load atomic i32, ptr %gen acquire, align 4
  %same = icmp eq i32 %g2, %last
  br i1 %same, label %sleep, label %go
go:
  %now = phi i32 [%g, %spin], [%g2, %sleep]
  %slept = phi i1 [false, %spin], [true, %sleep]
  %stop = load atomic i32, ptr %stopped acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %leave, label %work
work:
  %s = atomicrmw add ptr %state, i32 1 seq_cst
  %bit = and i32 %s, {block.OPEN}
  %open = icmp ne i32 %bit, 0
  br i1 %open, label %join, label %after
join:
  %wanted = load i64, ptr %threads
  %mine = icmp slt i64 %id, %wanted
  br i1 %mine, label %meet, label %after
meet:
  %here = call i32 @here()
  %its = load atomic i32, ptr %first monotonic, align 4
  %met = icmp eq i32 %here, %its
  %look = or i1 %met, %slept
  br i1 %look, label %part, label %do
part:
  call void @apart(ptr %pool, i64 %id, i64 %wanted, i32 %here)
  br label %do
do:
  %cpu = call i32 @here()
  store atomic i32 %cpu, ptr %place monotonic, align 4
  %m = load i32, ptr %jobmode
  store i32 %m, ptr %mode
  {_LOAD_MODE}
  call void @part(ptr %pool, i64 %id)
  br label %after
after:
  %left = atomicrmw sub ptr %state, i32 1 seq_cst
  %final = icmp eq i32 %left, 1
  br i1 %final, label %done, label %finish
done:
  %w = load atomic i32, ptr %waiting seq_cst, align 4
  %asleep = icmp ne i32 %w, 0
  br i1 %asleep, label %rouse, label %idle
rouse:
  call void @wake(ptr %state)
  br label %finish
finish:
  br label %idle
leave:
  ret ptr null
}}"""

_DRIVER: Final = f"""
define i64 @run(ptr %call) nounwind {{
entry:
  %old = alloca i32
  %mode = alloca i32
  %lonely = alloca i64
  store i64 0, ptr %lonely
  {_SAVE_MODE.replace("%mode", "%old")}
  store i32 {_DEFAULT_MODE}, ptr %mode
  {_LOAD_MODE}
  %table = load ptr, ptr %call
  {loaded("%count", "i64", "%call", 8 * block.COUNT)}
  {loaded("%slots0", "ptr", "%call", 8 * block.SLOTS)}
  {loaded("%indices", "ptr", "%call", 8 * block.INDICES)}
  {loaded("%sizes0", "ptr", "%call", 8 * block.SIZES)}
  {stored("ptr %slots0", "%nowslots", "%call", 8 * block.NOW_SLOTS)}
  {stored("ptr %sizes0", "%nowsizes", "%call", 8 * block.NOW_SIZES)}
  {loaded("%threads", "i64", "%call", 8 * block.THREADS)}
  {loaded("%pool", "ptr", "%call", 8 * block.POOL)}
  {loaded("%slices", "i64", "%call", 8 * block.SLICES)}
  {loaded("%state", "ptr", "%call", 8 * block.THREAD)}
  %asks = icmp ne ptr %state, null
  %many = icmp ugt i64 %slices, 1
  %cuts = and i1 %asks, %many
  {field("%error", "%call", 8 * block.VALUE)}
  {loaded("%inside", "ptr", "%call", 8 * block.INSIDE)}
  %temporaries = load i64, ptr %inside
  br label %placing
placing:
  %t = phi i64 [0, %entry], [%t1, %place]
  %unplaced = icmp slt i64 %t, %temporaries
  br i1 %unplaced, label %place, label %placed
place:
  %to = mul i64 %t, 24
  {field("%temporary", "%inside", "%to")}
  {loaded("%its", "i64", "%temporary", 8)}
  {loaded("%output", "i64", "%temporary", 16)}
  {loaded("%offset", "i64", "%temporary", 24)}
  %from = getelementptr i64, ptr %slots0, i64 %output
  %base = load i64, ptr %from
  %start = add i64 %base, %offset
  %above = add i64 %start, {ALIGNMENT - 1}
  %aligned = and i64 %above, {-ALIGNMENT}
  %slot = getelementptr i64, ptr %slots0, i64 %its
  store i64 %aligned, ptr %slot
  %t1 = add i64 %t, 1
  br label %placing
placed:
  %any = icmp sgt i64 %count, 0
  %several = icmp ne ptr %pool, null
  {loaded("%records", "ptr", "%call", 8 * block.RECORD_STEP)}
  %plain = icmp eq ptr %records, null
  br i1 %plain, label %ready, label %clear
clear:
  %emptied = call i64 %records(ptr %call, ptr null, ptr null, ptr null, i64 {block.EMPTY}, i64 0)
  br label %ready
ready:
  br i1 %any, label %step, label %fine
step:
  %s = phi i64 [0, %ready], [%s1, %advance], [%to2, %jump]
  %slots = load ptr, ptr %nowslots
  %sizes = load ptr, ptr %nowsizes
  %so = mul i64 %s, 24
  {field("%entryp", "%table", "%so")}
  %fn = load ptr, ptr %entryp
  {loaded("%where", "i64", "%entryp", 8)}
  %index = getelementptr i64, ptr %indices, i64 %where
  {loaded("%kind", "i64", "%entryp", 16)}
  %is_kernel = icmp ule i64 %kind, {block.PARALLEL}
  br i1 %is_kernel, label %kernel, label %other
other:
  %is_record = icmp uge i64 %kind, {block.MAKE}
  br i1 %is_record, label %record, label %control
control:
  %target = ptrtoint ptr %fn to i64
  %to0 = call i64 @control(ptr %call, ptr %slots, ptr %index, ptr %sizes,
                           i64 %kind, i64 %s, i64 %target)
  br label %went
record:
  %to1 = call i64 %records(ptr %call, ptr %slots, ptr %index, ptr %sizes, i64 %kind, i64 %s)
  br label %went
went:
  %to2 = phi i64 [%to0, %control], [%to1, %record]
  %lost = icmp slt i64 %to2, 0
  br i1 %lost, label %fail, label %jump
jump:
  %open = icmp slt i64 %to2, %count
  br i1 %open, label %step, label %fine
kernel:
  %is_parallel = icmp ne i64 %kind, {block.SERIAL}
  br i1 %is_parallel, label %ask, label %alone
alone:
  %r0 = {kernel_call("0", "0", "%error")}
  %bad0 = icmp ne i64 %r0, 0
  br i1 %bad0, label %fail, label %next
ask:
  %answer = {kernel_call("0", "-1", "%error")}
  %positive = call i64 @llvm.abs.i64(i64 %answer, i1 false)
  %n = and i64 %positive, {block.MOST}
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %next, label %choose
choose:
  br i1 %cuts, label %cut, label %slice
cut:
  %part = udiv i64 %n, %slices
  %some = call i64 @even(i64 %part, i64 %threads)
  %begun = call i64 @clock()
  br label %slice
slice:
  %b = phi i64 [0, %choose], [0, %cut], [%e, %on]
  %most0 = phi i64 [%n, %choose], [%some, %cut], [%longer, %on]
  %then = phi i64 [0, %choose], [%begun, %cut], [%now, %on]
  %rest = sub i64 %n, %b
  %last = icmp uge i64 %most0, %rest
  %c = select i1 %last, i64 %rest, i64 %most0
  %e = add i64 %b, %c
  %wide = icmp ugt i64 %c, 1
  %pays = icmp sgt i64 %answer, 0
  %shared = and i1 %wide, %pays
  %try = and i1 %shared, %several
  br i1 %try, label %weigh, label %serial
weigh:
  %marked = icmp uge i64 %answer, {block.LIGHT}
  {field("%sleepers", "%pool", block.SLEEPERS)}
  %sleeping = load atomic i32, ptr %sleepers monotonic, align 4
  %asleep = icmp ne i32 %sleeping, 0
  %late = and i1 %marked, %asleep
  br i1 %late, label %missed, label %lock
missed:
  %before = load i64, ptr %lonely
  %after = add i64 %before, 1
  %enough = icmp uge i64 %after, {LIGHT_LOOPS}
  %counted = select i1 %enough, i64 0, i64 %after
  store i64 %counted, ptr %lonely
  br i1 %enough, label %lock, label %serial
lock:
  {field("%busy", "%pool", block.POOL_BUSY)}
  %pair = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %got = extractvalue {{i32, i1}} %pair, 1
  br i1 %got, label %together, label %serial
together:
  {loaded("%workers", "i64", "%pool", block.WORKERS)}
  %most = add i64 %workers, 1
  %fewer = icmp slt i64 %threads, %most
  %used = select i1 %fewer, i64 %threads, i64 %most
  %joined = and i64 %answer, {block.WHOLE}
  %apart = icmp eq i64 %joined, 0
  %finest = select i1 %apart, i64 {block.FINEST}, i64 1
  %m = load i32, ptr %mode
  %r1 = call i64 @launch({LAUNCH_ARGUMENTS})
  store atomic i32 0, ptr %busy release, align 4
  br label %result
serial:
  %r2 = {kernel_call("%b", "%e", "%error")}
  br label %result
result:
  %code1 = phi i64 [%r1, %together], [%r2, %serial]
  %bad = icmp ne i64 %code1, 0
  br i1 %bad, label %fail, label %ran
ran:
  br i1 %last, label %next, label %on
on:
  %now = call i64 @clock()
  %took = sub i64 %now, %then
  %fit = call i64 @fit(i64 %c, i64 %took)
  %longer = call i64 @even(i64 %fit, i64 %threads)
  %ends = call i1 @ask(ptr %call, i64 %now)
  br i1 %ends, label %interrupted, label %slice
next:
  br i1 %asks, label %between, label %advance
between:
  %ends1 = call i1 @look(ptr %call)
  br i1 %ends1, label %interrupted, label %advance
advance:
  %s1 = add i64 %s, 1
  %more = icmp slt i64 %s1, %count
  br i1 %more, label %step, label %fine
fail:
  %code = phi i64 [%r0, %alone], [%code1, %result], [%to2, %went]
  {stored("i64 %s", "%c7", "%call", 8 * block.STEP)}
  {stored("i64 %code", "%c8", "%call", 8 * block.CODE)}
  {_LOAD_MODE.replace("%mode", "%old")}
  ret i64 1
fine:
  {_LOAD_MODE.replace("%mode", "%old")}
  ret i64 0
interrupted:
  {_LOAD_MODE.replace("%mode", "%old")}
  ret i64 {INTERRUPTED}
}}"""
