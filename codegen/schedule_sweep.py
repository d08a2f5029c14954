"""Scans and scatters: the order along some axes is fixed, the others are free."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.access import guarded_unsafe
from tensorad.codegen.loopir import Assign, Fold, For, Kernel, LoopKind, Stmt, Store
from tensorad.codegen.loopnest import Nest
from tensorad.codegen.lower_parts import lower_update, scan_parts
from tensorad.codegen.schedule_emit import emit_nest
from tensorad.codegen.schedule_plan import PARALLEL_COST, extent_product, plan_nest
from tensorad.ir.elementwise import compute_axes
from tensorad.ir.expr import Axis, Reduce, read
from tensorad.ir.tensor import Scan, Scatter, Tensor
from tensorad.ir.visit import free_leaves, op_expressions, op_inputs, postorder

STRIP = 64
"""Lanes one thread takes at a time where the parallel axis is also the vector axis."""


def schedule_scan(op: Scan, live: tuple[Tensor, ...]) -> Kernel:
    """Lanes along the last axis unless the scan runs there; rows on several threads."""
    parts = scan_parts(op)
    fold = Fold(parts.state, op.combiner, parts.sources)
    store = Store(live, parts.indices, tuple([parts.state[t.index] for t in live]))
    step: tuple[Stmt, ...] = (store, fold) if op.exclusive else (fold, store)
    body: tuple[Stmt, ...] = (
        Assign(parts.state, op.combiner.identity),
        For(parts.along, step),
    )
    lane = parts.others[-1] if parts.others and op.axis != len(op.shape) - 1 else None
    loops = free_loops(parts.others, lane, extent_product([*parts.others, parts.along]), body)
    return Kernel(op.name, loops, live, tuple(op_inputs(op)))


def schedule_scatter(op: Scatter, out: Tensor) -> Kernel:
    """The fill in lanes; updates free along axes that index the output directly."""
    axes = compute_axes(op.shape)
    start = op.combiner.identity[0] if op.init is None else read(op.init, axes)
    fill = Nest(axes, (), (out,), axes, (start,))
    free = _free_axes(op)
    lane = free[-1] if free and _fits_lanes(op, free[-1]) else None
    updates = tuple([s for u in op.updates for s in lower_update(op, u, out)])
    for a in reversed([a for a in op.axes if a not in free]):
        updates = (For(a, updates),)
    outside = [a for a in op.axes if a in free]
    loops = free_loops(outside, lane, extent_product(op.axes), updates)
    body = (*emit_nest(fill, plan_nest(fill)), *loops)
    return Kernel(op.name, body, (out,), tuple(op_inputs(op)))


def _free_axes(op: Scatter) -> dict[Axis, None]:
    """Axes along which no two points write the same element: each is an output index itself."""
    free: dict[Axis, None] = {}
    bounds = free_leaves(*[b for a in op.axes for b in (a.lower, a.upper, a.step)])
    for a in op.axes:
        places = [{d for d, i in enumerate(u.indices) if i is a} for u in op.updates]
        if a not in bounds and places and set.intersection(*places):
            free[a] = None
    return free


def _fits_lanes(op: Scatter, a: Axis) -> bool:
    """Whether conditions are the same in all lanes and reads are safe in each."""
    if any(isinstance(e, Reduce) for e in postorder(*op_expressions(op))):
        return False
    if a in free_leaves(*[u.condition for u in op.updates]):
        return False
    return not any(guarded_unsafe((u.value,), op.axes, guarded=False) for u in op.updates)


def free_loops(
    axes: Sequence[Axis], lane: Axis | None, points: float, body: tuple[Stmt, ...]
) -> tuple[Stmt, ...]:
    """Independent loops around `body`: the lane axis innermost, the first on several threads."""
    if lane is not None:
        body = (For(lane, body, "vector"),)
    rest = [a for a in axes if a is not lane]
    for a in reversed(rest):
        wide = a is rest[0] and points * 4 > PARALLEL_COST
        kind: LoopKind = "parallel" if wide else "serial"
        body = (For(a, body, kind),)
    return body


