"""Python's cyclic garbage collector while many formulas are written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tensorad.process import Setting

_NEVER: Final = 1 << 30
_YOUNG: Final = 20_000
"""New objects that are walked over at once, at least."""
_Thresholds = tuple[int, int, int]


def _at_rest(now: _Thresholds) -> _Thresholds:
    young, middle, _ = now
    return (max(young, _YOUNG), middle, _NEVER) if young else now  # 0: somebody has turned it off


_thresholds: Final = Setting(gc.get_threshold, lambda t: gc.set_threshold(*t), _at_rest)


@contextmanager
def old_objects_at_rest() -> Iterator[None]:
    """Young objects are collected, in larger portions; those that survived are left alone.

    Formulas refer to no formula made after them, so counting references frees them; the walks
    over all of them, again each time they have grown by a quarter, took a third of the time of
    long programs. Nearly all young objects are formulas in use: looking at 20,000 at a time, in
    place of 700, saves a tenth.
    """
    with _thresholds.changed():
        yield
