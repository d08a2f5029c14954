"""Reductions as stages of their own: a body without nested reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.ir.expr import (
    TRUE,
    Axis,
    Const,
    Expr,
    Reduce,
    axis,
    int_const,
    logical_and,
    read,
    reduce_expr,
    sub,
)
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import (
    any_node,
    children,
    free_leaves,
    fresh_axes,
    rebuild,
    substitute,
)
from tensorad.simplify.affine import axis_conditions
from tensorad.simplify.intervals import interval

_staged: WeakKeyDictionary[Compute, Compute] = WeakKeyDictionary()


def is_reduce(e: Expr) -> bool:
    """Whether the node is a reduction."""
    return isinstance(e, Reduce)


def extract_reductions(op: Compute) -> Compute:
    """op -> the same compute whose bodies are free of nested reductions.

    A body that *is* a reduction keeps it; every other reduction becomes a compute of its own
    over just the axes it depends on. Returns `op` itself if there is nothing to extract.
    """
    if op not in _staged:
        bodies = _extract_all(op)
        same = all(a is b for a, b in zip(bodies, op.bodies, strict=True))
        _staged[op] = op if same else replace(op, bodies=bodies)
    return _staged[op]


def _extract_all(op: Compute) -> tuple[Expr, ...]:
    stages: dict[tuple[object, ...], Compute] = {}
    bodies: list[Expr] = []
    for body in op.bodies:
        if not isinstance(body, Reduce):
            bodies.append(_extract(op, body, op.axes, stages))
        elif any(any_node(s, is_reduce) for s in (*body.sources, body.condition)):
            context = (*op.axes, *body.axes)
            sources = tuple([_extract(op, s, context, stages) for s in body.sources])
            condition = _extract(op, body.condition, context, stages)
            bodies.append(reduce_expr(body.combiner, sources, body.axes, condition, body.index))
        else:
            bodies.append(body)
    return tuple(bodies)


def _extract(
    op: Compute, root: Expr, context: Sequence[Axis], stages: dict[tuple[object, ...], Compute]
) -> Expr:
    """`root` with its outermost reductions read from stages."""
    if not any_node(root, is_reduce):
        return root
    new: dict[Expr, Expr] = {}
    for e in outside_reductions(root):
        if isinstance(e, Reduce):
            new[e] = _stage_read(op, e, context, stages)
        else:
            new[e] = rebuild(e, new)
    return new[root]


def outside_reductions(root: Expr) -> list[Expr]:
    """Post-order of the nodes that are not below a reduction."""
    done: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        below = () if isinstance(e, Reduce) else children(e)
        missing = [c for c in below if c not in done]
        if e in done or not missing:
            done[e] = None
            stack.pop()
        else:
            stack.extend(reversed(missing))
    return list(done)


def _stage_read(
    op: Compute, e: Reduce, context: Sequence[Axis], stages: dict[tuple[object, ...], Compute]
) -> Expr:
    key = (e.combiner, e.sources, e.axes, e.condition)
    free = free_leaves(e)
    needed = dict.fromkeys([a for a in context if a in free])
    for a in reversed(context):  # bounds of needed axes may need axes further out
        if a in needed and not _is_plain(a):
            needed.update(dict.fromkeys(free_leaves(a.lower, a.upper, a.step)))  # type: ignore[arg-type]
    used = [a for a in context if a in needed]
    if key not in stages:
        stages[key] = extract_reductions(_make_stage(op, e, used))
    stage = stages[key]
    indices = tuple([sub(a, _box_start(a)) for a in used])
    return read(outputs(stage)[e.index], indices)


def _is_plain(a: Axis) -> bool:
    """Whether the axis runs over [0, n) with n a number or of sizes only."""
    return (
        isinstance(a.lower, Const)
        and a.lower.value == 0
        and isinstance(a.step, Const)
        and a.step.value == 1
        and not free_leaves(a.upper)
    )


def _box_start(a: Axis) -> Expr:
    if _is_plain(a):
        return int_const(0)
    low = interval(a).lo
    return a.lower if low is None else int_const(low)


def _box_extent(a: Axis) -> Expr:
    if _is_plain(a):
        return a.upper
    bounds = interval(a)
    if bounds.lo is None or bounds.hi is None:
        return sub(a.upper, a.lower)
    return int_const(max(0, bounds.hi - bounds.lo + 1))


def _make_stage(op: Compute, e: Reduce, used: Sequence[Axis]) -> Compute:
    """A compute over the box of the used axes; points outside their bounds are switched off."""
    new: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    guard: Expr = TRUE
    for a in used:
        axes.append(axis(a.name, 0, _box_extent(a)))
        new[a] = axes[-1] + _box_start(a)
        if not _is_plain(a):
            guard = logical_and(guard, substitute(axis_conditions(a), new))
    new = fresh_axes(e.axes, new)
    inner = tuple([b for b in (new[a] for a in e.axes) if isinstance(b, Axis)])
    sources = tuple([substitute(s, new) for s in e.sources])
    condition = logical_and(guard, substitute(e.condition, new))
    bodies = tuple(
        [reduce_expr(e.combiner, sources, inner, condition, n) for n in range(e.combiner.arity)]
    )
    return Compute(f"{op.name}.{e.combiner.name}", tuple(axes), bodies, op.source)
