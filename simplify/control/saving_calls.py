"""A call of a function and one that saves what the function's derivative reads are one call."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.expr import Expr
from tensorad.ir.records import Definition, Recursion
from tensorad.ir.tensor import Control, Tensor, outputs
from tensorad.simplify.control.levels import Around, Saves, at_one_level, values_of

Call = tuple[Definition, tuple[Tensor, ...], tuple[Expr, ...]]
"""A definition and what it is called with."""


def share_saving_calls(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """The results, where a call whose results another one has, and more, is that one.

    A function's value and its gradient in one program call the function twice, written down apart:
    once for the value, once to save.
    """
    found = list(results)
    while longest := _longest(found, given):

        def shared(
            op: Control, saves: Saves, around: Around, more: dict[Call, Recursion] = longest
        ) -> Sequence[Tensor]:
            if not isinstance(op, Recursion) or _call(op) not in more:
                return values_of(op, saves)
            other = more[_call(op)]
            return outputs(other)[: len(outputs(op))]

        changed = at_one_level(found, given, shared)
        if all(a is b for a, b in zip(changed, found, strict=True)):
            break
        found = changed
    return found


def _longest(results: Sequence[Tensor], given: Sequence[Tensor]) -> dict[Call, Recursion]:
    """For calls of one level: another one, of the same operands, that has more results."""
    calls = [op for op in ops_between(results, dict.fromkeys(given)) if isinstance(op, Recursion)]
    more: dict[Call, Recursion] = {}
    for op in calls:
        base = op.definition.extends
        while base is not None:
            key = _call(op, base)
            if key not in more or len(more[key].names) < len(op.names):
                more[key] = op
            base = base.extends
    return {key: more[key] for op in calls if (key := _call(op)) in more}


def _call(op: Recursion, definition: Definition | None = None) -> Call:
    return definition or op.definition, op.operands, op.sizes
