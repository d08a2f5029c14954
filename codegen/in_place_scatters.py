"""Which operations share one nest of buffers: a scatter goes on where its start was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import Kernel
from tensorad.ir.tensor import Compute, Op, Scatter, Tensor
from tensorad.ir.visit import op_expressions, op_inputs, reads


@dataclass(frozen=True, eq=False)
class Lowering:
    """What a program is to compute, and how.

    Attributes:
        inputs: tensors that are given.
        wanted: tensors to be stored although nothing may read them.
        schedules: choices made by hand.
        checks_sizes: whether indices that sizes put outside are found by the kernels: not
            all operations run.
    """

    inputs: tuple[Tensor, ...]
    wanted: tuple[Tensor, ...]
    schedules: Schedules
    checks_sizes: bool = False


@dataclass(frozen=True, eq=False)
class Unit:
    """Operations that run as one: each but the first is a scatter onto the result so far.

    Attributes:
        parts: in order; all write the last one's tensor.
        live: the tensors that are stored.
        between: the results of the parts before the last, which are not.
        checks: kernels that check its indices, in order; they run before it.
        loops: what computes it, if that is decided: the loops of scans that follow each other.
    """

    parts: tuple[Op, ...]
    live: tuple[Tensor, ...]
    between: tuple[Tensor, ...] = ()
    checks: tuple[Kernel, ...] = ()
    loops: Kernel | None = None

    @property
    def op(self) -> Op:
        return self.parts[-1]

    def inputs(self) -> list[Tensor]:
        """What the parts read, but for results so far."""
        if self.loops is not None:
            return list(self.loops.reads)
        found = dict.fromkeys([t for p in self.parts for t in op_inputs(p)])
        for t in self.between:
            found.pop(t, None)
        return list(found)


def join(units: Sequence[Unit], wanted: Iterable[Tensor]) -> tuple[Unit, ...]:
    """The units of single operations, producers first, with those in one that share a buffer.

    A tensor becomes part of the scatter that starts from it if that is its only use.
    """
    kept = dict.fromkeys(wanted)
    uses: dict[Tensor, int] = {}
    for u in units:
        for t in op_inputs(u.op):
            uses[t] = uses.get(t, 0) + 1
    opened: dict[Tensor, Unit] = {}
    found: dict[Unit, None] = {}
    for unit in units:
        op, live = unit.op, unit.live
        start = op.init if isinstance(op, Scatter) else None
        before = None if start is None else opened.get(start)
        if before is not None and start is not None and _is_last_use(op, start, uses, kept):
            del found[before]
            unit = Unit((*before.parts, op), live, (*before.between, start))
        found[unit] = None
        if isinstance(op, Scatter) or (isinstance(op, Compute) and len(op.bodies) == 1):
            opened[live[0]] = unit
    return tuple(found)


def _is_last_use(
    op: Op, start: Tensor, uses: Mapping[Tensor, int], kept: Mapping[Tensor, None]
) -> bool:
    """Whether `op` alone needs `start`, and only to begin with."""
    read = any(r.tensor is start for r in reads(*op_expressions(op)))
    return uses[start] == 1 and start not in kept and not read
