"""Loops that store some of their states, for all rows: the same states, each for all rows.

A stack of states has its places first and the rows behind, as the reverse of the loop reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from tensorad.batching.pieces import places_first
from tensorad.batching.rows import like
from tensorad.ir.analysis.blocks import block_ops
from tensorad.ir.tensor import Block, Loop, Replay, Scatter, Tensor, outputs
from tensorad.ir.visit import op_inputs

T = TypeVar("T")


def with_stacks(made: Loop, replay: Replay, differ: Collection[int]) -> Loop | None:
    """A loop over all rows, its stacks, (rows, places, *shape), as (places, rows, *shape); None if
    a stack is not what a state was stored in, in place.

    Args:
        replay: how states are computed again, for all rows.
        differ: the carries that differ from row to row.
    """
    n = replay.states
    places = [k for k in range(n, 2 * n) if k in differ]
    body = made.blocks[0]
    stacks = {body.params[k]: _exchanged_param(body.params[k]) for k in places}
    results = list(body.results)
    for k in places:
        stored = results[k].op
        if not isinstance(stored, Scatter) or stored.init is not body.params[k]:
            return None
        results[k] = _exchanged_scatter(stored, stacks[body.params[k]])
    if any(
        t in stacks for op in block_ops(Block(body.params, tuple(results))) for t in op_inputs(op)
    ):
        return None
    blocks = [Block(tuple([stacks.get(p, p) for p in body.params]), tuple(results))]
    for b in made.blocks[1:]:
        params = [_exchanged_param(p) if k in places else p for k, p in enumerate(b.params)]
        blocks.append(Block(tuple(params), b.results))
    operands = [places_first(t) if k in places else t for k, t in enumerate(made.operands)]
    return replace(made, operands=tuple(operands), blocks=tuple(blocks), replay=replay)


def _exchanged(values: tuple[T, ...]) -> tuple[T, ...]:
    return (values[1], values[0], *values[2:])


def _exchanged_param(p: Tensor) -> Tensor:
    return like(p, _exchanged(p.shape))


def _exchanged_scatter(op: Scatter, stack: Tensor) -> Tensor:
    updates = tuple([replace(u, indices=_exchanged(u.indices)) for u in op.updates])
    return outputs(replace(op, shape=_exchanged(op.shape), updates=updates, init=stack))[0]
