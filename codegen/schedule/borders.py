"""Thin border pieces run inside the loops of the piece they surround.

A border along the vectorised axis is a column: alone it walks through all of memory again, one
line per element. Within the core's outer loops its lines are at hand, and so few elements need
no lanes. Every element is computed as in a loop of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.codegen.cost.cache_traffic import bytes_moved, extent_product
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.loops.ir import For, LoopKind, Stmt
from tensorad.codegen.nest.access import extent_of
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.nest_plan import Plan, PlannedPieces
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import TRUE, Axis

THIN = 6
"""All borders that lose their lanes have at most this part of the core's points."""
FEW_RUNS = 8
"""Runs of the shared loops that several threads should find."""


def emit_bordered(planned: PlannedPieces, choices: Choices) -> tuple[Stmt, ...] | None:
    """One loop nest for the core and the borders that share its loops, then the other pieces.

    None where that is not better.
    """
    decided = choices.borders is None and (choices.vector is not None or choices.order is not None)
    if len(planned) < 2 or choices.borders is False or decided:
        return None
    if any(p.rows_per_pass for _, p in planned):
        return None
    core, plan = max(planned, key=lambda p: extent_product(p[0].axes))
    shared = _shared(planned, core, plan)
    large = 2 * bytes_moved(core) > machine.current().l2
    if not shared or not (large or choices.borders):
        return None
    members = tuple([p for p in planned if _has(p[0], shared)])
    strided = [p for p in members if p[0] is not core and _loses_vector_axis(p[1], shared)]
    if any(f.condition is not TRUE for nest, _ in strided for f in nest.folds):
        return None  # lanes and single elements add what a condition leaves out differently
    points = extent_product(core.axes)
    thin = THIN * sum(extent_product(n.axes) for n, _ in strided) <= points
    parallel = plan.parallel and extent_of(shared[0]) >= FEW_RUNS
    pays = strided and thin and parallel == plan.parallel
    if not pays and not choices.borders:
        return None
    note(
        Decision(core.tensors, "borders inside the loops of the core", "their lines are read once")
    )
    body: list[Stmt] = []
    for nest, own in members:
        body.extend(emit_nest(*_inside(nest, own, shared)))
    for depth, a in reversed(list(enumerate(shared))):
        kind: LoopKind = "parallel" if parallel and depth == 0 else "serial"
        body = [For(a, tuple(body), kind)]
    for nest, own in planned:
        if not _has(nest, shared):
            body.extend(emit_nest(nest, own))
    return tuple(body)


def _shared(planned: PlannedPieces, core: Nest, plan: Plan) -> list[Axis]:
    """Output axes of the core, in its order: those of every piece, or else of its borders."""
    free = [a for a in plan.order if a is not plan.vector and a not in plan.jam]
    found = [a for a in free if all(among(a, nest.axes) for nest, _ in planned)]
    if found:
        return found
    borders = [n for n, p in planned if n is not core and _loses_vector_axis(p, free)]
    return [a for a in free if borders and all(among(a, n.axes) for n in borders)]


def _has(nest: Nest, shared: Sequence[Axis]) -> bool:
    return all(among(a, nest.axes) for a in shared)


def _loses_vector_axis(plan: Plan, shared: Sequence[Axis]) -> bool:
    return plan.vector is not None and among(plan.vector, shared)


def _inside(nest: Nest, plan: Plan, shared: Sequence[Axis]) -> tuple[Nest, Plan]:
    """A piece for one value of the shared axes, by its plan without them."""
    order = tuple([a for a in plan.order if not among(a, shared)])
    jam = {a: f for a, f in plan.jam.items() if not among(a, shared)}
    inside = replace(nest, axes=tuple([a for a in nest.axes if not among(a, shared)]))
    if _loses_vector_axis(plan, shared):
        plan = replace(plan, vector=None, width=0)
    return inside, replace(plan, order=order, jam=jam, parallel=False)
