"""What a derivation tells about itself while someone listens; otherwise nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor
from tensorad.simplify.domain.solution import Solution


@dataclass(frozen=True, eq=False)
class Elimination:
    """A domain {inner : bounds, condition} and the loops that replace it."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    condition: Expr
    solution: Solution


@dataclass(frozen=True, eq=False)
class Incoming:
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


@dataclass(frozen=True, eq=False)
class Decision:
    """A choice made for a tensor: what was done, and why, each in one clause.

    Attributes:
        about: the tensor whose adjoint (or derivative) the choice concerns.
        plan: what was done, a few words.
        why: the reason, a clause without a full stop; "" if there was no other way.
        part: what the choice is about inside the tensor's formula (a read, a reduction).
        result: the tensor that was made.
        formula: (axes, value) if no tensor was made.
    """

    about: Tensor
    plan: str
    why: str = ""
    part: Expr | None = None
    result: Tensor | None = None
    formula: tuple[tuple[Axis, ...], Expr] | None = None


Record = Elimination | Incoming | Decision
_listener: ContextVar[list[Record] | None] = ContextVar("listener", default=None)


def note(record: Record) -> None:
    """Tell whoever listens."""
    heard = _listener.get()
    if heard is not None:
        heard.append(record)


def is_listening() -> bool:
    """Whether records are being kept (then nothing is taken from a memory of results)."""
    return _listener.get() is not None


@contextmanager
def listening() -> Iterator[list[Record]]:
    """Keep what is noted inside the block, in order. Listeners do not nest: the inner hears."""
    heard: list[Record] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)
