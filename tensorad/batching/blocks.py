"""Calls, and branches and loops that all rows go through together: their blocks with an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tensorad.batching.dependence import of_control
from tensorad.batching.level import Level
from tensorad.batching.pieces import iterations_first, rows_first
from tensorad.batching.replays import with_stacks
from tensorad.batching.rows import like
from tensorad.batching.rules import RowsRule
from tensorad.ir.analysis.blocks import op_sizes
from tensorad.ir.expr import Expr, LocalSize, Size, local_size
from tensorad.ir.tensor import (
    Block,
    Branch,
    Control,
    FunctionCall,
    Loop,
    Saved,
    Tensor,
    dim_expr,
    outputs,
    saved,
)


@dataclass(frozen=True)
class Inside:
    """A block with an axis.

    Attributes:
        level: images of what is in it.
        params: its params, but for those of sizes.
        sizes: params with the sizes that differ from row to row.
    """

    level: Level
    params: tuple[Tensor, ...]
    sizes: tuple[Tensor, ...]

    def block(self, results: Sequence[Tensor], differ: Collection[int]) -> Block:
        """The block of these results, of which some have the axis."""
        of = [
            self.level.spread(t) if k in differ else self.level.of(t) for k, t in enumerate(results)
        ]
        return Block((*self.params, *self.sizes), tuple(of))


def inside(
    params: Sequence[Tensor], differ: Collection[int], used: Sequence[Size], level: Level
) -> Inside:
    """The level of a block of which some params, by their numbers, have the axis.

    Args:
        used: sizes that differ from row to row, of which the block is told.
    """
    found = level.empty()
    found.told = None  # what is in the block comes after it
    made: list[Tensor] = []
    for k, p in enumerate(params):
        shape = level.shape(p.shape)
        if k in differ:
            made.append(like(p, (level.rows, *shape)))
            found.image[p] = made[-1]
        elif any(a is not b for a, b in zip(shape, p.shape, strict=True)):
            made.append(like(p, shape))
            found.plain[p] = made[-1]
        else:
            made.append(p)
            found.plain[p] = p
    for s in used:
        found.each[s] = like(level.each[s], (level.rows,))
    return Inside(found, tuple(made), tuple(found.each.values()))


def through(op: Control, level: Level, kept: Sequence[Saved]) -> None:
    """Images of the outputs of a call or branch, and of what is saved of it, where all rows take
    the same arm."""
    moved = of_control(op, kept, level.moving())
    first = isinstance(op, Branch)
    operands = op.operands[first:]
    differ = [k for k, t in enumerate(operands) if t in level.image]
    used = level.used(op)
    with_axis = [k for k, t in enumerate(outputs(op)) if t in moved]
    key = (*[(b.params, b.results) for b in op.blocks], tuple(differ), level.rows)
    again = not kept and not any(s in level.most for s in op_sizes(op))
    blocks = level.calls.get(key) if again else None
    levels: list[Level] = []
    if blocks is None:
        made_blocks = []
        for n, block in enumerate(op.blocks):
            own = inside(block.params, differ, used, level)
            own.level.run(own.level, (*block.results, *[s.inner for s in kept if s.block == n]))
            made_blocks.append(own.block(block.results, with_axis))
            levels.append(own.level)
        blocks = tuple(made_blocks)
        if again:
            level.calls[key] = blocks
    given = [*map(level.of, op.operands), *[level.each[s] for s in used]]
    made = replace(op, operands=tuple(given), blocks=blocks)
    if isinstance(op, FunctionCall) and op.rule is not None and (differ or used):
        rows = RowsRule(op, tuple(differ), replace(level.empty(), calls={}, differing={}))
        made = replace(op, operands=made.operands, blocks=made.blocks, rule=rows.rule)
    keep_outputs(op, made, with_axis, level)
    for s in kept:
        t, own_level = outputs(s)[0], levels[s.block]
        if t in moved:
            level.image[t] = saved(made, own_level.spread(s.inner), s.block)
        else:
            level.plain[t] = saved(made, own_level.of(s.inner), s.block)


def keep_outputs(op: Control, made: Control, with_axis: Collection[int], level: Level) -> None:
    """Images of outputs."""
    for k, (old, new) in enumerate(zip(outputs(op), outputs(made), strict=False)):
        images = level.image if k in with_axis else level.plain
        images.setdefault(old, new)


def loop(op: Loop, level: Level, kept: Sequence[Saved], differ: Collection[int]) -> None:
    """Images of the outputs of a loop in which all rows have as many iterations, and of what is
    saved of it.

    Args:
        differ: the carries that have the axis.
    """
    moved = of_control(op, kept, level.moving())
    last = op.carries + op.scanned
    own = {k: None for k in range(op.carries, len(op.operands)) if op.operands[k] in level.image}
    own |= dict.fromkeys(differ)
    used = level.used(op)
    around, trips, counter = _counted(op, level)
    body = inside(op.blocks[0].params, own, used, around)
    numbers = [k for k in range(len(op.operands)) if not op.carries <= k < last]
    tested = [n for n, k in enumerate(numbers) if k in own]
    tests = [inside(b.params, tested, used, around) for b in op.blocks[1:]]
    body.level.run(body.level, (*op.blocks[0].results, *[s.inner for s in kept]))
    blocks = [body.block(op.blocks[0].results, differ)]
    for test, block in zip(tests, op.blocks[1:], strict=True):
        test.level.run(test.level, block.results)
        blocks.append(test.block(block.results, ()))
    given = [_operand(op, k, k in own, level) for k in range(len(op.operands))]
    made = replace(
        op, operands=(*given, *[level.each[s] for s in used]), blocks=tuple(blocks),
        count=None if op.count is None else level.of(op.count), trips=trips, counter=counter,
        replay=None,
    )  # fmt: skip
    stacks = _with_replay(op, made, around, differ, own) if not used else None
    if stacks is not None and op.replay is not None:
        made = stacks
        for k in [k for k in range(op.replay.states, 2 * op.replay.states) if k in differ]:
            level.image.setdefault(outputs(op)[k], rows_first(outputs(made)[k]))
    keep_outputs(op, made, differ, level)
    for s in kept:
        (t,) = outputs(s)
        if t in moved:
            level.stacked[t] = saved(made, body.level.spread(s.inner))
            level.image[t] = rows_first(level.stacked[t])
        else:
            level.plain[t] = saved(made, body.level.of(s.inner))


def _with_replay(
    op: Loop, made: Loop, level: Level, differ: Collection[int], own: Collection[int]
) -> Loop | None:
    """The loop for all rows with a replay for all rows, if it has one that can be."""
    if op.replay is None:
        return None
    states, advance = op.replay.states, op.replay.advance
    moved = [2 + k for k in range(states) if k in differ]
    moved += [2 + states + n for n, k in enumerate(op.replay.fixed) if k in own]
    inner = inside(advance.params, moved, (), level)
    inner.level.run(inner.level, advance.results)
    block = inner.block(advance.results, differ)
    return with_stacks(made, replace(op.replay, advance=block), differ)


def _counted(op: Loop, level: Level) -> tuple[Level, Expr, LocalSize]:
    """The level around, with the loop's number of iterations and its counter there; a new counter
    where the number is another expression."""
    trips = level.extent(op.trips)
    if trips is op.trips:
        return level, op.trips, op.counter
    new = dim_expr(trips)
    counter = local_size(op.counter.label, new)
    return replace(level, most={**level.most, op.counter: counter}), new, counter


def _operand(op: Loop, k: int, differs: bool, level: Level) -> Tensor:
    t = op.operands[k]
    if not differs:
        return level.of(t)
    if not op.carries <= k < op.carries + op.scanned:
        return level.spread(t)
    return level.stacked[t] if t in level.stacked else iterations_first(level.spread(t))
