"""Python's cyclic garbage collector while many formulas are written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

from tensorad.process import Guard, in_forked_child

_NEVER: Final = 1 << 30
_YOUNG: Final = 20_000
"""New objects that are walked over at once, at least."""
_Thresholds = tuple[int, int, int]
_guard = Guard()
_inside: list[tuple[int, _Thresholds]] = []
"""For each call that is under way: its thread, and the thresholds before the first of them."""


def _restore(before: _Thresholds) -> None:
    young, middle, old = gc.get_threshold()
    if old == _NEVER:
        ours = young == max(before[0], _YOUNG)
        gc.set_threshold(before[0] if ours else young, middle, before[2])


@in_forked_child
def _forget_other_threads() -> None:
    """A fork copies the calls that other threads are in, but not the threads."""
    mine = [call for call in _inside if call[0] == get_ident()]
    if _inside and not mine:
        _restore(_inside[0][1])
    _inside[:] = mine


@contextmanager
def old_objects_at_rest() -> Iterator[None]:
    """Young objects are collected, in larger portions; those that survived are left alone.

    Formulas refer to no formula made after them, so counting references frees them; the walks
    over all of them, again each time they have grown by a quarter, took a third of the time of
    long programs. Nearly all young objects are formulas in use: looking at 20,000 at a time, in
    place of 700, saves a tenth.
    """
    with _guard.lock:
        now = gc.get_threshold()
        call = (get_ident(), _inside[0][1] if _inside else now)
        _inside.append(call)
        if len(_inside) == 1 and now[0]:  # 0: somebody has turned it off
            gc.set_threshold(max(now[0], _YOUNG), now[1], _NEVER)
    try:
        yield
    finally:
        with _guard.lock:
            if len(_inside) == 1:
                _restore(call[1])
            _inside.remove(call)
