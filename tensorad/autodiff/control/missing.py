"""Functions of Python that derivatives flow through without a rule: all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorad.autodiff.control.activity import (
    active_inside,
    active_tensors,
    flowing,
    live_inside,
    live_tensors,
    within,
)
from tensorad.autodiff.local.flows import derivation_order
from tensorad.autodiff.local.overrides import Rules
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.tensor import Control, FunctionCall, Loop, Tensor, outputs


def check_complete(ys: Sequence[Tensor], wrt: Collection[Tensor], rules: Rules) -> None:
    """All functions that derivatives of some tensors by others flow through have some.

    Raises:
        GradError: foreign functions have none; it lists them all.
    """
    order = derivation_order(ys, rules)
    calls = [op for op in order if isinstance(op, Control)]
    if not any(isinstance(op, Foreign) for op in (*calls, *inner_ops(calls))):
        return
    missing = sorted(_missing(ys, wrt, rules), key=lambda op: op.born)
    found = dict.fromkeys([f"{op.function} at {op.source}" for op in missing])
    if found:
        one = len(found) == 1
        raise GradError(
            f"{len(found)} foreign function{'' if one else 's'} that derivatives flow through "
            f"{'has' if one else 'have'} no rule.",
            where=", ".join(found),
            hint="write ta.foreign(f, shapes, rule=ta.custom_rule(vjp=...)); ta.stop_gradient of "
            "what it is given says that there is no derivative.",
        )


def _missing(roots: Sequence[Tensor], start: Collection[Tensor], rules: Rules) -> list[Foreign]:
    """Those on a way from `start` to the roots."""
    order = derivation_order(roots, rules)
    active = active_tensors(order, start, rules, flowing)
    live, kept = live_tensors(roots, rules)
    found: list[Foreign] = []
    for op in order:
        moves = any(t in active and t in live and t not in rules for t in outputs(op))
        if isinstance(op, Foreign):
            found += [op] if moves else []
        elif isinstance(op, Control) and not (isinstance(op, FunctionCall) and op.rule):
            blocks = op.blocks[:1] if isinstance(op, Loop) else op.blocks
            inside = active_inside(op, active, rules)
            ends = live_inside(op, live, kept, rules)
            for block, own, inner in zip(blocks, inside, ends, strict=True):
                found += _missing(inner, own, within(block.params, rules))
    return found
