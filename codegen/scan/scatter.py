"""Scatters: updates of one element keep their order, all others are free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.cost.parallel_work import SHARED_COST
from tensorad.codegen.directives import Choices, may_vectorise
from tensorad.codegen.loops.index_ranges import Ranges, fold_by_ranges, substitutor
from tensorad.codegen.loops.ir import For, If, Kernel, LoopKind, Stmt
from tensorad.codegen.loops.rewrite import rewrite, serial
from tensorad.codegen.model import PAGE, WAYS
from tensorad.codegen.nest.access import guarded_unsafe
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.scan.parts import lower_point
from tensorad.codegen.scan.scatter_ranges import indirect_row, shared_by_rows
from tensorad.codegen.schedule.emit import emit_nest, strips
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.target import machine
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Axis, Const, Expr, add, axis, int_const, mul, read
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Scatter, Tensor
from tensorad.ir.visit import free_leaves, op_expressions, op_inputs

LEAST_STRIP = 8
"""Lanes that are worth what their points have in common, which each strip computes anew."""
STRIP = 64
"""Lanes a thread takes at a time where the axis of the threads is also that of the lanes."""


def schedule_scatter(op: Scatter, out: Tensor, choices: Choices) -> Kernel:
    """The fill, vectorised; updates free along axes that index the output directly."""
    axes = compute_axes(op.shape)
    start = op.combiner.identity[0] if op.init is None else read(op.init, axes)
    fill = Nest(axes, (), (out,), axes, (start,))
    updates, scratch = schedule_updates(op, out, choices)
    body = (*emit_nest(fill, plan_nest(fill, choices)), *updates)
    return Kernel(op.name, body, (out,), tuple(op_inputs(op)), scratch)


def schedule_updates(
    op: Scatter, out: Tensor, choices: Choices
) -> tuple[tuple[Stmt, ...], tuple[Tensor, ...]]:
    """The loops over a scatter's points, and scratch that they need.

    Lanes and threads where no two write one element.
    """
    body = lower_point(op, out)
    if not occurs(REDUCE, *op_expressions(op)):
        ranges, memo = Ranges(op.axes), dict[Expr, Expr]()
        body = _mapped(body, lambda e: fold_by_ranges(e, ranges, memo))
    free = _free_axes(op)
    points = extent_product(op.axes)
    able = [a for a in reversed(op.axes) if a in free and _is_vectorisable(op, a)]
    lane = next((a for a in able if may_vectorise(choices, a)), None)
    outside = [a for a in op.axes if a in free and a is not lane and _is_outermost(a)]
    moved = dict.fromkeys(outside if lane is None else (*outside, lane))
    ordered = [a for a in op.axes if a not in moved]
    wide = wants_threads(points, choices.parallel)
    apart = conflict_free_strip(op, lane) if lane is not None and _is_outermost(lane) else 0
    if lane is not None and apart:
        outer = axis(f"{lane.name}o", 0, (lane.extent or 0) // apart)
        inner = axis(lane.name, 0, apart)
        here = add(lane.lower, add(mul(int_const(apart), outer), inner))
        body = (For(inner, _mapped(body, substitutor({lane: here})), "vector"),)
        longest = sorted((*outside, outer), key=lambda a: a.extent == 1)
        return free_loops(longest, points, serial(ordered, body), choices.parallel), ()
    near = _near(op, outside) if lane is None and ordered else None
    if near is not None:
        others = [a for a in outside if a is not near]
        shared = not others and wide
        outer, inner = strips(near, STRIP) if shared else (near, near)
        body = serial([*ordered, inner], _mapped(body, substitutor({near: inner})))
        if shared:
            return (For(outer, body, "parallel"),), ()
        return free_loops(others, points, body, choices.parallel), ()
    if lane is not None and not outside and _is_outermost(lane) and wide:
        row = indirect_row(op, lane)
        if row is not None and len(ordered) == 1:
            loop, scratch = shared_by_rows(out, row, ordered[0], For(lane, body, "vector"))
            return (loop,), tuple(scratch)
        outer, inner = strips(lane, STRIP)
        body = serial(ordered, (For(inner, _mapped(body, substitutor({lane: inner})), "vector"),))
        return (For(outer, body, "parallel"),), ()
    if lane is not None:
        body = (For(lane, body, "vector"),)
    return free_loops(outside, points, serial(ordered, body), choices.parallel), ()


def conflict_free_strip(op: Scatter, lane: Axis) -> int:
    """Into strips of how many lanes an axis is cut whose rows share places of the first cache.

    Rows a multiple of a large power of two apart have few places there: with 32 lanes on as many
    planes of 4 kB every update fetches its line from the second cache. 0: none, or not evenly.
    """
    stride = 0
    for u in op.updates:
        at = max(d for d, i in enumerate(u.indices) if i is lane)
        behind = [n for n in op.shape[at + 1 :] if isinstance(n, int)]
        if len(behind) < len(op.shape) - at - 1:
            return 0
        stride = gcd(stride, prod(behind) * op.dtype.size_bytes)
    if stride == 0 or stride % machine.current().line or lane.extent is None:
        return 0
    kept = WAYS * (PAGE // gcd(stride, PAGE))
    if lane.extent <= kept:
        return 0
    return max(
        [n for n in range(LEAST_STRIP, kept + 1, LEAST_STRIP) if lane.extent % n == 0], default=0
    )


def _near(op: Scatter, free: Sequence[Axis]) -> Axis | None:
    """The free axis that walks along the output's last dimension: its loop goes inside."""
    if occurs(REDUCE, *op_expressions(op)):
        return None
    last = [a for a in free if all(u.indices[-1] is a for u in op.updates)]
    return last[0] if last else None


