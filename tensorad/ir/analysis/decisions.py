"""What derivations and schedules tell about themselves while someone listens, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor


class Record:
    """Something that can be told."""


@dataclass(frozen=True, eq=False)
class Decision(Record):
    """A choice made for tensors: what was chosen, and why, each in one clause.

    Attributes:
        about: the tensor whose adjoint (or derivative) the choice concerns; what loops store,
            temporaries in scratch included.
        what: what was chosen, a few words: "gathered", "register tile 6 x 64".
        why: the reason, a clause without a full stop; "" if there was no other way.
        part: what the choice is about inside the tensor's formula (a read, a reduction).
        result: the tensor that was made.
        formula: (axes, value) if no tensor was made.
    """

    about: tuple[Tensor, ...]
    what: str
    why: str = ""
    part: Expr | None = None
    result: Tensor | None = None
    formula: tuple[tuple[Axis, ...], Expr] | None = None


@dataclass(frozen=True, eq=False)
class Incoming(Record):
    """What flows into the adjoint of a tensor through one read: what is noted until the next
    decision about the tensor belongs to it.

    Attributes:
        about: the tensor that is read.
        axes: the axes around the read.
        condition: where the read counts.
        indices: which element is read.
    """

    about: Tensor
    axes: tuple[Axis, ...]
    condition: Expr
    indices: tuple[Expr, ...]


R = TypeVar("R", bound=Record)
_listener: ContextVar[tuple[type[Record], list[Any]] | None] = ContextVar("listener", default=None)


def note(record: Record) -> None:
    """Tell whoever listens."""
    listener = _listener.get()
    if listener is not None and isinstance(record, listener[0]):
        listener[1].append(record)


def is_listening() -> bool:
    """Whether records are being kept: only then are reasons worth writing, and nothing is taken
    from a memory of results."""
    return _listener.get() is not None


@contextmanager
def listening(kind: type[R]) -> Iterator[list[R]]:
    """Keep what is noted of a kind inside the block, in order.

    Listeners do not nest: the inner hears.
    """
    heard: list[R] = []
    token = _listener.set((kind, heard))
    try:
        yield heard
    finally:
        _listener.reset(token)
