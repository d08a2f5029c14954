"""Carries that a loop takes over: it changes them where they lie already, for nobody else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorad.codegen.control.in_place import Given, Updates, find_updates, inputs_of
from tensorad.codegen.control.loop_body import Body
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.tensor import Loop, Op, Saved, Tensor

Taken = Mapping[Op, Collection[int]]
"""By loop, the numbers of the carries that it takes over."""


def taken_carries(
    body: Body, wanted: Sequence[Tensor], given: Given, updates: Updates
) -> dict[Tensor, Loop]:
    """Next carries that a loop in the body makes of the carries, changing them where they lie.

    Args:
        wanted: what an iteration computes.
        updates: what is changed in place by formulas.
    """
    found: dict[Tensor, Loop] = {}
    ops = ops_between(wanted, given, lambda op: inputs_of(op, updates))
    uses, kept = _uses(ops, wanted, updates), saves_of(ops)
    for carry, result in body.may_be_in_place:
        op, k = result.op, result.index
        if not isinstance(op, Loop) or k >= op.carries or uses.get(carry) != 1:
            continue
        if op.operands[k] is carry and k in _changed(op, kept.get(op, [])):
            found[result] = op
    return found


def taken_results(
    wanted: Sequence[Tensor], given: Given, updates: Updates, delivered: Collection[Tensor]
) -> dict[Op, dict[int, None]]:
    """What loops take over from loops before them.

    Args:
        delivered: tensors that are made in the memory they have.
    """
    ops = ops_between(wanted, given, lambda op: inputs_of(op, updates))
    loops = [op for op in ops if isinstance(op, Loop)]
    uses = _uses(ops, wanted, updates) if len(loops) > 1 else {}
    kept = saves_of(ops)
    found: dict[Op, dict[int, None]] = {}
    for op in loops:
        for k, x in enumerate(op.operands[: op.carries]):
            before = x.op
            if x in given or x in delivered or not isinstance(before, Loop) or uses.get(x) != 1:
                continue
            if x.index in _changed(before, kept.get(before, [])) and k in _changed(
                op, kept.get(op, [])
            ):
                found.setdefault(op, {})[k] = None
    return found


def _uses(ops: Sequence[Op], wanted: Sequence[Tensor], updates: Updates) -> dict[Tensor, int]:
    """How often tensors are read."""
    uses: dict[Tensor, int] = dict.fromkeys(wanted, 1)
    for t in [t for op in ops for t in inputs_of(op, updates)]:
        uses[t] = uses.get(t, 0) + 1
    return uses


def _changed(op: Loop, kept: Sequence[Saved]) -> dict[int, None]:
    """The carries that a loop changes where they lie."""
    body = Body.of(op, kept, ())
    known = dict.fromkeys((*body.carried, *body.scanned, *op.operands[op.carries + op.scanned :]))
    wanted = list(dict.fromkeys((*body.made, *[t for t, _ in body.rows])))
    updates = find_updates(body.may_be_in_place, wanted, known)
    taken = taken_carries(body, wanted, known, updates)
    results = [c.result for c in body.chains if c.result is not None]
    changed = {t: None for t in results if t.op in updates or t in taken}
    return {c.carries[0]: None for c in body.chains if c.result in changed}
