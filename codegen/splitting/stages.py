"""Stage splitting: reductions that depend on fewer axes than their body are stored once."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.nest.access import guarded_unsafe
from tensorad.codegen.nest.folds import FoldLoop, component, fold_loops
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Reduce,
    logical_and,
    read,
)
from tensorad.ir.order import READ, REDUCE, occurs, reads
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import (
    conjuncts,
    copy_bodies,
    free_leaves,
    needs,
    outside_reductions,
    substitute,
    substitute_all,
)

Stage = tuple[tuple[Axis, ...], tuple[Expr, ...]]
"""Axes and bodies."""


def split_stages(op: Compute) -> tuple[list[Compute], tuple[Expr, ...]]:
    """New computes for reductions that save work as tensors of their own, and the bodies left.

    A reduction alone at the top stays. Inner reductions are split before the outer ones.
    """
    order = outside_reductions(op.bodies)
    if not any(isinstance(e, Reduce) for e in order):
        return [], op.bodies
    stages: list[Compute] = []
    bodies = _split_nested(op, op.bodies, op.axes, stages, TRUE)
    return stages, _split_level(op, bodies, op.axes, stages, TRUE)


def _split_nested(
    op: Compute,
    roots: tuple[Expr, ...],
    axes: tuple[Axis, ...],
    stages: list[Compute],
    guard: Expr,
) -> tuple[Expr, ...]:
    """Roots with the reductions inside their reductions' sources replaced by reads."""
    order = outside_reductions(roots)
    replaced: dict[Expr, Expr] = {}
    for fold, need in fold_loops(order, needs(roots, order)):
        if not occurs(REDUCE, *fold.sources):
            continue
        inside = (*axes, *fold.axes)
        holds = logical_and(guard, need, fold.condition)
        sources = _split_nested(op, fold.sources, inside, stages, holds)
        sources = _split_level(op, sources, inside, stages, holds)
        if all(a is b for a, b in zip(sources, fold.sources, strict=True)):
            continue
        changed = FoldLoop(fold.combiner, sources, fold.axes, fold.condition, fold.accumulators)
        for index in range(fold.combiner.arity):
            replaced[component(fold, index)] = component(changed, index)
    return substitute_all(roots, replaced)


def _split_level(
    op: Compute,
    roots: tuple[Expr, ...],
    axes: tuple[Axis, ...],
    stages: list[Compute],
    guard: Expr,
) -> tuple[Expr, ...]:
    """Roots with their outermost reductions replaced by reads where that saves work."""
    order = outside_reductions(roots)
    if not any(isinstance(e, Reduce) for e in order):
        return roots
    need = needs(roots, order)
    loops = fold_loops(order, need)
    replaced: dict[Expr, Expr] = {}
    alone = axes is op.axes and _exclude_each_other([fold.condition for fold, _ in loops])
    for fold, condition in loops:
        made = _stage(op, fold, axes, logical_and(guard, condition), alone)
        if made is None:
            continue
        stage, where = made
        stages.append(stage)
        for t in outputs(stage):
            replaced[component(fold, t.index)] = read(t, where)
    return substitute_all(roots, replaced)


def _exclude_each_other(conditions: Sequence[Expr]) -> bool:
    """Whether at most one of the conditions holds at a point: each wants another number."""
    if len(conditions) == 1:
        return True
    wanted = [_numbers(c) for c in conditions]
    common = [a for a in wanted[0] if all(a in w for w in wanted)]
    return any(len({w[a] for w in wanted}) == len(wanted) for a in common)


def _numbers(condition: Expr) -> dict[Expr, object]:
    """The axes that a condition wants to be numbers."""
    found: dict[Expr, object] = {}
    for e in conjuncts(condition):
        if isinstance(e, Call) and e.op == "eq":
            a, value = e.args
            if isinstance(a, Axis) and isinstance(value, Const):
                found[a] = value.value
    return found


def _stage(
    op: Compute, fold: FoldLoop, axes: Sequence[Axis], guard: Expr, alone: bool
) -> tuple[Compute, tuple[Expr, ...]] | None:
    """The stage of one fold and the indices it is read at; None where it would not help."""
    used = free_leaves(component(fold, 0))
    own = [a for a in axes if a in used]
    missing = [a for a in axes if a not in used and a.extent != 1]
    if alone and not missing:
        return None
    if not missing and len(axes) > len(op.axes):
        return None
    if not missing and len(fold.axes) and all((a.extent or 9) < 8 for a in fold.axes):
        return None
    if not all(_is_range(a) for a in own):
        return None
    condition = fold.condition
    if guard is not TRUE:
        guard = substitute(guard, {a: a.lower for a in axes if a not in used and a.extent == 1})
        inside = free_leaves(guard)
        plain = not occurs(READ | REDUCE, guard)
        if plain and not any(a in inside for a in missing):
            condition = logical_and(guard, condition)
        elif guarded_unsafe(fold.sources, [*own, *fold.axes], guarded=True):
            return None
    changed = FoldLoop(fold.combiner, fold.sources, fold.axes, condition, fold.accumulators)
    bodies = tuple([component(changed, n) for n in range(fold.combiner.arity)])
    fresh, copies = copy_bodies(own, bodies)
    stage = Compute(f"{op.name}.{fold.combiner.name}", fresh, copies, op.source)
    return stage, tuple(own)


def stage_uses(stages: Sequence[Compute], bodies: Sequence[Expr]) -> set[Tensor]:
    """The stage tensors that the bodies need."""
    used = {e.tensor for e in reads(*bodies)}
    for s in reversed(stages):
        used |= {e.tensor for e in reads(*[s.bodies[t.index] for t in outputs(s) if t in used])}
    return used


def _is_range(a: Axis) -> bool:
    """[0, n) by one, n free of axes: the axis of a tensor."""
    closed = not any(isinstance(e, Axis) for e in free_leaves(a.upper))
    return a.lower is ZERO and a.step is ONE and closed
