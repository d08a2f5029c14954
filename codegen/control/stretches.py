"""Formulas between control operations, in stretches that are lowered together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tensorad.codegen.control.carries import is_dynamic
from tensorad.codegen.control.in_place import Updates, inputs_of
from tensorad.codegen.control.loop_body import is_made
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.elementwise import copied_from
from tensorad.ir.tensor import Compute, Control, Op, Scan, Scatter, Tensor

Given = dict[Tensor, None]
FORMULAS: Final = (Compute, Scatter, Scan)
"""Operations that kernels compute."""


def has_memory(t: Tensor) -> bool:
    """Whether the tensor may be computed into memory that is given to it."""
    return is_made(t.op)


def copied(
    wanted: Sequence[Tensor], delivered: Collection[Tensor], given: Given, updates: Updates
) -> dict[Tensor, Tensor]:
    """Tensors that are copies -> what they are copies of, which is made in their memory."""
    found: dict[Tensor, Tensor] = {}
    taken = dict.fromkeys(wanted)
    for t in delivered:
        source = _source(t, given)
        if source is None or source in given or source in taken or not has_memory(source):
            continue
        if not is_dynamic(t) and t.op not in updates and source.op not in updates:
            found[t] = source
            taken[source] = None
    left = ops_between([found.get(t, t) for t in wanted], given, lambda op: inputs_of(op, updates))
    return {t: source for t, source in found.items() if t.op not in left}


def _source(t: Tensor, given: Given) -> Tensor | None:
    """What the tensor is a copy of, perhaps by others that are."""
    found = None
    while t not in given:
        source = copied_from(t)
        if source is None:
            break
        found = t = source
    return found


def _stages(order: Mapping[Op, Sequence[Tensor]], given: Given, updates: Updates) -> dict[Op, int]:
    """The number of the control operation, or update in place, that each operation runs before, at
    the earliest."""
    found: dict[Op, int] = {}
    count = 0
    for op, needed in order.items():
        before = [t.op for t in needed if t not in given]
        after = [found[o] + (isinstance(o, Control) or o in updates) for o in before]
        found[op] = max(after, default=0)
        if isinstance(op, Control) or op in updates:
            found[op], count = count, count + 1
    return found


def stretches(
    order: Mapping[Op, Sequence[Tensor]],
    given: Given,
    wanted: Sequence[Tensor],
    updates: Updates,
    between: int,
) -> list[list[Tensor]]:
    """For each stage the tensors of formulas that others than formulas of that stage need."""
    stages = _stages(order, given, updates)
    found: list[dict[Tensor, None]] = [{} for _ in range(between + 1)]
    needed = [(t, -1) for t in wanted]
    for op, inputs in order.items():
        own = stages[op] if isinstance(op, FORMULAS) and op not in updates else -1
        needed += [(t, own) for t in inputs]
    for t, reader in needed:
        is_formula = isinstance(t.op, FORMULAS) and t.op not in updates
        if is_formula and t.op in stages and stages[t.op] != reader:
            found[stages[t.op]][t] = None
    return [list(f) for f in found]
