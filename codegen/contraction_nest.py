"""Claims nests that are contractions: the hook of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.codegen.choices import OPEN, Choices
from tensorad.codegen.contraction import recognise
from tensorad.codegen.contraction_emit import Emitted, emit_contraction
from tensorad.codegen.contraction_pack import fill
from tensorad.codegen.contraction_plan import Blocking, plan_contraction
from tensorad.codegen.contraction_reasons import explain_blocking
from tensorad.codegen.llvm_lanes import lanes_for
from tensorad.codegen.loopnest import Nest, simplify_nest
from tensorad.codegen.schedule_split import split_divisions, split_phases
from tensorad.ir.expr import Read
from tensorad.ir.visit import postorder

MOST_PIECES = 16
"""Contractions that one nest may become."""


def contract(
    nest: Nest,
    choices: Choices = OPEN,
    finished: Callable[[Nest], Nest] = lambda nest: nest,
) -> Emitted | None:
    """The loops of a nest that consists of contractions worth their packing, or None.

    What is stored, `finished` says of each piece; it has no say in how the sums run.
    Divisions and phases of strided steps are cut only where the whole nest is not one already.
    """
    if len(nest.folds) != 1 or any(a.extent is None for a in nest.axes):
        return None
    by_hand = choices.vector, choices.order, choices.split, choices.unroll
    if choices.contract is False or (not choices.contract and any(c is not None for c in by_hand)):
        return None
    simple = simplify_nest(nest)
    if simple is None or len(simple.folds) != 1:
        return None
    for pieces in _ways(simple):
        plans = [_plan(p, choices) for p in pieces]
        if not any(plans):
            continue
        if all(b is not None or not p.folds for b, p in zip(plans, pieces, strict=True)):
            parts = [
                Emitted(fill(finished(p), threads=True)) if b is None else _emitted(b, finished(p))
                for b, p in zip(plans, pieces, strict=True)
            ]
            return Emitted(
                tuple([s for e in parts for s in e.body]),
                [t for e in parts for t in e.copies],
                [t for e in parts for t in e.scratch],
            )
    return None


def _emitted(b: Blocking, nest: Nest) -> Emitted:
    explain_blocking(b, nest)
    return emit_contraction(b, nest)


def _ways(nest: Nest) -> Sequence[list[Nest]]:
    """The nest as it is, then in pieces."""
    divided = split_divisions(nest)
    phases = [q for p in divided for q in split_phases(p)]
    ways = [[nest]]
    if len(divided) > 1 or divided[0] is not nest:
        ways.append(divided)
    if len(phases) > len(divided):
        ways.append(phases)
    return [w for w in ways if len(w) <= MOST_PIECES]


def _plan(nest: Nest, choices: Choices) -> Blocking | None:
    found = recognise(nest)
    if found is None:
        return None
    tensors = [e.tensor for e in postorder(*nest.expressions()) if isinstance(e, Read)]
    return plan_contraction(found, lanes_for([*nest.tensors, *tensors]), choices)
