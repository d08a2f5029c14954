"""What a register tile loads: windows that overlap, registers that are too few, far places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensorad.codegen.cost.cache_traffic import bytes_moved, extent_product
from tensorad.codegen.cost.memory_model import LONGEST
from tensorad.codegen.model import PAGE, Model
from tensorad.codegen.nest.access import Access, extent_of
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.expr import Axis

FEW_USES = 4
"""Steps per byte up to which memory is what a nest waits for."""
STREAM_COST = 0.1
"""What another place in memory to read from costs, as a part of everything: processors foresee
a few, and places that are pages apart fall to the same lines of a cache."""
PAGES_COST = 1.05
"""What lanes on pages of their own cost: the last choice among equals."""
SPILL = 1.5
"""Loads instead of one, where registers are too few."""

ROWS_PER_PASS = 4
"""Rows of one pass where sums of rows stay in memory."""
PLACES = 8
"""Places that such a pass reads from where rows are long: sums are loaded less often."""


def has_little_reuse(nest: Nest, model: Model) -> bool:
    """Whether a nest reads more than a core's own cache holds, and uses each of it a few times."""
    moved = bytes_moved(nest)
    steps = sum(extent_product([*nest.axes, *f.axes]) for f in nest.folds)
    return moved > model.l2 and steps <= FEW_USES * moved


def crowding(reads: Sequence[Access], jam: Mapping[Axis, int]) -> float:
    """What it costs that copies read at many places at a time."""
    return 1 + STREAM_COST * (regions(reads, jam) - 1)


def paging(reads: Sequence[Access], vector: Axis) -> float:
    """What it costs that lanes along an axis may read from as many pages."""
    strides = [abs(x.stride(vector) or 0) * x.tensor.dtype.size_bytes for x in reads]
    return PAGES_COST if any(n >= PAGE for n in strides) else 1.0


def regions(reads: Sequence[Access], jam: Mapping[Axis, int]) -> int:
    """How many places far apart the copies read at a time."""
    far = {
        a: f
        for a, f in jam.items()
        for x in reads
        if abs(x.stride(a) or 0) * x.tensor.dtype.size_bytes >= PAGE
    }
    return prod(far.values())


def loaded(
    reads: Sequence[Access],
    jam: Mapping[Axis, int],
    written: Sequence[Axis],
    registers: Sequence[int],
    held: int,
) -> list[float]:
    """Loads of each access for all copies, per step, registers counted.

    Windows of neighbouring copies overlap where reduce axes are written out: what several need is
    loaded once, as long as `held` registers have room for all of it.
    """
    every = prod(jam.values())
    steps = prod(a.extent or 1 for a in written)
    each: list[float] = [prod(f for a, f in jam.items() if a in x.uses) for x in reads]
    offsets = [_offsets(x, jam, written) for x in reads]
    plain = [n * r for n, r in zip(each, registers, strict=True)]
    shared = [
        n if o is None else len(o) * r / steps
        for n, o, r in zip(plain, offsets, registers, strict=True)
    ]
    if all(s >= p for s, p in zip(shared, plain, strict=True)):
        return plain
    live = sum(len(o) * r for o, r in zip(offsets, registers, strict=True) if o is not None)
    if live + every * max(registers) > held:
        return [SPILL * n for n in plain]
    return shared


def _offsets(x: Access, jam: Mapping[Axis, int], written: Sequence[Axis]) -> dict[int, None] | None:
    """The places that an access reads in all copies and written steps; None if it is not affine."""
    found: dict[int, None] = {0: None}
    counts = {**dict.fromkeys(written, 0), **jam}
    for a, n in counts.items():
        step = x.stride(a)
        if step is None:
            return None
        if step:
            found = dict.fromkeys(o + step * k for o in found for k in range(n or a.extent or 1))
    return found


def rows_of_pass(reads: Sequence[Access], lane: Axis) -> int:
    """How many rows a pass along them adds to sums in memory; `reads` are made in each."""
    size_bytes = min([x.tensor.dtype.size_bytes for x in reads])
    long = extent_of(lane) * size_bytes >= LONGEST
    return max(ROWS_PER_PASS, PLACES // len(reads)) if long else ROWS_PER_PASS
