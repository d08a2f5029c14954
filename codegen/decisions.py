"""What schedules tell about themselves while someone listens; otherwise nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tensorad.ir.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Decision:
    """A choice made for the loops that store some tensors.

    Attributes:
        about: what these loops store, temporaries in scratch included.
        what: what was chosen, a few words: "register tile 6 x 64".
        why: the reason, a clause without a full stop; "" if there was no other way.
    """

    about: tuple[Tensor, ...]
    what: str
    why: str = ""


_listener: ContextVar[list[Decision] | None] = ContextVar("schedule_listener", default=None)


def note(about: tuple[Tensor, ...], what: str, why: str = "") -> None:
    """Tell whoever listens."""
    heard = _listener.get()
    if heard is not None:
        heard.append(Decision(about, what, why))


def is_listening() -> bool:
    """Whether decisions are being kept: only then are reasons worth writing."""
    return _listener.get() is not None


@contextmanager
def listening() -> Iterator[list[Decision]]:
    """Keep what is noted inside the block, in order. Listeners do not nest: the inner hears."""
    heard: list[Decision] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)
