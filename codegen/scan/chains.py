"""Chains of scans: a gradient's scan backwards follows the scan whose states it reads.

In one loop over rows, the states of a few rows stay in cache between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.directives import Schedules
from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.scan.schedule import ROWS, schedule_chain
from tensorad.codegen.scan.vector_rows import Chain
from tensorad.ir.analysis.sizes import fixed_elements
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import op_expressions, reads

NEAR_BYTES: Final = 1 << 18
"""What the states of the rows side by side may fill."""


def with_chains(
    units: Sequence[Unit], wanted: Sequence[Tensor], schedules: Schedules
) -> tuple[Unit, ...]:
    """The units, those of a chain as its last one, with the loops of all of them.

    Args:
        wanted: tensors that must be stored.
    """
    loops: dict[Unit, Kernel | None] = {}
    for last, members in scan_chains(units, wanted).items():
        choices = schedules.of(last.op.name)
        if choices.fuse is False:
            continue
        kernel = schedule_chain(chain_of(members, wanted), choices)
        if kernel is not None:
            loops.update(dict.fromkeys(members[:-1], None))
            loops[last] = kernel
    result: list[Unit] = []
    for u in units:
        kernel = loops.get(u)
        if kernel is not None:
            result.append(replace(u, live=kernel.writes, loops=kernel))
        elif u not in loops:
            result.append(u)
    return tuple(result)


def scan_chains(units: Sequence[Unit], wanted: Iterable[Tensor]) -> dict[Unit, tuple[Unit, ...]]:
    """The last unit of each chain, with all its units in order.

    Args:
        wanted: tensors that must be stored.
    """
    readers: dict[Tensor, dict[Unit, None]] = {}
    for u in units:
        for t in u.inputs():
            readers.setdefault(t, {})[u] = None
    kept = dict.fromkeys(wanted)
    maker = {t: u for u in units for t in u.live}
    chains: dict[Unit, tuple[Unit, ...]] = {}
    for u in units:
        for before in dict.fromkeys([maker[t] for t in u.inputs() if t in maker]):
            members = chains.get(before, (before,))
            if _follows(u, members, readers, kept) and not u.checks:
                chains.pop(before, None)
                chains[u] = (*members, u)
                break
    return chains


def _follows(
    u: Unit,
    members: Sequence[Unit],
    readers: Mapping[Tensor, Mapping[Unit, None]],
    kept: Mapping[Tensor, None],
) -> bool:
    """Whether a unit may join: it alone reads what the chain makes, at its own rows."""
    op = _scan_of(u)
    first = _scan_of(members[0])
    if op is None or first is None or any(_scan_of(m) is None for m in members):
        return False
    if not op.axes or len(op.axes) != len(first.axes):
        return False
    if any(a.upper is not b.upper for a, b in zip(op.axes, first.axes, strict=True)):
        return False
    inside = dict.fromkeys([t for m in members for t in m.live])
    own = {**dict.fromkeys(members), u: None}
    for t in inside:
        if any(r not in own for r in readers.get(t, ())) or not (t in kept or _is_near(t, op)):
            return False
    rows = len(op.axes)
    found = [e for e in reads(*op_expressions(op)) if e.tensor in inside]
    return all(i is a for e in found for i, a in zip(e.indices[:rows], op.axes, strict=True))


def _scan_of(u: Unit) -> Scan | None:
    """The scan of a unit, if its state is no array."""
    op = u.op
    return op if isinstance(op, Scan) and len(u.parts) == 1 and op.cell is None else None


def _is_near(t: Tensor, op: Scan) -> bool:
    """Whether some rows of a tensor fit a cache."""
    row = fixed_elements(t.shape[len(op.axes) :])
    return row is not None and ROWS * row * t.dtype.size_bytes <= NEAR_BYTES


def chain_of(units: Sequence[Unit], wanted: Iterable[Tensor]) -> Chain:
    """The scans of a chain's units; what is wanted is stored beside."""
    kept = dict.fromkeys(wanted)
    found = [(op, u.live) for u in units if (op := _scan_of(u)) is not None]
    inside = tuple([t for _, live in found[:-1] for t in live if t not in kept])
    return Chain(tuple(found), inside)
