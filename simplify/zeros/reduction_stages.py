"""Reductions as stages of their own: a body without nested reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.ir.analysis.levels import first_component
from tensorad.ir.analysis.points import possible
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Const,
    Expr,
    Read,
    Reduce,
    axis,
    int_const,
    logical_and,
    read,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import (
    free_leaves,
    fresh_axes,
    needs,
    outside_reductions,
    rebuild,
    substitute,
)
from tensorad.simplify.bounds.reads import is_safe, size_conditions
from tensorad.simplify.certify.certificate import is_demanded, is_read_back
from tensorad.simplify.index.quasi_affine import axis_conditions, starts_at_zero
from tensorad.simplify.readback.compare import demand_stages
from tensorad.simplify.zeros.certified_steps import demand_stage
from tensorad.simplify.zeros.lift import both, is_index_condition, split_condition
from tensorad.simplify.zeros.projected_guards import own_part, reached
from tensorad.simplify.zeros.recorded_indices import with_recorded_indices
from tensorad.simplify.zeros.stored import stored_box
from tensorad.simplify.zeros.tested_indices import index_tests, otherwise_fail

_staged: WeakKeyDictionary[Compute, Compute | None] = WeakKeyDictionary()
"""None for what stays as it is: an entry must not keep its own key alive."""


def is_read(e: Expr) -> bool:
    """Whether the node reads a tensor."""
    return isinstance(e, Read)


def extract_reductions(op: Compute) -> Compute:
    """op -> the same compute whose bodies are free of nested reductions.

    A body that *is* a reduction keeps it, if no other body has it inside; every other reduction
    becomes a compute of its own over just the axes it depends on. Returns `op` itself if there
    is nothing to extract.
    """
    if op not in _staged:
        bodies = _extract_all(op)
        same = all(a is b for a, b in zip(bodies, op.bodies, strict=True))
        if is_read_back():
            for old, new in zip(op.bodies, bodies, strict=True):
                if new is not old:
                    demand_stages(op.axes, old, new)
        _staged[op] = None if same else replace(op, bodies=bodies)
    return _staged[op] or op


def _extract_all(op: Compute) -> tuple[Expr, ...]:
    stages: dict[Expr, Compute] = {}
    bodies: list[Expr] = []
    for body in op.bodies:
        if not isinstance(body, Reduce):
            bodies.append(_extract(op, body, op.axes, stages))
        elif any(occurs(REDUCE, s) for s in (*body.sources, body.condition)):
            context = (*op.axes, *body.axes)
            condition = _extract(op, body.condition, context, stages)
            sources = tuple([_extract(op, s, context, stages, condition) for s in body.sources])
            bodies.append(reduce_expr(body.combiner, sources, body.axes, condition, body.index))
        else:
            bodies.append(body)
    for n, body in enumerate(op.bodies):
        if isinstance(body, Reduce) and first_component(body) in stages:
            stage = stages[first_component(body)]
            bodies[n] = _at(stage, body.index, _used_axes(body, op.axes))
    return tuple(bodies)


def _extract(
    op: Compute,
    root: Expr,
    context: Sequence[Axis],
    stages: dict[Expr, Compute],
    where: Expr = TRUE,
) -> Expr:
    """`root`, evaluated where a condition holds, with its reductions read from stages."""
    if not occurs(REDUCE, root):
        return root
    guards = _guards(root, where)
    new: dict[Expr, Expr] = {}
    for e in outside_reductions((root,)):
        if isinstance(e, Reduce):
            new[e] = _stage_read(op, e, _settled(guards[e], new), context, stages)
        else:
            new[e] = rebuild(e, new)
    return new[root]


def _guards(root: Expr, where: Expr) -> dict[Expr, Expr]:
    """When each node outside reductions is evaluated: the selects around it."""

    def narrow(guard: Expr, side: Expr) -> Expr:
        return _nested(guard, both(*split_condition(side)))

    outside = both(*split_condition(where))
    return needs((root,), outside_reductions((root,)), narrow, where=outside)


def _settled(guard: Expr, staged: Mapping[Expr, Expr]) -> Expr:
    """A guard whose reductions are read from their stages; TRUE where one has none yet.

    A guard is evaluated before what it guards, so its reductions come first, unless the
    guarded node is needed under several guards.
    """
    settled = substitute(guard, {e: r for e, r in staged.items() if isinstance(e, Reduce)})
    return TRUE if occurs(REDUCE, settled) else settled


def _nested(outer: Expr, inner: Expr) -> Expr:
    """inner, evaluated only where outer holds."""
    if outer is TRUE or inner is TRUE:
        return logical_and(outer, inner)
    if occurs(READ | REDUCE, inner):
        return select(outer, inner, FALSE)
    return logical_and(outer, inner)


def _stage_read(
    op: Compute,
    e: Reduce,
    guard: Expr,
    context: Sequence[Axis],
    stages: dict[Expr, Compute],
) -> Expr:
    used = _used_axes(e, context)
    own = own_part(guard, used) if _is_joint(op) else TRUE
    stage = _stage(op, _where(e, logical_and(own, e.condition)), used, stages)
    if guard is TRUE or is_safe(stage):
        return _at(stage, e.index, used)
    return _guarded_stage_read(op, e, guard, context, stages, stage)


def _guarded_stage_read(
    op: Compute,
    e: Reduce,
    guard: Expr,
    context: Sequence[Axis],
    stages: dict[Expr, Compute],
    stage: Compute,
) -> Expr:
    """The same for a reduction whose reads leave their tensors where the guard does not hold.

    Its stage has more axes than the reduction only if nothing else keeps the reads inside.
    """
    used = _used_axes(e, context)
    index = possible(guard)
    guarded = _where(e, logical_and(index, _nested(guard, e.condition)))
    around = _used_axes(guarded, context)
    if len(around) > len(used):
        somewhere = reached(index, used, context)
        condition = own_part(guard, used) if somewhere is None else somewhere
        narrow = _where(e, logical_and(condition, e.condition))
        if somewhere is not None and is_index_condition(guard):
            stage = _stage(op, narrow, used, stages)
            if not size_conditions(stage):
                return _at(stage, e.index, used)
        tests = index_tests(e, stage)
        if tests:
            tested = both(narrow.condition, [t.inside for t in tests])
            stage = _stage(op, _where(e, tested), used, stages)
            if is_safe(stage):
                return otherwise_fail(_at(stage, e.index, used), tests)
        found = with_recorded_indices(narrow, _stage(op, narrow, used, stages))
        if found is not None:
            stage = _stage(op, found.fold, used, stages)
            if is_safe(stage):
                places = [
                    _at(stage, n, used) for n in range(e.combiner.arity, found.fold.combiner.arity)
                ]
                test = found.test(places, e.dtype)
                return otherwise_fail(_at(stage, e.index, used), [test])
    return _at(_stage(op, guarded, around, stages), e.index, around)


def _where(e: Reduce, condition: Expr) -> Reduce:
    """The reduction under another condition."""
    e = reduce_expr(e.combiner, e.sources, e.axes, condition, e.index)
    assert isinstance(e, Reduce)
    return e


def _at(stage: Compute, component: int, axes: Sequence[Axis]) -> Read:
    """The stage over these axes, read at their values."""
    return read(outputs(stage)[component], tuple([sub(a, _box(stage.name, a)[0]) for a in axes]))


def _is_joint(op: Compute) -> bool:
    """Whether all bodies evaluate the same things: one body, or the components of one fold."""
    folds = [first_component(e) for e in op.bodies if isinstance(e, Reduce)]
    return len(op.bodies) == 1 or (
        len(folds) == len(op.bodies) and all(f is folds[0] for f in folds)
    )


def _used_axes(e: Reduce, context: Sequence[Axis]) -> list[Axis]:
    """The axes around the reduction that it depends on, outermost first."""
    free = free_leaves(e)
    needed: dict[Expr, None] = dict.fromkeys([a for a in context if a in free])
    for a in reversed(context):  # bounds of needed axes may need axes further out
        if a in needed and not _is_plain(a):
            needed.update(free_leaves(a.lower, a.upper, a.step))
    return [a for a in context if a in needed]


def _stage(op: Compute, e: Reduce, used: Sequence[Axis], stages: dict[Expr, Compute]) -> Compute:
    key = first_component(e)
    if key not in stages:
        made = _make_stage(op, e, used)
        if is_demanded():
            demand_stage(used, [_box(op.name, a)[0] for a in used], e, made)
        stages[key] = extract_reductions(made)
    return stages[key]


def _is_plain(a: Axis) -> bool:
    """Whether the axis runs over [0, n) with n a number or of sizes only."""
    return starts_at_zero(a) and not free_leaves(a.upper)


def _is_counted(a: Axis) -> bool:
    """Whether the axis runs over [lower, upper), numbers with values between: its own box."""
    first, end = a.lower, a.upper
    counted = isinstance(first, Const) and isinstance(end, Const) and a.step is int_const(1)
    return counted and (first < end) is TRUE


def _box(name: str, a: Axis) -> tuple[Expr, Expr]:
    """Where a stage's axis begins, and its extent."""
    return (int_const(0), a.upper) if _is_plain(a) else stored_box(name, a)


def _make_stage(op: Compute, e: Reduce, used: Sequence[Axis]) -> Compute:
    """A compute over the box of the used axes; points outside their bounds are switched off.

    Raises:
        GradError: no size bounds one of them.
    """
    new: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    guard: Expr = TRUE
    for a in used:
        start, extent = _box(op.name, a)
        axes.append(axis(a.name, 0, extent))
        new[a] = axes[-1] + start
        if not _is_plain(a) and not _is_counted(a):
            guard = logical_and(guard, substitute(axis_conditions(a), new))
    new = fresh_axes(e.axes, new)
    inner = tuple([b for b in (new[a] for a in e.axes) if isinstance(b, Axis)])
    sources = tuple([substitute(s, new) for s in e.sources])
    condition = logical_and(guard, substitute(e.condition, new))
    bodies = tuple(
        [reduce_expr(e.combiner, sources, inner, condition, n) for n in range(e.combiner.arity)]
    )
    return Compute(f"{op.name}.{e.combiner.name}", tuple(axes), bodies, op.source)
