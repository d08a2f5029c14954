"""Frames: the memory of running calls. What a frame is at first is one table for all of a plan."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.runtime.arena import Array, aligned, new_bytes, scratch_block
from tensorad.codegen.runtime.routines import RoutineTable
from tensorad.codegen.threads.activations_ir import record_library

_WORD: Final = 8
CALL_AT: Final = ALIGNMENT // _WORD
"""The word of a frame where its call block begins; those before belong to native code."""

Words = ctypes.Array[ctypes.c_int64]


class Program(NamedTuple):
    """What all frames of a program share.

    Attributes:
        steps, indices, inside: tables of the driver.
        n_arguments: slots of inputs and outputs, the first ones.
        n_slots: all of them.
        n_dynamic: tensors of which only the run tells the size.
        constants: addresses of constants, in the slots after the arguments.
        repeats: whether only the run tells how long a call takes.
    """

    steps: Array
    indices: Array
    inside: Array
    n_arguments: int
    n_slots: int
    n_dynamic: int
    constants: Sequence[int]
    repeats: bool


class Template:
    """What the words of a frame are at first, but for where the frame lies.

    In order: a line for native code, the call block, slots, sizes, memory of tensors of which only
    the run tells the size; then temporaries.

    Attributes:
        words: at first; those numbered in `moved` count from the frame's address.
        size_bytes: of a frame, temporaries included.
        slots_at, heap_at: where slots begin, and the words `HEAP`.
    """

    def __init__(
        self,
        program: Program,
        sizes: Sequence[int],
        offsets: Sequence[int],
        arena_bytes: int,
        scratch_bytes: int,
        routines: RoutineTable | None,
    ) -> None:
        """`offsets`: of temporaries among each other, which have `arena_bytes`; `scratch_bytes`:
        what each thread needs for itself."""
        self.program = program
        self.routines = routines
        self.slots_at = CALL_AT + block.CALL_WORDS
        sizes_at = self.slots_at + max(1, program.n_slots)
        self.heap_at = sizes_at + max(1, len(sizes))
        self.heap_words = 2 + 2 * program.n_dynamic
        end = self.heap_at + self.heap_words
        arena_at = -(-end * _WORD // ALIGNMENT) * ALIGNMENT
        self.size_bytes = arena_at + -(-arena_bytes // ALIGNMENT) * ALIGNMENT
        self.words = np.zeros(end, np.int64)
        self.words[sizes_at : sizes_at + len(sizes)] = sizes
        first = self.slots_at + program.n_arguments
        inner = first + len(program.constants)
        self.words[first:inner] = program.constants
        self.words[inner : inner + len(offsets)] = [arena_at + o for o in offsets]
        call = {
            block.SLOTS: _WORD * self.slots_at,
            block.SIZES: _WORD * sizes_at,
            block.HEAP: _WORD * self.heap_at,
            block.STEPS: program.steps.ctypes.data,
            block.COUNT: len(program.steps),
            block.INDICES: program.indices.ctypes.data,
            block.INSIDE: program.inside.ctypes.data,
            block.REPEATS: int(program.repeats),
            block.SCRATCH_BYTES: scratch_bytes,
        }
        if routines is not None:
            call[block.ROUTINES] = routines.address
            call[block.RECORD_STEP] = record_library().addresses["record"]
        for n, word in call.items():
            self.words[CALL_AT + n] = word
        own = [CALL_AT + n for n in (block.SLOTS, block.SIZES, block.HEAP)]
        self.moved = np.array([*own, *range(inner, inner + len(offsets))], np.int64)


class Frame:
    """The memory of one running call.

    Attributes:
        call: the call block; `address` its address.
        slots: addresses of tensors, those of arguments first.
        heap: what may be taken, what is, and tensors of which only the run tells the size.
    """

    def __init__(self, template: Template, *, grows: bool) -> None:
        """`grows`: whether a call takes memory while it runs."""
        self._template = template
        self._memory = aligned(new_bytes(template.size_bytes), template.size_bytes)
        base = self._memory.ctypes.data
        words = self._memory[: _WORD * len(template.words)].view(np.int64)
        words[:] = template.words
        words[template.moved] += base
        self.call = _words(base, CALL_AT, block.CALL_WORDS)
        self.slots = _words(base, template.slots_at, max(1, template.program.n_slots))
        self.heap = _words(base, template.heap_at, template.heap_words)
        if grows:
            weakref.finalize(self, _release, self._memory, self.heap, self.call)
        self.address = ctypes.addressof(self.call)
        self._scratch: Array | None = None

    def reserve(self, size_bytes: int) -> None:
        """Have at least this much scratch memory; pages are touched when threads use them."""
        if self._scratch is None or self._scratch.nbytes < size_bytes:
            self._scratch = scratch_block(size_bytes)
            self.call[block.SCRATCH] = self._scratch.ctypes.data

    def release_chunks(self) -> None:
        """Give back what activations and records had."""
        _release_chunks(self.heap, self.call)


def _words(base: int, at: int, count: int) -> Words:
    return (ctypes.c_int64 * count).from_address(base + _WORD * at)


def _release(memory: Array, heap: Words, call: Words) -> None:
    """Give back what a frame's calls have reserved; `memory` is where the words are."""
    for address in heap[2::2]:
        _free(address)
    _release_chunks(heap, call)


def _release_chunks(heap: Words, call: Words) -> None:
    for region in (block.STACK, block.RECORDS):
        chunk = call[region]
        while chunk:
            following, size_bytes = (ctypes.c_int64 * 2).from_address(chunk)
            heap[1] -= size_bytes
            _free(chunk)
            chunk = following
        call[region : region + block.REGION_WORDS] = [0] * block.REGION_WORDS


_free: Final = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None
