"""Decides a nest's plan: the vectorised axis, the order, the register tile and the threads.

Plans of folds fix the order of sums: they are estimated for a `Model`, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod

from tensorad.codegen.cost.cache_traffic import Estimate, best_order, bytes_moved, extent_product
from tensorad.codegen.cost.memory_model import BYTES_PER_CYCLE
from tensorad.codegen.cost.operation_costs import cost_of, operations
from tensorad.codegen.directives import OPEN, Choices, is_part, preferred, reordered
from tensorad.codegen.loops.index_ranges import Ranges, among
from tensorad.codegen.model import MODEL, Model
from tensorad.codegen.nest.access import (
    Access,
    extent_of,
    fold_accesses,
    outer_accesses,
    unsafe_reads,
)
from tensorad.codegen.nest.ir import Nest, fold_groups
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.parallel_axis import on_threads
from tensorad.codegen.schedule.register_loads import (
    crowding,
    has_little_reuse,
    loaded,
    paging,
    rows_of_pass,
)
from tensorad.codegen.schedule.sums_in_memory import can_sum_in_memory
from tensorad.codegen.schedule.transpose import (
    EXCHANGED,
    collected_singly,
    crossing_axis,
    strip_width,
    tile_lanes,
)
from tensorad.ir.combiner import Combiner, per_combiner
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import ONE, Axis, Call, Const, Expr, Select
from tensorad.ir.visit import children, free_leaves, postorder

ROW_PASS_OPERATIONS = 8
"""Operations per term from which one row is enough for a pass."""
UNROLLED_STEPS = 12
"""Most fold steps written out for short constant reduce axes."""
UNROLLED_FOLDS = 64
"""Most folds written out, over all copies of a register tile."""
WRITTEN_NODES = 3000
"""Expression nodes written out for one register tile, about: it bounds compile time."""
FAIR_SHARE = 0.3
"""Part of the operations that are the same along a short axis from which it is written out."""
JAM_FACTORS = (1, 2, 3, 4, 5, 6, 8)
VECTOR_COMBINERS = ("add", "mul", "maximum", "minimum", "or", "and")


def can_vectorise_fold(c: Combiner) -> bool:
    """Whether lanes may fold apart: one component, a commutative and associative operation."""
    if c.arity != 1:
        return False
    x, y, result = c.lhs[0], c.rhs[0], c.results[0]
    if not isinstance(result, Call) or result.op not in VECTOR_COMBINERS:
        return False
    both = all(any(a is p for a in result.args) for p in (x, y))
    return both and _is_identity(result.op, c.identity[0])


def _is_identity(op: str, identity: Const) -> bool:
    dtype = identity.dtype
    wanted = {
        "add": 0,
        "mul": 1,
        "maximum": dtype.lowest if dtype is not BOOL else False,
        "minimum": dtype.highest if dtype is not BOOL else True,
        "or": False,
        "and": True,
    }[op]
    return identity.value == wanted


def plan_nest(nest: Nest, choices: Choices = OPEN) -> Plan:
    """The plan of a nest, as far as possible with the choices.

    Ensures: conditions and bounds inside a vector loop do not vary by lane, except conditions
    that may be evaluated in every lane.
    """
    if nest.folds:
        return _plan_folds(nest, choices, MODEL)
    return _plan_elementwise(nest, choices, MODEL)


def lanes_of_nest(nest: Nest, model: Model) -> int:
    """Elements per register: by the widest folded or stored dtype.

    Whole numbers that are stored after a fold take more registers, once, than there are lanes.
    """
    folded = [p.dtype for f in nest.folds for p in f.accumulators]
    stored = [t.dtype for t in nest.tensors if t.dtype.is_float or not folded]
    return model.lanes(max(d.size_bytes for d in [*folded, *stored]))


def _unit(stride: int | None, lanes: int) -> float:
    """Cost of one register's worth of an access."""
    if stride == 0:
        return 0.6
    if stride in (1, -1):
        return 1.0
    if stride is not None and abs(stride) <= 4:
        return 0.5 * lanes
    return 1.0 * lanes


def _filled(extent: int, step: int) -> float:
    """The share of useful lanes or copies when `extent` is covered in steps."""
    return extent / (step * ceil(extent / step)) if extent else 1.0


