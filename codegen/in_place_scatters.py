"""Which operations share one nest of buffers: a scatter goes on where its start was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorad.ir.tensor import Compute, Op, Scatter, Tensor
from tensorad.ir.visit import op_expressions, op_inputs, reads

Needed = tuple[Op, tuple[Tensor, ...]]
"""An operation, and those of its tensors that are used."""


@dataclass(frozen=True, eq=False)
class Unit:
    """Operations that run as one: each but the first is a scatter onto the result so far.

    Attributes:
        parts: in order; all write the last one's tensor.
        live: the tensors that are stored.
        between: the results of the parts before the last, which are not.
    """

    parts: tuple[Op, ...]
    live: tuple[Tensor, ...]
    between: tuple[Tensor, ...] = ()

    @property
    def op(self) -> Op:
        return self.parts[-1]

    def inputs(self) -> list[Tensor]:
        """What the parts read, but for results so far."""
        found = dict.fromkeys([t for p in self.parts for t in op_inputs(p)])
        for t in self.between:
            found.pop(t, None)
        return list(found)


def join(needed: Sequence[Needed], wanted: Iterable[Tensor]) -> list[Unit]:
    """The units of operations in order, producers first.

    A tensor becomes part of the scatter that starts from it if that is its only use.
    """
    kept = dict.fromkeys(wanted)
    uses: dict[Tensor, int] = {}
    for op, _ in needed:
        for t in op_inputs(op):
            uses[t] = uses.get(t, 0) + 1
    opened: dict[Tensor, Unit] = {}
    units: dict[Unit, None] = {}
    for op, live in needed:
        unit = Unit((op,), live)
        start = op.init if isinstance(op, Scatter) else None
        before = None if start is None else opened.get(start)
        if before is not None and start is not None and _is_last_use(op, start, uses, kept):
            del units[before]
            unit = Unit((*before.parts, op), live, (*before.between, start))
        units[unit] = None
        if isinstance(op, Scatter) or (isinstance(op, Compute) and len(op.bodies) == 1):
            opened[live[0]] = unit
    return list(units)


def _is_last_use(
    op: Op, start: Tensor, uses: Mapping[Tensor, int], kept: Mapping[Tensor, None]
) -> bool:
    """Whether `op` alone needs `start`, and only to begin with."""
    read = any(r.tensor is start for r in reads(*op_expressions(op)))
    return uses[start] == 1 and start not in kept and not read
