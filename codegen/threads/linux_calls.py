"""What threads ask of Linux by number: futexes and the processors that a thread may use."""

from __future__ import annotations

import platform
import sys
from typing import Final, NamedTuple


class SystemCalls(NamedTuple):
    """Numbers of Linux's system calls on one kind of machine."""

    futex: int
    sched_setaffinity: int
    sched_getaffinity: int


_NUMBERS: Final = {
    "x86_64": SystemCalls(202, 203, 204),
    "amd64": SystemCalls(202, 203, 204),
    "aarch64": SystemCalls(98, 122, 123),
    "arm64": SystemCalls(98, 122, 123),
}
HAS_THREADS: Final = sys.platform == "linux" and platform.machine().lower() in _NUMBERS
"""Elsewhere loops run on one thread."""
CALLS: Final = _NUMBERS.get(platform.machine().lower(), SystemCalls(0, 0, 0))
"""Never made where there are no threads."""