def _plan_elementwise(nest: Nest, choices: Choices, model: Model) -> Plan:
    if not nest.axes:
        return Plan(())
    lanes = lanes_of_nest(nest, model)
    accesses = outer_accesses(nest)
    best: tuple[float, Axis | None] = (0.0, None)
    if choices.vector is not False and not unsafe_reads(nest):
        costs = []
        for position, a in preferred(list(enumerate(nest.axes)), choices.vector):
            units = [_unit(x.stride(a), lanes) for x in accesses]
            if not choices.tile and crossing_axis(nest, a, accesses, choices) is not None:
                units = [min(u, EXCHANGED) for u in units]
            cost = sum(units) + 0.5
            costs.append((cost / _filled(extent_of(a), lanes), -position, a))
        cost, _, a = min(costs, key=lambda c: c[:2])
        best = (cost, a)
    vector = best[1]
    rows, vectors = choices.tile or (model.accumulators, 0)
    jam = _replicated(nest, vector, rows)
    order = [a for a in nest.axes if a is not vector and a not in jam]
    order += [a for a in nest.axes if a in jam and a is not vector]
    if vector is not None:
        order.insert(len(order) - len(jam), vector)
    strip = 0
    across = None if choices.tile or jam else crossing_axis(nest, vector, accesses, choices)
    if across is not None and vector is not None:
        jam = {across: tile_lanes(nest)}
        strip = strip_width(nest, across, vector, accesses, choices)
        order = [*[a for a in order if a is not across and a is not vector], across, vector]
    width = lanes * vectors if vector is not None else 0
    plan = Plan(reordered(order, vector, choices.order), vector, width, jam, strip=strip)
    together = 1 if vector is None else lanes
    cost = extent_product(nest.axes) * (len(accesses) + operations(nest.values)) / together
    cost = max(cost, bytes_moved(nest) / BYTES_PER_CYCLE)
    return on_threads(nest, plan, lanes_of_nest(nest, model), cost, choices.parallel)


def preferred_axis(nest: Nest, model: Model) -> Axis | None:
    """The output axis that would be best vectorised if nothing stood in its way."""
    lanes = lanes_of_nest(nest, model)
    accesses = [*outer_accesses(nest), *fold_accesses(nest)]
    costs = [
        (
            sum(_unit(x.stride(a), lanes) for x in accesses) / _filled(extent_of(a), lanes),
            -position,
            a,
        )
        for position, a in enumerate(nest.axes)
    ]
    return min(costs, key=lambda c: c[:2])[2] if costs else None


def _replicated(nest: Nest, vector: Axis | None, rows: int) -> dict[Axis, int]:
    """Short axes along which something stays the same, a read or a fair share of the
    operations: their values are written out beside each other, and that is computed once."""
    jam: dict[Axis, int] = {}
    most = min(rows, most_copies(nest))
    for a in nest.axes:
        if a is vector or vector is None or a.extent is None or len(nest.axes) < 2:
            continue
        reads = outer_accesses(nest)[len(nest.tensors) :]
        copies = prod(jam.values()) * a.extent
        alike = a.extent <= 4 and copies <= 8 and any(a not in x.uses for x in reads)
        if copies <= most and (alike or _shared_share(nest, a, vector) >= FAIR_SHARE):
            jam[a] = a.extent
    return jam


def _shared_share(nest: Nest, a: Axis, vector: Axis) -> float:
    """Which part of the vectorised operations does not depend on an axis."""
    every = [e for e in postorder(*nest.values) if isinstance(e, Call) and e.dtype.is_float]
    lanes = [e for e in every if vector in free_leaves(e)]
    same = sum([cost_of(e).cycles for e in lanes if a not in free_leaves(e)])
    return same / max(1.0, sum([cost_of(e).cycles for e in lanes]))


def _plan_folds(nest: Nest, choices: Choices, model: Model) -> Plan:
    unroll = _unrolled(nest) if choices.unroll is not False else frozenset()
    best = _best(
        list(_estimates(nest, unroll, choices, model)), choices, lanes_of_nest(nest, model)
    )
    order = reordered(best_order(nest, best, model), best.vector, choices.order)
    if choices.unroll:
        unroll = _movable(nest, set(unroll) - {best.vector}, best.vector)
    else:
        unroll = _affordable(nest, unroll, best)
    plan = _with_sums_in_memory(
        nest, Plan(order, best.vector, best.width, best.jam, unroll), choices, model
    )
    if choices.tile is None:
        plan = collected_singly(nest, plan, lanes_of_nest(nest, model))
    steps = sum(extent_product([*nest.axes, *f.axes]) for f in nest.folds)
    cost = max(steps * best.cost, bytes_moved(nest) / BYTES_PER_CYCLE)
    return on_threads(nest, plan, lanes_of_nest(nest, model), cost, choices.parallel)


