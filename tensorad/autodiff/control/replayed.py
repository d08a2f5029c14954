"""Carries of a loop's iterations, computed again from those that the loop stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorad.autodiff.control.pieces import unread
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.snapshots import (
    count_free,
    first_row,
    last_number,
    row,
    scalar,
    with_row,
)
from tensorad.ir.expr import call, int_const, local_size, logical_and, read, select
from tensorad.ir.tensor import (
    Block,
    Compute,
    FunctionCall,
    Loop,
    Placeholder,
    Replay,
    Tensor,
    outputs,
)

Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Replayed:
    """What a reversed block has for the states before an iteration.

    Attributes:
        carries: params that it carries, with the first ones. results: the next ones.
        fixed: params that stay, with what they stand for.
        states: the loop's params -> their values.
    """

    carries: Pairs = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    fixed: Pairs = field(default_factory=list)
    states: Mapping[Tensor, Tensor] = field(default_factory=dict)


def replayed(op: Loop, replay: Replay) -> Replayed:
    """The states before the iteration of a loop's counter, from the row with the last state before
    it: states on the way are stored in rows that are free, where `split` says."""
    made, params, n = outputs(op), op.blocks[0].params, replay.states
    kept = [(unread(t), t) for t in made[n : 2 * n + 1]]
    fixed = [(params[k], op.operands[k]) for k in replay.fixed]
    rows, numbers = [p for p, _ in kept[:-1]], kept[-1][0]
    last = op.trips - 1 - op.counter if op.reverse else op.counter
    target = scalar("target", last)
    number = last_number(numbers, replay.rows)
    at = first_row(numbers, replay.rows, lambda k: call("eq", k, read(number, ())))
    first = [*rows, numbers, at, number, count_free(numbers, replay.rows)]
    *rows, numbers, at, _, _ = outputs(_stages(replay, first, target, [p for p, _ in fixed]))
    states = [row(r, at, p.name) for r, p in zip(rows, params, strict=False)]
    axes = compute_axes(numbers.shape)
    left = select(call("eq", axes[0], read(at, ())), int_const(-1), read(numbers, axes))
    numbers = outputs(Compute("numbers", axes, (left,), ""))[0]
    return Replayed(kept, [*rows, numbers], fixed, dict(zip(params, states, strict=False)))


def _stages(
    replay: Replay, first: Sequence[Tensor], target: Tensor, fixed: Sequence[Tensor]
) -> Loop:
    """From stored state to stored state, until that of an iteration is there.

    Args:
        first: rows, numbers, the row and the number of the state to go on from, how many are free.
    """
    trips = local_size("stages")
    own = [outputs(Placeholder(t.name, t.shape, t.dtype))[0] for t in first]
    *rows, numbers, at, number, free = own
    goal = unread(target)
    outside = [*fixed, target]
    bound = [unread(t) for t in fixed]
    left = scalar("left", read(goal, ()) + 1 - read(number, ()))
    steps = split_formula(left, scalar("rows", read(free, ()) + 1))
    now = [row(r, at, p.name) for r, p in zip(rows, replay.advance.params[2:], strict=False)]
    operands = (number, steps, *now, *bound)
    names = tuple([t.name for t in now])
    later = outputs(FunctionCall(names, operands, (replay.advance,), source="", function="advance"))
    after = scalar("number", read(number, ()) + read(steps, ()))
    stays = call("eq", read(after, ()), read(goal, ()))
    empty = first_row(numbers, replay.rows, lambda k: k < 0)
    to = scalar("row", select(stays, int_const(replay.rows), read(empty, ())))
    used = select(read(to, ()) < replay.rows, int_const(1), int_const(0))
    results = [
        *[with_row(r, to, t) for r, t in zip(rows, later, strict=True)],
        with_row(numbers, to, after), to, after, scalar("free", read(free, ()) - used),
    ]  # fmt: skip
    test = scalar("on", read(number, ()) < read(goal, ()))
    params = (*own, *bound, goal)
    return Loop(
        tuple([t.name for t in first]), (*first, *outside),
        (Block(params, tuple(results)), Block(params, (test,))), source="",
        counter=local_size("stage", trips), trips=trips, carries=len(first),
    )  # fmt: skip


def split_formula(steps: Tensor, rows: Tensor) -> Tensor:
    """`snapshots.split` of 0-d integers that only the run knows."""
    trips = local_size("repetitions")
    start = [scalar("r", int_const(0)), scalar("reach", int_const(1))]
    own = [unread(t) for t in (*start, steps, rows)]
    r, reach, n, s = [read(t, ()) for t in own]
    results = (scalar("r", r + 1), scalar("reach", reach * (s + r + 1) // (r + 1)))
    test = scalar("on", logical_and(s > 1, reach < n))
    params = tuple(own)
    found = Loop(
        ("r", "reach"), (*start, steps, rows), (Block(params, results), Block(params, (test,))),
        source="", counter=local_size("repetition", trips), trips=trips, carries=2,
    )  # fmt: skip
    r, reach, n, s = [read(t, ()) for t in (*outputs(found), steps, rows)]
    before = reach * r // (s + r)
    best = call("minimum", before, n - before * s // call("maximum", s + r - 1, int_const(1)))
    return scalar("steps", select(s > 1, best, n - 1))
