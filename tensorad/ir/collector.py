"""Python's cyclic garbage collector while many formulas are written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_NEVER: Final = 1 << 30
_lock = Lock()
_inside: list[int] = []
"""The threshold of the oldest generation, once for each call that is under way."""


@contextmanager
def old_objects_at_rest() -> Iterator[None]:
    """Young objects are collected as ever, those that survived are not looked at again.

    Formulas refer to no formula made after them, so counting references frees them; the walks
    over all of them, again each time they have grown by a quarter, took a third of the time of
    long programs.
    """
    with _lock:
        young, middle, old = gc.get_threshold()
        if not _inside:
            gc.set_threshold(young, middle, _NEVER)
        _inside.append(_inside[0] if _inside else old)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            young, middle, old = gc.get_threshold()
            if not _inside and old == _NEVER:
                gc.set_threshold(young, middle, before)