def _with_sums_in_memory(nest: Nest, plan: Plan, choices: Choices, model: Model) -> Plan:
    """The plan with its lanes inside of the reduce loops, where rows are long and read once.

    Then no other output axis may lie inside of the lanes.
    """
    lane = plan.vector
    if choices.rows is False or choices.order is not None:
        return plan
    if not plan.order or plan.order[-1] is not lane or plan.jam or not can_sum_in_memory(nest):
        return plan
    last = {f.axes[-1]: None for f in nest.folds}
    reads = [x for x in fold_accesses(nest) if any(a in x.uses for a in last)]
    steps = [x.stride(lane) for x in reads]
    if any(n not in (0, 1, -1) for n in steps) or not any(steps):
        return plan
    if not choices.rows and extent_of(lane) < 4 * max(plan.width, lanes_of_nest(nest, model)):
        return plan
    if any(a in plan.unroll for f in nest.folds for a in f.axes):
        return plan
    heavy = operations([s for f in nest.folds for s in f.sources]) >= ROW_PASS_OPERATIONS
    return replace(
        plan, rows_per_pass=min(1 if heavy else rows_of_pass(reads, lane), most_copies(nest))
    )


def _best(estimates: Sequence[Estimate], choices: Choices, lanes: int) -> Estimate:
    """The cheapest estimate; with a tile the largest that fits in it, in the same lanes."""
    named = [e for e in estimates if e.vector is not None and is_part(e.vector, choices.vector)]
    best = min(named or estimates, key=lambda e: e.cost)
    if choices.tile is None or best.vector is None:
        return best
    rows, vectors = choices.tile
    fitting = [
        e
        for e in estimates
        if e.vector is best.vector and prod(e.jam.values()) <= rows and e.width <= vectors * lanes
    ]
    return min(fitting, key=lambda e: (-prod(e.jam.values()), -e.width, e.cost))


def _unrolled(nest: Nest) -> frozenset[Axis]:
    """Short constant reduce axes at the inner end of their fold."""
    found: set[Axis] = set()
    for f in nest.folds:
        steps = 1
        used: dict[Expr, None] = {}
        for a in reversed(f.axes):
            steps *= a.extent or UNROLLED_STEPS + 1
            if steps > UNROLLED_STEPS or a in used:
                break
            found.add(a)
            used.update(free_leaves(a.lower, a.upper, a.step))
    return frozenset(found)


def _affordable(nest: Nest, unroll: frozenset[Axis], choice: Estimate) -> frozenset[Axis]:
    """Those unrolled axes, innermost first, that the register tile leaves room for."""
    most = min(UNROLLED_FOLDS, most_copies(nest))
    kept: set[Axis] = set()
    for f in nest.folds:
        steps = prod(choice.jam.values())
        switched = free_leaves(f.condition, *[e for e in postorder(*f.sources) if e.dtype is BOOL])
        for a in reversed(f.axes):
            steps *= a.extent or 1
            fits = steps <= most or a in switched
            if a in unroll and a is not choice.vector and fits:
                kept.add(a)
    return _movable(nest, kept, choice.vector)


def _movable(nest: Nest, unroll: set[Axis], vector: Axis | None) -> frozenset[Axis]:
    """Those of the axes that may stand inside of all loops that are left."""
    left = dict.fromkeys(unroll)
    changed = True
    while changed:
        changed = False
        for f in nest.folds:
            free_order = can_vectorise_fold(f.combiner)
            for position, a in enumerate(f.axes):
                inside = [b for b in f.axes[position + 1 :] if b not in left and b is not vector]
                needed = free_leaves(*[x for b in inside for x in (b.lower, b.upper, b.step)])
                if a in left and inside and (a in needed or not free_order):
                    del left[a]
                    changed = True
    return frozenset(left)


