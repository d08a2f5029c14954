"""Frames: the memory of running calls. What a frame is at first is one table for all of a plan."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from tensorad.codegen.entry import plan_words as plan
from tensorad.codegen.entry.frames_ir import frame_library
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.routines import RoutineTable
from tensorad.codegen.threads.activations_ir import record_library
from tensorad.errors import BoundsError, LimitError
from tensorad.ir.analysis.sizes import bytes_text
from tensorad.process import once

_WORD: Final = 8
CALL_AT: Final = plan.CALL_AT // _WORD
"""The word of a frame where its call block begins; those before belong to native code."""
KEPT_FRAMES: Final = 16
"""Frames of a plan that stay when no call uses them; of large ones a single one."""
LARGE_ARENA: Final = 1 << 26
"""Frames from this size on are kept for the sizes used last only, and one at a time."""

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
        shares: whether threads may share loops.
    """

    steps: Array
    indices: Array
    inside: Array
    n_arguments: int
    n_slots: int
    n_dynamic: int
    constants: Sequence[int]
    repeats: bool
    shares: bool


class Template:
    """What the words of a frame are at first, but for where the frame lies.

    In order: a line for native code, the call block, slots, sizes, memory of tensors of which only
    the run tells the size; then temporaries.

    Attributes:
        words: at first; those numbered in `moved` count from the frame's address.
        size_bytes: of a frame, temporaries included.
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
        self.scratch_bytes = scratch_bytes
        slots_at = CALL_AT + block.CALL_WORDS
        sizes_at = slots_at + max(1, program.n_slots)
        heap_at = sizes_at + max(1, len(sizes))
        end = heap_at + 2 + 2 * program.n_dynamic
        arena_at = -(-end * _WORD // ALIGNMENT) * ALIGNMENT
        self.size_bytes = arena_at + -(-arena_bytes // ALIGNMENT) * ALIGNMENT
        self.words = np.zeros(end, np.int64)
        self.words[sizes_at : sizes_at + len(sizes)] = sizes
        first = slots_at + program.n_arguments
        inner = first + len(program.constants)
        self.words[first:inner] = program.constants
        self.words[inner : inner + len(offsets)] = [arena_at + o for o in offsets]
        call = {
            block.SLOTS: _WORD * slots_at,
            block.SIZES: _WORD * sizes_at,
            block.HEAP: _WORD * heap_at,
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


class Failure(NamedTuple):
    """What stopped a call: a step, with what a check found there.

    Attributes:
        code: of the check, or `OUT_OF_MEMORY`, or `RAISED` and less, one for each exception.
        value, extent: an index, and the extent of its axis.
        depth: activations of definitions; `allowed`: bytes that the call may take.
        words: sizes and counters where the step runs.
    """

    step: int
    code: int
    value: int
    extent: int
    depth: int
    allowed: int
    words: Sequence[int]


class Explains(Protocol):
    """A program that words what stopped a call.

    Attributes:
        word_counts: of each step, words that errors may show.
        places: of each step the first of the places where a call may end, and the number of all.
    """

    @property
    def word_counts(self) -> Array: ...

    @property
    def places(self) -> Array: ...

    def error(self, f: Failure) -> BaseException: ...

    def error_at(self, step: int, code: int) -> BaseException: ...


class _Native(NamedTuple):
    """Native functions that are called with the interpreter's lock held; see `frames_ir.py`."""

    reach: Callable[[int, object, object], int]
    ended: Callable[[int, int, int], int]
    leave: Callable[[int], None]


@once
def _native() -> _Native:
    addresses, pointer, word = frame_library().addresses, ctypes.c_void_p, ctypes.c_int64
    return _Native(
        ctypes.PYFUNCTYPE(word, pointer, pointer, pointer)(addresses["reach"]),
        ctypes.PYFUNCTYPE(word, pointer, pointer, word)(addresses["ended"]),
        ctypes.PYFUNCTYPE(None, pointer)(addresses["leave"]),
    )


