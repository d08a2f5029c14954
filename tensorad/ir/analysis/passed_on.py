"""Params that calls inside of a definition hand on as they are: the same value in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensorad.ir.analysis.blocks import block_ops, saves_of
from tensorad.ir.records import Definition, Recursion
from tensorad.ir.tensor import Block, Branch, Control, FunctionCall, Loop, Tensor


class _Call(NamedTuple):
    """A call inside of a definition: for each operand the number of the param that it is."""

    definition: Definition
    params: tuple[int | None, ...]


def passed_on(definition: Definition) -> tuple[int, ...]:
    """The numbers of params that have one value in a call and in all calls that it leads to.

    Of definitions that call each other a param is handed on if each call among them gives it what
    is such a param of the caller. None are where a definition is still being written down.
    """
    calls = _reached(definition)
    if calls is None:
        return ()
    group = _that_call(definition, calls)
    found = {d: set(range(len(d.params))) for d in group}
    inside = [(d, c) for d in group for c in calls[d] if c.definition in found]
    changed = True
    while changed:
        changed = False
        for caller, call in inside:
            lost = [k for k in found[call.definition] if call.params[k] not in found[caller]]
            found[call.definition].difference_update(lost)
            changed = changed or bool(lost)
    return tuple(sorted(found.get(definition, range(len(definition.params)))))


def _reached(definition: Definition) -> dict[Definition, list[_Call]] | None:
    """The calls in a definition, and in those that it leads to; None: not all are known yet."""
    found: dict[Definition, list[_Call]] = {}
    stack = [definition]
    while stack:
        d = stack.pop()
        if d in found:
            continue
        if not d.is_complete:
            return None
        found[d] = _calls(d.block)
        stack += [c.definition for c in found[d]]
    return found


def _that_call(
    definition: Definition, calls: Mapping[Definition, Sequence[_Call]]
) -> dict[Definition, None]:
    """Those that lead to a definition."""
    callers: dict[Definition, list[Definition]] = {}
    for d, own in calls.items():
        for c in own:
            callers.setdefault(c.definition, []).append(d)
    found: dict[Definition, None] = {}
    stack = [definition]
    while stack:
        for d in callers.get(stack.pop(), []):
            if d not in found:
                found[d] = None
                stack.append(d)
    return found


def _calls(block: Block) -> list[_Call]:
    """The calls in the block of a definition, and in blocks inside."""
    found: list[_Call] = []
    start = {p: k for k, p in enumerate(block.params)}
    stack: list[tuple[Block, Sequence[Tensor], Mapping[Tensor, int]]] = [(block, (), start)]
    while stack:
        at, extra, numbers = stack.pop()
        ops = block_ops(at, extra)
        kept = saves_of(ops)
        for op in ops:
            if isinstance(op, Recursion):
                found.append(_Call(op.definition, tuple([numbers.get(t) for t in op.operands])))
            elif isinstance(op, Control):
                for n, b in enumerate(op.blocks):
                    own = [s.inner for s in kept.get(op, ()) if s.block == n]
                    stack.append((b, own, _numbers(op, b, numbers)))
    return found


def _numbers(op: Control, block: Block, outside: Mapping[Tensor, int]) -> dict[Tensor, int]:
    """The numbers of params of a block inside: of what stays the same there."""
    operands: Sequence[Tensor] = op.operands
    params: Sequence[Tensor] = block.params
    match op:
        case Branch():
            operands = operands[1:]
        case Loop():
            moving = op.carries + op.scanned
            operands = operands[moving:]
            params = params[len(params) - len(operands) :]  # a condition has no scanned ones
        case FunctionCall():
            pass
        case _:
            return {}
    pairs = zip(params, operands, strict=True)
    return {p: outside[t] for p, t in pairs if t in outside}