def _mapped(body: tuple[Stmt, ...], image: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """Updates, every expression replaced; settled guards disappear."""

    def guard(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, If) or not isinstance(s.cond, Const):
            return None
        return s.then if s.cond.value else s.orelse

    return rewrite(body, guard, image)


def _free_axes(op: Scatter) -> dict[Axis, None]:
    """Axes along which no two points write the same element: each is an output index itself."""
    free: dict[Axis, None] = {}
    bounds = free_leaves(*[b for a in op.axes for b in (a.lower, a.upper, a.step)])
    for a in op.axes:
        places = [{d for d, i in enumerate(u.indices) if i is a} for u in op.updates]
        if a not in bounds and places and set.intersection(*places):
            free[a] = None
    return free


def _is_outermost(a: Axis) -> bool:
    """Whether no other axis decides the bounds, so that the loop may stand outside of all."""
    return not any(isinstance(e, Axis) for e in free_leaves(a.lower, a.upper, a.step))


def _is_vectorisable(op: Scatter, a: Axis) -> bool:
    """Whether conditions are the same in all lanes and reads are safe in each."""
    if not isinstance(a.step, Const) or a.step.value != 1:
        return False
    if occurs(REDUCE, *op_expressions(op)):
        return False
    if a in free_leaves(*[u.condition for u in op.updates]):
        return False
    return not any(
        guarded_unsafe((*u.indices, u.value, u.condition), op.axes, guarded=False)
        for u in op.updates
    )


def wants_threads(points: float, wanted: bool | None) -> bool:
    """Whether loops over so many points run on several threads."""
    return points * 4 > SHARED_COST if wanted is None else wanted


def free_loops(
    axes: Sequence[Axis], points: float, body: tuple[Stmt, ...], parallel: bool | None
) -> tuple[Stmt, ...]:
    """Independent loops around `body`, the first on several threads where that pays."""
    for a in reversed(axes):
        wide = a is axes[0] and wants_threads(points, parallel)
        kind: LoopKind = "parallel" if wide else "serial"
        body = (For(a, body, kind),)
    return body
