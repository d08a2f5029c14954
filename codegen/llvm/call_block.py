"""The memory that Python, the driver and its threads share: which word means what.

Call block, pool block and step table are plain memory; a step is three words: the kernel's
address (or the step to jump to), where the numbers of its operands start, and its kind.
"""

from __future__ import annotations

from typing import Final

# The call block: 64-bit words that Python fills in and the driver reads.
STEPS, COUNT, SLOTS, INDICES, SIZES, THREADS, POOL, STEP, CODE, VALUE, EXTENT = range(11)
SCRATCH, SCRATCH_BYTES = 11, 12
"""The first thread's block of scratch memory, and the bytes of each thread's."""
INSIDE: Final = 13
"""The table of temporaries in outputs: how many, then slot, output's slot and offset of each."""
SLICES: Final = 14
"""Slices of a parallel loop to begin with if the call is long and looks for signals; else 0."""
THREAD, ASKED, TOOK = 15, 16, 17
"""The thread state by which the running call asks Python for signals, or null; when it did; and
nanoseconds of the long call before it, 0 if there was none."""
HEAP: Final = 18
"""Memory of tensors of which only the run tells how large they are: bytes that are allowed and
taken, then address and bytes of each."""
REPEATS: Final = 19
"""1 if only the run tells how long the call takes: it looks for signals from the first call on."""
LEFT, PACE, LOOKED = 20, 21, 22
"""Kernels until the running call looks at the clock, from one look to the next, and when it did."""
NOW_SLOTS, NOW_SIZES = 23, 24
"""Slots and sizes of what runs: the call's own, or those of a definition's activation."""
ROUTINES: Final = 25
"""The table of definitions, `ROUTINE_WORDS` each."""
DEPTH: Final = 26
"""Activations of definitions that have begun and not ended."""
STACK, RECORDS = 27, 31
"""Memory that is taken in order: of activations, and of records. First chunk, the one in use, where
its free bytes begin, where they end."""
REGION_WORDS: Final = 4
RECORD_STEP: Final = 35
"""Where `codegen/threads/activations_ir.py` is, for calls that take memory in order, or null."""
CALL_WORDS: Final = 36
SCRATCH_WORD: Final = SCRATCH - VALUE
"""Where a kernel finds its thread's block: in words after the two that hold an error."""
OUT_OF_MEMORY: Final = -1
"""What stands in place of a check's number where memory may not be taken."""
RAISED: Final = -2
"""What stands there where a function of Python raised its first exception; less for others."""
SERIAL, PARALLEL = 0, 1
PLACE, ROW, EXCHANGE, LOAD, BEGIN, UNTIL, ADVANCE, UNLESS, ASSIGN = range(2, 11)
JUMP, ARM, SAME, ODD, LAST, WITHIN, RESERVE, PYTHON = range(11, 19)
MAKE, FILL, INSIDE_RECORD, SWITCH, CALL, RETURN, GROW, EMPTY, MARK, RELEASE = range(19, 29)
KEEP, FOLLOW = 29, 30
"""Kinds of steps: kernels, what `codegen/threads/control_ir.py` does, and from MAKE on what
`codegen/threads/activations_ir.py` does."""

# The words of a definition in its table, and those at the start of an activation.
ENTRY, FRAME_BYTES, TEMPLATE, TEMPLATE_BYTES, FIRST_PLACED, PLACED, SIZES_AT, RELEASES = range(8)
"""Its first step; bytes of an activation; what its words are at first, slots, then sizes; the first
slot whose address is an offset in the activation, and how many are; where sizes begin, in bytes
from the first slot; whether records that it makes are gone when it ends."""
ROUTINE_WORDS: Final = 8
CALLER_SLOTS, CALLER_SIZES, BACK, STACK_CHUNK, STACK_TOP, RECORD_CHUNK, RECORD_TOP = range(7)
FRAME_HEAD: Final = 64
"""Bytes of an activation before its slots."""
NEXT_CHUNK, CHUNK_BYTES = 0, 1
CHUNK_HEAD: Final = 64
"""Bytes of a chunk before what is taken of it; its words are the next chunk and its bytes."""
MAX_WORKERS: Final = 255
OPEN: Final = 1 << 16
"""Bit of the pool's state while a job takes helpers; below it is the number of those at work.

A worker that comes late finds the bit clear and leaves, so the launcher waits only for threads
that really began.
"""
LIGHT: Final = 1 << 62
"""Bit of a kernel's answer where several threads pay if they are awake, and only then."""
WHOLE: Final = 1 << 61
"""There, too: iterations in a row are faster together, so a thread takes all of a part at once."""
MOST: Final = WHOLE - 1
"""Bits of an answer that hold the number of iterations."""
FINEST: Final = 32
"""Stretches that a thread's part is cut into at most."""

# Byte offsets in the pool's block; what different threads write has its own cache line.
GENERATION, STATE, SLEEPERS, WAITING, POOL_BUSY, STOP = 0, 64, 128, 192, 320, 384
WORKERS: Final = POOL_BUSY + 8
JOB: Final = 448
"""kernel, slots, index, sizes, count, chunk, threads, mxcsr, scratch, bytes, first iteration"""
ERRORS: Final = 576  # per thread: begin, code, value, extent, next, processor (64 bytes)
NEXT: Final = 32
"""In a thread's words: the first iteration of its part that nobody has taken."""
CPU: Final = 40
"""There, too: the processor on which it took part last, 32 bits; -1 where that is unknown."""
ARGUMENTS: Final = ERRORS + 64 * (MAX_WORKERS + 1)  # block, number, generation, thread
ARGUMENT_BYTES: Final = 64
POOL_BYTES: Final = ARGUMENTS + 64 * (MAX_WORKERS + 1)


def kernel_call(begin: str, end: str, error: str) -> str:
    """A call of the kernel %fn on iterations [begin, end)."""
    shared = "ptr %slots, ptr %index, ptr %sizes"
    return f"call i64 %fn({shared}, i64 {begin}, i64 {end}, ptr {error})"


def field(name: str, block: str, offset: str | int) -> str:
    return f"{name} = getelementptr i8, ptr {block}, i64 {offset}"


def loaded(name: str, kind: str, block: str, offset: int) -> str:
    """A word of a block, of the type `kind`."""
    return f"{field(name + '.at', block, offset)}\n  {name} = load {kind}, ptr {name}.at"


def stored(value: str, name: str, block: str, offset: int) -> str:
    """A value with its type to a word of a block, whose address gets a name."""
    return f"{field(name, block, offset)}\n  store {value}, ptr {name}"