class Frames:
    """The frames of a plan, and what stopped its calls, whoever makes them.

    Attributes:
        address: of the words that native code reads.
        reach: runs a call, given that address, the addresses of arrays, and where to leave its call
            block, or None. Answers a code, or raises what a handler of signals raises meanwhile.
    """

    def __init__(self, template: Template, program: Explains, slices: int) -> None:
        """`slices`: see `call_block.SLICES`."""
        self._template = template
        self._program = program
        template.words[CALL_AT + block.SLICES] = slices
        kept = 1 if template.size_bytes >= LARGE_ARENA else KEPT_FRAMES
        self.idle = (ctypes.c_int64 * kept)()
        """Addresses of frames that no call uses, or 0."""
        self._counts, self._places = program.word_counts, program.places
        self._record_words = plan.FAILURE_HEAD + int(self._counts.max(initial=0))
        self._words = (ctypes.c_int64 * plan.PLAN_WORDS)()
        shared = template.program
        told = {
            plan.FRAME_BYTES: template.size_bytes,
            plan.TEMPLATE: template.words.ctypes.data,
            plan.TEMPLATE_WORDS: len(template.words),
            plan.MOVED: template.moved.ctypes.data,
            plan.MOVED_WORDS: len(template.moved),
            plan.ARGUMENTS: shared.n_arguments,
            plan.DYNAMIC: shared.n_dynamic,
            plan.SHARES: int(shared.shares),
            plan.SCRATCH_BYTES: template.scratch_bytes,
            plan.IDLE: ctypes.addressof(self.idle),
            plan.KEPT: kept,
            plan.FAILURE_WORDS: self._record_words,
            plan.WORD_COUNTS: self._counts.ctypes.data,
            plan.PLACES: self._places.ctypes.data,
        }
        for n, word in told.items():
            self._words[n] = word
        self.address = ctypes.addressof(self._words)
        native = _native()
        self.reach = native.reach
        self._ended = native.ended
        weakref.finalize(self, _end, self._words, self.idle).atexit = False

    def kept(self, addresses: Words, read: Callable[[Words], None]) -> int:
        """Run a call, and show its call block before another call may have it."""
        at = ctypes.c_int64()
        code = self.reach(self.address, addresses, ctypes.byref(at))
        if code:
            return code
        try:
            read((ctypes.c_int64 * block.CALL_WORDS).from_address(at.value))
        finally:
            self._ended(self.address, at.value, 0)
        return 0

    def leave(self) -> None:
        """Give back to the system what no call uses."""
        _native().leave(self.address)

    def has_told(self, code: int) -> bool:
        """Whether a call may have returned a code."""
        place, number = code >> plan.NUMBER_BITS, code & ((1 << plan.NUMBER_BITS) - 1)
        known = 1 <= place < self._places[-1] and 1 <= number <= self._words[plan.TICKET]
        return code == plan.NO_FRAME or bool(known)

    def error(self, code: int) -> BaseException:
        """What stopped the call that returned a code, to be raised.

        Returns:
            BoundsError: an index from data lies outside of its tensor.
            LimitError: the call would exceed TENSORAD_MAX_BYTES, or the system has no memory.
            what a function of Python has raised; that is to be asked once.
        """
        if code == plan.NO_FRAME:
            return LimitError(
                f"the system has no memory for a call, {bytes_text(self._template.size_bytes)} "
                "besides its arrays.",
                hint="use smaller sizes, or fewer threads that call at once; lower "
                "TENSORAD_MAX_BYTES to be told earlier.",
            )
        place, number = code >> plan.NUMBER_BITS, code & ((1 << plan.NUMBER_BITS) - 1)
        step = int(np.searchsorted(self._places, place, side="right")) - 1
        found = self._record(number)
        if found is None:
            return self._program.error_at(step, place - int(self._places[step]))
        return self._program.error(found)

    def _record(self, number: int) -> Failure | None:
        """What a failure found; None if others have its record by now, or there is none."""
        records = self._words[plan.FAILURES]
        if not records:
            return None
        at = records + _WORD * self._record_words * (number % plan.RECORDS)
        row = (ctypes.c_int64 * self._record_words).from_address(at)
        found = list(row)
        if found[plan.NUMBER] != number or row[plan.NUMBER] != number:
            return None
        step, code, value, extent, depth, allowed = found[plan.STEP : plan.FAILURE_HEAD]
        words = found[plan.FAILURE_HEAD :][: int(self._counts[step])]
        return Failure(step, code, value, extent, depth, allowed, words)


def unknown_code(name: str, code: int) -> BoundsError:
    """No call has returned this."""
    return BoundsError(
        f"no call of {name} has returned the code {code}.",
        hint="ask for the error of a code other than 0 that its function has returned.",
    )


def _end(words: Words, idle: Words) -> None:
    """Give back a plan's frames and records; `idle` is where the words have the frames."""
    _native().leave(ctypes.addressof(words))
    _free(words[plan.FAILURES])


_free: Final = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None
