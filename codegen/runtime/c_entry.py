"""Compiled functions as plain functions of addresses, for callers that are not Python."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from tensorad.codegen.entry import plain_ir as plain
from tensorad.codegen.runtime.executable import LARGE_ARENA, Executable, Failure, Layout
from tensorad.codegen.runtime.frames import CALL_AT
from tensorad.codegen.target import link
from tensorad.codegen.threads import native_settings
from tensorad.codegen.threads.pool import driver
from tensorad.errors import BoundsError, LimitError
from tensorad.process import once

_KEPT_FRAMES: Final = 16
"""Frames of an entry that stay when no call uses them; of large ones a single one."""
Shape = tuple[int, ...]


@once
def _library() -> link.Library:
    """The code that all entries share."""
    addresses = {
        "run": driver().library.addresses["run"],
        "settings": native_settings.read_by_native_code(),
    }
    text = plain.plain_text()
    return link.load(text, ("enter", "leave"), plain.SYMBOLS, opt=1, addresses=addresses)


class CEntry:
    """A compiled function at fixed sizes as a function of C.

    Its type is `int64_t f(void **buffers)`: addresses of contiguous arrays in C order, aligned to
    their elements, inputs first, then outputs, each in the order of the compiled function. Bytes of
    bool arrays are 0 or 1. No output shares a byte with an input or another output. It returns 0,
    or a code that `error` puts in words; outputs are undefined then.

    It may be called from any thread, at once from any number of them, and without Python's lock; it
    takes that one for nothing but functions of `ta.foreign`. It uses as many threads as the
    settings say at the time. The address is valid as long as this object lives, in forked children
    too.

    Attributes:
        name: of the compiled function.
        address: of the function.
        input_shapes, output_shapes: in elements.
        is_long: whether other threads of Python should run during a call.
    """

    def __init__(
        self,
        name: str,
        executable: Executable,
        layout: Layout,
        input_shapes: Sequence[Shape],
        output_shapes: Sequence[Shape],
    ) -> None:
        """`layout`: of these shapes' sizes."""
        self.name = name
        self.input_shapes, self.output_shapes = tuple(input_shapes), tuple(output_shapes)
        self.is_long = layout.is_long
        self._executable = executable
        self._layout = layout
        template = layout.template
        kept = 1 if template.size_bytes >= LARGE_ARENA else _KEPT_FRAMES
        steps = range(executable.n_steps)
        counts = [executable.word_count(n) for n in steps]
        self._counts = np.array(counts, np.int64)
        places = accumulate([1 + executable.check_count(n) for n in steps], initial=1)
        self._places = np.array(list(places), np.int64)
        self._record_words = plain.FAILURE_HEAD + max(counts, default=0)
        self._records = np.zeros((plain.RECORDS, self._record_words), np.int64)
        self._idle = np.zeros(kept, np.int64)
        self._words = np.zeros(plain.ENTRY_WORDS, np.int64)
        told = {
            plain.FRAME_BYTES: template.size_bytes,
            plain.TEMPLATE: template.words.ctypes.data,
            plain.TEMPLATE_WORDS: len(template.words),
            plain.MOVED: template.moved.ctypes.data,
            plain.MOVED_WORDS: len(template.moved),
            plain.CALL_AT: 8 * CALL_AT,
            plain.SLOTS_AT: 8 * template.slots_at,
            plain.ARGUMENTS: executable.n_arguments,
            plain.HEAP_AT: 8 * template.heap_at,
            plain.DYNAMIC: template.program.n_dynamic,
            plain.SHARES: int(executable.is_parallel),
            plain.SCRATCH_BYTES: layout.scratch_bytes,
            plain.IDLE: self._idle.ctypes.data,
            plain.KEPT: kept,
            plain.FAILURES: self._records.ctypes.data,
            plain.FAILURE_WORDS: self._record_words,
            plain.WORD_COUNTS: self._counts.ctypes.data,
            plain.PLACES: self._places.ctypes.data,
        }
        for n, word in told.items():
            self._words[n] = word
        enter = {"enter": _library().addresses["enter"]}
        text = plain.trampoline_text(self._words.ctypes.data)
        self._code = link.load(text, ("entered",), (), opt=0, addresses=enter)
        self.address: int = self._code.addresses["entered"]
        weakref.finalize(self, _leave, self._words, self._idle)

    def __repr__(self) -> str:
        return f"<CEntry {self.name} at {self.address:#x}>"

    def error(self, code: int) -> BaseException:
        """What stopped a call that returned this code, to be raised.

        Of calls that failed the last 4096 are known. The code of an older one still tells which
        access failed, but not at which index.

        Returns:
            BoundsError: an index from data lies outside of its tensor.
            LimitError: the call would exceed TENSORAD_MAX_BYTES, or the system has no memory.
            what a function of `ta.foreign` has raised; that is to be asked once.
        Raises:
            BoundsError: no call has returned this code.
        """
        if code == plain.NO_FRAME:
            return LimitError(
                f"the system has no memory for a call of {self.name}.",
                where=f"{self._layout.own_bytes} bytes besides its arrays",
                hint="use smaller sizes, or fewer threads that call it at once.",
            )
        place, number = code >> plain.NUMBER_BITS, code & ((1 << plain.NUMBER_BITS) - 1)
        row = self._records[number % plain.RECORDS]
        found = [int(n) for n in row]
        if not (1 <= place < self._places[-1] and 1 <= number <= self._words[plain.TICKET]):
            raise BoundsError(
                f"no call of {self.name} has returned the code {code}.",
                hint="ask for the error of a code other than 0 that its function has returned.",
            )
        if found[plain.NUMBER] != number or int(row[plain.NUMBER]) != number:
            step = int(np.searchsorted(self._places, place, side="right")) - 1
            return self._executable.error_at(step, place - int(self._places[step]))
        step, code, value, extent, depth, allowed = found[plain.STEP : plain.FAILURE_HEAD]
        words = found[plain.FAILURE_HEAD :][: self._executable.word_count(step)]
        return self._executable.error(Failure(step, code, value, extent, depth, allowed, words))


def _leave(words: np.ndarray[tuple[int], np.dtype[np.int64]], idle: object) -> None:
    """Give back an entry's frames; `idle` is where the words have them."""
    leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_library().addresses["leave"])
    leave(words.ctypes.data)
