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
"""Whether callers without Python read the words: they follow the settings from then on, and not
only before a call of Python under other settings."""


def read_by_native_code() -> int:
    """The address of the words, which follow the settings from now on."""
    global _is_read
    _is_read = True
    _follow()
    return ADDRESS


def follow(*, shares: bool, grows: bool) -> None:
    """Have the words be the settings of now; the last one to come finds the newest.

    Args:
        shares, grows: whether calls that follow share loops, and take memory while they run: what
            no call reads is not found out.
    """
    with _guard.lock:
        threads = config.current().num_threads
        if shares:
            _words[POOL] = pool_for(threads)
        _words[THREADS] = threads
        if grows:
            _words[LIMIT] = config.bytes_left()


def _follow() -> None:
    if _is_read:
        follow(shares=True, grows=True)


config.watch(_follow)
