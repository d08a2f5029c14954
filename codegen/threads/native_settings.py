"""Settings as words that native code reads by itself, wherever it is called from."""

from __future__ import annotations

import ctypes
from typing import Final

from tensorad import config
from tensorad.codegen.threads.pool import pool_for
from tensorad.process import Guard

THREADS, POOL, LIMIT = range(3)
"""How many threads a call may use, the address of their pool (0: none), bytes that it may take."""
_words: Final = (ctypes.c_int64 * 3)(1, 0, 0)
ADDRESS: Final = ctypes.addressof(_words)
"""Where the words are."""
_guard = Guard()
_is_read = False
"""Whether native code reads the words: they follow the settings from then on."""


def read_by_native_code() -> int:
    """The address of the words, which follow the settings from now on."""
    global _is_read
    _is_read = True
    _follow()
    return ADDRESS


def _follow() -> None:
    """Take over the settings; the last one to come finds the newest."""
    if not _is_read:
        return
    with _guard.lock:
        settings = config.current()
        _words[POOL] = pool_for(settings.num_threads)
        _words[THREADS] = settings.num_threads
        _words[LIMIT] = config.bytes_left()


config.watch(_follow)
