"""Calls nested deep in one another are written out before they are differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from tensorad.ir.analysis.blocks import block_ops
from tensorad.ir.tensor import Control, FunctionCall, Tensor
from tensorad.process import memo
from tensorad.simplify.control.levels import (
    Around,
    Given,
    Saves,
    at_one_level,
    over_blocks,
    values_of,
)
from tensorad.simplify.control.renew import is_open, renewed

MOST_NESTED: Final = 8
"""How deep calls may be nested in one another, and still have derivatives that are calls."""


def without_deep_calls(results: Sequence[Tensor], given: Given) -> list[Tensor]:
    """The results, calls that nest more than `MOST_NESTED` deep being what their blocks compute.

    The reverse of a call reads what is saved of all calls inside, each of which hands on what is
    saved further in: derivatives of n calls nested in one another have n^2 operations.
    Calls with rules and checkpoints stay what they are.
    """

    def opened(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        extra = [t for _, t in saves]
        if not isinstance(op, FunctionCall) or not _is_deep(op, extra):
            return values_of(op, saves)
        (block,) = op.blocks
        image = renewed(block, op.operands, extra, _is_deep)
        return [image.get(t, t) for t in (*block.results, *extra)]

    def inside(wanted: Sequence[Tensor], params: Sequence[Tensor]) -> Sequence[Tensor]:
        return without_deep_calls(wanted, dict.fromkeys(params))

    def entered(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        has_rule = isinstance(op, FunctionCall) and op.rule is not None
        if has_rule or depth(op) <= MOST_NESTED:
            return values_of(op, saves)
        return values_of(*over_blocks(op, saves, inside))

    known = tuple(given)
    return at_one_level(at_one_level(results, known, opened), known, entered)


def _is_deep(op: FunctionCall, kept: Sequence[Tensor]) -> bool:
    """Whether the call is one to be written out, of whose inside these are saved."""
    is_plain = type(op) is FunctionCall and op.rule is None
    return is_plain and depth(op) > MOST_NESTED and is_open(op, kept)


_depths: WeakKeyDictionary[Control, int] = memo(WeakKeyDictionary())


def depth(op: Control) -> int:
    """How many calls are nested in one another, with this one, through other blocks, too."""
    inside: dict[Control, list[Control]] = {}
    stack = [op]
    while stack:
        at = stack[-1]
        if at in _depths:
            stack.pop()
        elif at not in inside:
            every = [o for b in at.blocks for o in block_ops(b)]
            inside[at] = [o for o in every if isinstance(o, Control)]
            stack += inside[at]
        else:
            own = int(isinstance(at, FunctionCall))
            _depths[at] = own + max(map(_depths.__getitem__, inside[at]), default=0)
            stack.pop()
    return _depths[op]
