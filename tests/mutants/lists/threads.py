"""Threads: claims of iterations, launches, errors of several threads."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

THREADS: Final = Part(
    "tests/codegen/threads/test_claims.py tests/codegen/threads/test_threads.py"
    " tests/codegen/threads/test_parallel_driver.py",
    "tests/codegen/threads tests/random/test_stress.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/threads/work_sharing_ir.py",
        THREADS,
        [
            (
                "a claim of iterations is not atomic",
                "%pair = cmpxchg ptr %next, i64 %b, i64 %e monotonic monotonic\n  %got = extractvalue {{i64, i1}} %pair, 1",
                "store atomic i64 %e, ptr %next monotonic, align 8\n  %got = icmp eq i64 0, 0",
            ),
            ("a lost claim is run anyway", "br i1 %got, label %run, label %claim", "br label %run"),
            (
                "one iteration too many is taken",
                "%e = select i1 %small, i64 %e0, i64 %end",
                "%e = select i1 %small, i64 %e0, i64 %e0",
            ),
            (
                "a thread takes its own iterations only",
                "%all = icmp sge i64 %tried, %threads",
                "%all = icmp sge i64 %tried, 1",
            ),
            (
                "the last thread's iterations are lost",
                "%all = icmp sge i64 %tried, %threads\n",
                "%all = icmp sge i64 %tried1, %threads\n",
            ),
            (
                "an error of later iterations is kept",
                "%lower = icmp slt i64 %b, %before1",
                "%lower = icmp sgt i64 %b, %before1",
            ),
            (
                "an error does not count",
                "%keep = and i1 %failed, %wanted",
                "%keep = and i1 false, %wanted",
            ),
            (
                "an end that is not the next one's beginning",
                "%upto1 = udiv i64 %upto, %threads\n  %end = add i64 %start, %upto1",
                "%each = udiv i64 %count, %threads\n  %upto1 = mul i64 %each, %whose1\n  %end = add i64 %start, %upto1",
            ),
            (
                "all threads have one scratch",
                "%own = add i64 %blocks, %before",
                "%own = add i64 %blocks, 0",
            ),
        ],
    ),
    *in_file(
        "codegen/threads/launch_ir.py",
        THREADS,
        [
            (
                "a launch does not wait for workers",
                "%over = icmp eq i32 %p, 0",
                "%over = icmp sge i32 %p, 0",
            ),
            (
                "a launch that sleeps may return one worker early",
                "%over2 = icmp eq i32 %p2, 0",
                "%over2 = icmp ule i32 %p2, 1",
            ),
            (
                "a launch that spins may return one worker early",
                "%over = icmp eq i32 %p, 0",
                "%over = icmp ule i32 %p, 1",
            ),
            (
                "workers that sleep are not woken",
                "%asleep = icmp ne i32 %s, 0",
                "%asleep = icmp ugt i32 %s, 1",
            ),
            (
                "a loop stays open behind its end",
                "%closed = atomicrmw and ptr %state, i32 {~block.OPEN} seq_cst",
                "%closed = atomicrmw and ptr %state, i32 -1 seq_cst",
            ),
            ("old errors stay", "  store i64 0, ptr %old\n", ""),
            (
                "the first error of all threads is the last one's",
                "%lower = icmp slt i64 %b, %best",
                "%lower = icmp sgt i64 %best, 0",
            ),
            (
                "a part begins where the one before does",
                "%from = mul i64 %count, %i\n",
                "%less = sub i64 %i, 1\n  %from = mul i64 %count, %less\n",
            ),
            (
                "the start of a slice does not count",
                "%from2 = add i64 %start, %from1",
                "%from2 = add i64 0, %from1",
            ),
            (
                "errors of the last thread are not looked at",
                "%t1 = add i64 %t, 1\n  %more = icmp slt i64 %t1, %threads",
                "%t1 = add i64 %t, 1\n  %t2 = add i64 %t1, 1\n  %more = icmp slt i64 %t2, %threads",
            ),
        ],
    ),
]
