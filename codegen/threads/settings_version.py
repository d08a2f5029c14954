"""The version of the settings: what calls have prepared under another one is out of date."""

from __future__ import annotations

import ctypes
from itertools import count
from typing import Final

from tensorad import config

_numbers = count(1)
_current: Final = ctypes.c_int64(next(_numbers))
ADDRESS: Final = ctypes.addressof(_current)
"""Where native code reads the number."""


def current_version() -> int:
    """The number now; read it before the settings that are relied on."""
    return _current.value


def new_version() -> None:
    """Have native calls ask Python again: settings or the pool of threads have changed."""
    _current.value = next(_numbers)


config.watch(new_version)