def most_copies(nest: Nest) -> int:
    """How often what is evaluated per point may be written out."""
    roots = [s for f in nest.folds for s in f.sources] or [*nest.values]
    return max(1, WRITTEN_NODES // len(postorder(*roots, *nest.indices)))


def _estimates(
    nest: Nest, unroll: frozenset[Axis], choices: Choices, model: Model
) -> Iterator[Estimate]:
    """Every sensible choice with its cost per fold step."""
    reads = fold_accesses(nest)
    work = max(1, operations([s for f in nest.folds for s in f.sources]))
    combining = [_combining(f.combiner) for f in nest.folds]
    busiest = work + sum(cycles for cycles, _ in combining)
    latency = model.mask_cycles * max([masks for _, masks in combining], default=0)
    components = sum(len(f.accumulators) for f in nest.folds)
    lanes = lanes_of_nest(nest, model)
    written = [a for a in unroll if a.extent]
    steps = max(1.0, min([extent_product(f.axes) for f in nest.folds], default=1.0))
    yield Estimate(4.0 + len(reads) + work, None, 0, {})
    if choices.vector is False:
        return
    tile = choices.tile or (0, 0)
    few_uses = has_little_reuse(nest, model)
    ranges = Ranges([*nest.axes, *[a for f in nest.folds for a in f.axes]])
    short = all(a in unroll for f in nest.folds for a in f.axes)
    for vector in vector_candidates(nest):
        if unsafe_reads(nest, vector):
            continue
        inside = not among(vector, nest.axes)
        extent = extent_of(vector, ranges)
        strides_ = [_unit(x.stride(vector), lanes) if vector in x.uses else 0.6 for x in reads]
        far = 1.0 if inside else paging(reads, vector)
        around = 0.0 if inside else _outer_cost(nest, vector, lanes) / steps
        for registers in sorted({1, 2, 4, max(1, tile[1])}):
            if registers > 1 and extent <= lanes * (registers // 2):
                continue
            if inside and vector in unroll and extent < lanes:
                continue
            filled = _filled(extent, lanes * registers)
            room = model.accumulators // (registers * components)
            for jam in _jams(nest, reads, vector, room, tile):
                copies = prod(jam.values())
                together = [registers if vector in x.uses else 1 for x in reads]
                each = loaded(reads, jam, written, together, model.held)
                loads = sum(unit * n for unit, n in zip(strides_, each, strict=True))
                busy = copies * registers * busiest
                chain = max(model.step_cycles * components, latency)
                if not inside and short:
                    chain /= max(1.0, model.in_flight / (steps * copies * registers))
                cost = max(loads * 0.5, busy, chain) + 0.15 * loads + 0.5 / len(unroll or (1,))
                if inside:
                    cost += copies * registers * 12.0 * lanes / steps
                share = filled * prod(_filled(extent_of(a), f) for a, f in jam.items())
                per_step = far * (cost / (copies * registers) + around) / (lanes * share)
                if few_uses:
                    per_step *= crowding(reads, jam)
                yield Estimate(per_step, vector, lanes * registers, jam)


@per_combiner
def _combining(c: Combiner) -> tuple[float, int]:
    """(cycles of work, masks that wait for each other) of a step beside its source's operations.

    A vectorised fold's operation is one instruction, counted with the source. Masks are
    combined by the comparisons that make them, and two instructions start at a time.
    """
    if can_vectorise_fold(c):
        return 0.0, 0
    depth: dict[Expr, int] = {}
    count = 0
    for e in postorder(*c.results):
        if not isinstance(e, (Call, Select)):
            continue
        free = isinstance(e, Call) and e.op == "not"
        before = max([depth.get(x, 0) for x in children(e)], default=0)
        depth[e] = before + (not free)
        count += not (isinstance(e, Call) and e.op in ("and", "or", "not"))
    return count / 2, max(depth.values(), default=0)


def _outer_cost(nest: Nest, vector: Axis, lanes: int) -> float:
    return sum(_unit(x.stride(vector), lanes) for x in outer_accesses(nest))


def vector_candidates(nest: Nest) -> list[Axis]:
    """Axes whose lanes agree on all bounds inside; a reduce axis only where lanes may fold."""
    bounds = [b for f in nest.folds for a in f.axes for b in (a.lower, a.upper, a.step)]
    used = free_leaves(*bounds)
    output = [a for a in nest.axes if a not in used and a.step is ONE]
    if len(fold_groups(nest)) == 1 and all(
        f.merge is not None or can_vectorise_fold(f.combiner) for f in nest.folds
    ):
        output += [a for a in nest.folds[0].axes if a not in used and a.step is ONE]
    return output


def _jams(
    nest: Nest, reads: Sequence[Access], vector: Axis, copies: int, tile: tuple[int, int]
) -> Iterator[dict[Axis, int]]:
    """Register tiles over at most two output axes along which some read stays the same."""
    yield {}
    fixed = free_leaves(
        *(b for f in nest.folds for a in f.axes for b in (a.lower, a.upper, a.step)),
        *(f.condition for f in nest.folds),
    )
    reduced = [a for f in nest.folds for a in f.axes]
    streams = [x for x in reads if any(a in x.uses for a in reduced)]  # others are hoisted
    able = [
        a
        for a in nest.axes
        if a is not vector
        and a not in fixed
        and a.step is ONE
        and any(a not in x.uses for x in streams)
        and any(a in x.uses for x in reads)
    ]
    able = sorted(able, key=lambda a: -min(extent_of(a), 8))[:4]
    most = min(max(copies, tile[0]), most_copies(nest))
    for position, a in enumerate(able):
        for f in _factors(a, tile[0]):
            if 1 < f <= most:
                yield {a: f}
        for b in able[position + 1 :]:
            for f, g in product(_factors(a, 0), _factors(b, 0)):
                if f > 1 and g > 1 and f * g <= most:
                    yield {a: f, b: g}


def _factors(a: Axis, wanted: int) -> Sequence[int]:
    return [f for f in sorted({*JAM_FACTORS, max(1, wanted)}) if f <= extent_of(a)]
