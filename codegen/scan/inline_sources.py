"""Formulas of a few operations that only scans read become part of what their steps read.

A step that adds two elements costs less than a loop that stores their sum, and reads no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.cost.operation_costs import operations
from tensorad.codegen.directives import OPEN, Schedules
from tensorad.codegen.in_place_scatters import Unit
from tensorad.ir.expr import Expr, Reduce
from tensorad.ir.tensor import Compute, Scan, Tensor
from tensorad.ir.visit import postorder, reads, substitute, substitute_all

MOST_OPERATIONS: Final = 2
"""Operations of a formula that scans forward and backward both repeat."""


def with_sources(
    units: Sequence[Unit], wanted: Iterable[Tensor], schedules: Schedules
) -> tuple[Unit, ...]:
    """The units with such formulas inside of the scans that read them.

    Args:
        wanted: tensors that must be stored.
    """
    kept = dict.fromkeys(wanted)
    readers: dict[Tensor, list[Unit]] = {}
    for u in units:
        for t in u.inputs():
            readers.setdefault(t, []).append(u)
    formulas: dict[Tensor, Compute] = {}
    for u in units:
        op = u.op
        if u.checks or len(u.parts) > 1 or not isinstance(op, Compute) or not _is_short(op):
            continue
        if schedules.of(op.name) is not OPEN:
            continue
        if all(t not in kept and _all_take(t, readers.get(t, ()), schedules) for t in u.live):
            formulas.update(dict.fromkeys(u.live, op))
    return tuple([_inlined(u, formulas) for u in units if u.live[0] not in formulas])


def _is_short(op: Compute) -> bool:
    nodes = postorder(*op.bodies)
    if any(isinstance(e, Reduce) for e in nodes) or len(op.bodies) > 1:
        return False
    return operations(op.bodies) <= MOST_OPERATIONS and len(reads(*op.bodies)) <= MOST_OPERATIONS


def _all_take(t: Tensor, readers: Sequence[Unit], schedules: Schedules) -> bool:
    """Whether all that read a tensor are scans, at their steps."""
    for u in readers:
        op = u.op
        if u.checks or len(u.parts) > 1 or not isinstance(op, Scan) or op.cell is not None:
            return False
        if op.combiner.is_sum or schedules.of(op.name).fuse is False:
            return False  # what a sum adds decides how it is rounded
        if any(e.tensor is t for e in reads(*op.start, *op.indices, op.condition)):
            return False
    return bool(readers)


def _inlined(u: Unit, formulas: Mapping[Tensor, Compute]) -> Unit:
    op = u.op
    if not isinstance(op, Scan) or not any(t in formulas for t in u.inputs()):
        return u
    images: dict[Expr, Expr] = {}
    for e in reads(*op.sources):
        made = formulas.get(e.tensor)
        if made is not None:
            at: dict[Expr, Expr] = dict(zip(made.axes, e.indices, strict=True))
            images[e] = substitute(made.bodies[e.tensor.index], at)
    return replace(u, parts=(replace(op, sources=substitute_all(op.sources, images)),))
