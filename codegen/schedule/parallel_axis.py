"""Which loop threads share: the outermost, or a longer one that goes there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.cost.parallel_work import PARALLEL_COST, SHARED_COST
from tensorad.codegen.loops.collapse import FEW_POINTS
from tensorad.codegen.nest.access import extent_of
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.ir.expr import Axis
from tensorad.ir.order import SIZE, occurs


def on_threads(nest: Nest, plan: Plan, lanes: int, cost: float, wanted: bool | None) -> Plan:
    """Several threads where the work is worth it; a longer axis goes first if need be.

    Where threads are not woken for it, the loops stay those of one thread.
    """
    order = list(plan.order)
    symbolic = _is_symbolic(nest)  # then a call decides by its sizes
    pays = cost >= SHARED_COST or symbolic
    if not order or not (pays if wanted is None else wanted):
        return plan
    light = wanted is None and cost < PARALLEL_COST and not symbolic

    def trips(a: Axis) -> int:
        step = plan.jam.get(a, 1)
        if a is plan.vector:
            step = plan.width or lanes
        return extent_of(a) // step

    if plan.rows_per_pass and order[0] is plan.vector:
        if light:
            return plan
        plan = replace(plan, rows_per_pass=0)
    moves = not plan.rows_per_pass and not light
    if trips(order[0]) < 8 and moves and not _becomes_long(nest, plan, trips):
        movable = [a for a in order if a is not plan.vector]
        longest = max(movable, key=trips, default=order[0])
        if trips(longest) > 2 * trips(order[0]):
            order = [longest, *[a for a in order if a is not longest]]
    if trips(order[0]) < 2 and not plan.rows_per_pass and not plan.strip:
        loops = [a for a in order if trips(a) > 1]  # a tile that takes all of an axis is no loop
        if loops and loops[0] is not plan.vector:
            order = [loops[0], *[a for a in order if a is not loops[0]]]
    if trips(order[0]) < 2 and not _becomes_long(nest, plan, trips):
        return plan
    return replace(plan, order=tuple(order), parallel=True)


def _becomes_long(nest: Nest, plan: Plan, trips: Callable[[Axis], int]) -> bool:
    """Whether the outer loops are enough for threads once they are one (`long_shared`)."""
    left = max([extent_product([*nest.axes, *f.axes]) for f in nest.folds], default=0.0)
    left = max(left, extent_product(nest.axes))
    total = 1
    for a in plan.order:
        if a is plan.vector or plan.jam.get(a, 1) > 1 or a.extent is None:
            return False
        alone = total == 1
        total *= trips(a)
        left /= max(1, trips(a))
        if left < FEW_POINTS and not alone:
            return False
        if total >= 8:
            return True
    return False


def _is_symbolic(nest: Nest) -> bool:
    bounds = [b for f in nest.folds for a in f.axes for b in (a.lower, a.upper)]
    bounds += [a.upper for a in nest.axes]
    return occurs(SIZE, *bounds)
