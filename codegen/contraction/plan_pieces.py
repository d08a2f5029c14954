"""Decides which nests, whole or in pieces, run as contractions (`plan_contraction_pieces`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.choose import plan_contraction
from tensorad.codegen.contraction.emit.pack import Emitted, fill
from tensorad.codegen.contraction.emit.write import emit_contraction
from tensorad.codegen.contraction.nonfinite_padding import added_up_again
from tensorad.codegen.contraction.reasons import explain_blocking
from tensorad.codegen.contraction.recognise import recognise
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.splitting.nest_passes import (
    SIMPLIFY,
    SPLIT_DIVISIONS,
    SPLIT_PHASES,
    SPLIT_READ_DIVISIONS,
    Pieces,
    run_nest_passes,
)
from tensorad.ir.order import reads

MOST_PIECES = 16
"""Contractions that one nest may become."""


ContractionPlan = tuple[tuple[Nest, Blocking | None], ...]
"""Pieces of a nest, each with how it runs as a contraction; those without folds are filled."""


def plan_contraction_pieces(nest: Nest, choices: Choices = OPEN) -> ContractionPlan | None:
    """The pieces of a nest that consists of contractions worth their packing, or None.

    What is stored has no say in how the sums run. Divisions and phases of strided steps are cut
    only where the whole nest is not one already.
    """
    if len(nest.folds) != 1:
        return None
    by_hand = choices.vector, choices.order, choices.split, choices.unroll
    if choices.contract is False or (not choices.contract and any(c is not None for c in by_hand)):
        return None
    simple = run_nest_passes((SIMPLIFY,), Pieces(nest, (nest,)))
    if not simple.parts or len(simple.whole.folds) != 1:
        return None
    for pieces in _ways(simple):
        plans = [_plan(p, choices) for p in pieces]
        if not any(plans):
            continue
        if all(b is not None or not p.folds for b, p in zip(plans, pieces, strict=True)):
            return tuple(zip(pieces, plans, strict=True))
    return None


def emit_contraction_pieces(plan: ContractionPlan, finished: Callable[[Nest], Nest]) -> Emitted:
    """The loops of a planned contraction; what is stored, `finished` says of each piece."""
    parts = [
        Emitted(fill(finished(p), threads=True)) if b is None else _emitted(b, finished(p))
        for p, b in plan
    ]
    return Emitted(
        tuple([s for e in parts for s in e.body]),
        tuple([t for e in parts for t in e.copies]),
        tuple([t for e in parts for t in e.scratch]),
    )


def _emitted(b: Blocking, nest: Nest) -> Emitted:
    explain_blocking(b, nest)
    made = emit_contraction(b, nest)
    again, flags = added_up_again(b.contraction, nest)
    return Emitted((*made.body, *again), made.copies, (*made.scratch, *flags), made.before)


def _ways(simple: Pieces) -> Iterator[tuple[Nest, ...]]:
    """The nest as it is, then in pieces, each way cut only when it is asked for.

    What is read is divided first: a division in bounds alone may be of a window that is one
    contraction as it stands.
    """
    yield simple.parts
    read = run_nest_passes((SPLIT_READ_DIVISIONS,), simple)
    if _is_cut(read):
        yield read.parts
    divided = run_nest_passes((SPLIT_DIVISIONS,), simple)
    if _is_cut(divided):
        yield divided.parts
    phases = run_nest_passes((SPLIT_PHASES,), divided).parts
    if len(divided.parts) < len(phases) <= MOST_PIECES:
        yield phases


def _is_cut(pieces: Pieces) -> bool:
    return len(pieces.parts) <= MOST_PIECES and pieces.parts[0] is not pieces.whole


def _plan(nest: Nest, choices: Choices) -> Blocking | None:
    found = recognise(nest)
    if found is None:
        return None
    tensors = [e.tensor for e in reads(*nest.expressions())]
    return plan_contraction(found, lanes_for([*nest.tensors, *tensors]), choices)
