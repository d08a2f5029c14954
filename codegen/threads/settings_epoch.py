"""A number that changes when what calls have prepared may be out of date."""

from __future__ import annotations

import ctypes
from itertools import count
from typing import Final

from tensorad import config

_numbers = count(1)
_current: Final = ctypes.c_int64(next(_numbers))
ADDRESS: Final = ctypes.addressof(_current)
"""Where native code reads the number."""


def epoch() -> int:
    """The number now; read it before the settings that are relied on."""
    return _current.value


def begin_epoch() -> None:
    """Have native calls ask Python again: settings or the pool of threads have changed."""
    _current.value = next(_numbers)


config.watch(begin_epoch)
