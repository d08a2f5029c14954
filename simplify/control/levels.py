"""Programs with blocks, level by level: what passes over them have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tensorad.ir.analysis.blocks import ops_between, saves_of, sizes_told
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Expr, const, read
from tensorad.ir.tensor import (
    Block,
    Compute,
    Control,
    Dim,
    Loop,
    Placeholder,
    Saved,
    Tensor,
    dim_of,
    outputs,
    saved,
)
from tensorad.simplify.formula.dataflow import over_inputs
from tensorad.simplify.index.intervals import interval

Image = Mapping[Tensor, Tensor]
Saves = Sequence[tuple[int, Tensor]]
"""What is saved of an operation: (block, tensor in it)."""
Given = Collection[Tensor]
"""Inputs or params: they stand for themselves, whatever formula they have."""


class Around(NamedTuple):
    """What a rule is told of the level that an operation stands in.

    Attributes:
        given: what is given there.
        counts: whether others use how often the operation, a loop that tells it, ran: they come
            after the loop because they read it.
    """

    given: Given
    counts: bool


Rule = Callable[[Control, Saves, Around], Sequence[Tensor]]
"""(operation, what is saved of it, level) -> tensors for its outputs, then for what is saved."""
Level = Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]
"""(results, what is given) -> results, computed by other operations; blocks are not entered."""


def values_of(op: Control, saves: Saves) -> list[Tensor]:
    """The outputs of an operation, and what is saved of it."""
    return [*outputs(op), *[saved(op, t, n) for n, t in saves]]


def inner_first(results: Sequence[Tensor], given: Sequence[Tensor], rule: Rule) -> list[Tensor]:
    """The results, operations with blocks replaced as a rule says, those in blocks before."""

    def inside(wanted: Sequence[Tensor], params: Sequence[Tensor]) -> Sequence[Tensor]:
        return inner_first(wanted, params, rule)

    def after(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        return rule(*over_blocks(op, saves, inside), around)

    return at_one_level(results, given, after)


def outer_first(results: Sequence[Tensor], given: Sequence[Tensor], level: Level) -> list[Tensor]:
    """The results, changed where they are computed, then in the blocks of the operations there."""

    def inside(wanted: Sequence[Tensor], params: Sequence[Tensor]) -> Sequence[Tensor]:
        return outer_first(wanted, params, level)

    def after(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        return values_of(*over_blocks(op, saves, inside))

    return at_one_level(level(results, given), given, after)


def at_one_level(results: Sequence[Tensor], given: Sequence[Tensor], rule: Rule) -> list[Tensor]:
    """The results, the operations of their level that have blocks replaced."""
    known = dict.fromkeys(given)
    ops = ops_between(results, known)
    kept = saves_of(ops)
    told = {t.op for loops in sizes_told(ops).values() for t in loops}
    image: dict[Tensor, Tensor] = {}
    for op in ops if any(isinstance(op, Control) for op in ops) else ():
        if isinstance(op, Saved):
            continue
        new = over_inputs(op, image)
        if new is op and not isinstance(op, Control):
            continue
        old, made = [*outputs(op)], [*outputs(new)]
        if isinstance(op, Control) and isinstance(new, Control):
            saves = kept.get(op, [])
            old += [outputs(s)[0] for s in saves]
            around = Around(known, op in told)
            made = [*rule(new, [(s.block, s.inner) for s in saves], around)]
        pairs = zip(old, made, strict=True)
        image.update({a: b for a, b in pairs if a is not b and a not in known})
    return [image.get(t, t) for t in results]


def over_blocks(op: Control, saves: Saves, inside: Level) -> tuple[Control, Saves]:
    """The operation over changed blocks, and what is saved of it then."""
    blocks: list[Block] = []
    found = list(saves)
    for n, block in enumerate(op.blocks):
        own = [k for k, (b, _) in enumerate(saves) if b == n]
        wanted = (*block.results, *[saves[k][1] for k in own])
        made = inside(wanted, block.params)
        results = tuple(made[: len(block.results)])
        same = all(a is b for a, b in zip(results, block.results, strict=True))
        blocks.append(block if same else replace(block, results=results))
        for k, t in zip(own, made[len(block.results) :], strict=True):
            found[k] = (n, t)
    if all(a is b for a, b in zip(blocks, op.blocks, strict=True)):
        return op, found
    return replace(op, blocks=tuple(blocks)), found


def in_place_of(wanted: Sequence[Tensor], image: Image, given: Given = ()) -> list[Tensor]:
    """Tensors of a block, computed from others in place of some.

    Args:
        given: params that stay.
    """
    found = dict(image)
    for op in ops_between(wanted, {**dict.fromkeys(given), **image}):
        new = over_inputs(op, found)
        if new is not op:
            pairs = zip(outputs(op), outputs(new), strict=True)
            found.update({a: b for a, b in pairs if a not in image and a not in given})
    return [found.get(t, t) for t in wanted]


def surely_runs(op: Loop) -> bool:
    """Whether a loop has an iteration, whatever the sizes and the data."""
    least = interval(op.trips).lo
    return least is not None and least > 0


def rows_of(t: Tensor, trips: Expr) -> Tensor:
    """A tensor once for each iteration."""
    axes = compute_axes((dim_of(trips), *t.shape))
    return outputs(Compute(t.name, axes, (read(t, axes[1:]),), ""))[0]


def without_values(t: Tensor, shape: Sequence[Dim] | None = None) -> Tensor:
    """What nobody reads."""
    axes = compute_axes(tuple(t.shape if shape is None else shape))
    return outputs(Compute(t.name, axes, (const(0, t.dtype),), ""))[0]


def like(t: Tensor) -> Tensor:
    """A param of a block for an operand."""
    return outputs(Placeholder(t.name, t.shape, t.dtype))[0]
