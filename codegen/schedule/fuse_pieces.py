"""Pieces that fold over nearly the same points share their loops.

The sums of a window's taps (the gradient by the weights of a convolution) were cut into one piece
per tap, because each stays within its own borders. Here the loops of all of them become one: it
is cut where a piece begins or ends, every part folds for the pieces that are inside, and what
they read comes once from memory. Every sum adds its terms in the order of its own piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import among, substitutor
from tensorad.codegen.loops.ir import Assign, Fold, For, Stmt, Store
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import fold_accesses
from tensorad.codegen.nest.ir import (
    Nest,
    accumulators_of,
    fold_groups,
    images_of,
    own_accumulators,
    substitute_nest,
)
from tensorad.codegen.schedule.emit import fold_lanes
from tensorad.codegen.schedule.nest_plan import Plan, PlannedPieces
from tensorad.codegen.schedule.plan import can_vectorise_fold, lanes_of_nest
from tensorad.codegen.schedule.reasons import explain_plan
from tensorad.ir.analysis.decisions import Decision, is_listening, note
from tensorad.ir.expr import ONE, TRUE, Axis, Const, Expr, axis, int_const
from tensorad.ir.tensor import Tensor

MOST_FOLDS = 16
"""Folds that one loop may hold: the sums of all stay in registers."""
MOST_STEPS = 128
"""Folds written out at most, over all parts of the loops: it bounds compile time."""
FEWEST_POINTS = 1024
"""Points of a piece from which sharing is worth the code of the borders."""
CHAINS = 8
"""Folds side by side that keep the processor busy: with as many, one register each is enough."""

Copy = dict[Expr, Expr]


@dataclass(frozen=True, eq=False)
class Member:
    """A piece whose folds are vectorised along the innermost of its reduce loops."""

    nest: Nest
    plan: Plan
    loops: tuple[Axis, ...]
    """The reduce loops, the lanes last."""


def planned_together(planned: PlannedPieces, choices: Choices) -> PlannedPieces:
    """The plans, with fewer registers per sum where many sums stand side by side."""
    result: list[tuple[Nest, Plan]] = []
    for members in together(planned, choices):
        folds = sum(len(nest.folds) for nest, _ in members)
        for nest, plan in members:
            if len(members) > 1:
                most = lanes_of_nest(nest, MODEL) * (
                    1 << (max(1, CHAINS // folds).bit_length() - 1)
                )
                plan = replace(plan, width=min(plan.width, most))
            result.append((nest, plan))
    return tuple(result)


def together(planned: PlannedPieces, choices: Choices) -> list[PlannedPieces]:
    """The pieces in order, those that share their loops in one group."""
    groups: list[list[Member]] = []
    result: list[list[tuple[Nest, Plan]]] = []
    for nest, plan in planned:
        made = None if choices.together is False else _member(nest, plan)
        if made is not None and groups and groups[-1] and _alike(groups[-1][0], made):
            groups[-1].append(made)
            result[-1].append((nest, plan))
        else:
            groups.append([] if made is None else [made])
            result.append([(nest, plan)])
    found: list[PlannedPieces] = []
    for members, pieces in zip(groups, result, strict=True):
        found.extend(_chunks(members, pieces, choices.together is True))
    return found


def _chunks(
    members: Sequence[Member], pieces: Sequence[tuple[Nest, Plan]], forced: bool
) -> list[PlannedPieces]:
    """Even parts of a group that registers and compile time have room for; else single pieces."""
    alone: list[PlannedPieces] = [(p,) for p in pieces]
    folds = sum(len(m.nest.folds) for m in members)
    if len(members) < 2:
        return alone
    size = -(-len(members) // -(-folds // MOST_FOLDS))
    parts = [members[n : n + size] for n in range(0, len(members), size)]
    points = min(prod(a.extent or 1 for a in (*m.nest.axes, *m.loops)) for m in members)
    if points < FEWEST_POINTS and not forced:
        return alone
    if any(_steps(part, 0) > MOST_STEPS for part in parts):
        return alone
    return [tuple(pieces[n : n + size]) for n in range(0, len(pieces), size)]


def _member(nest: Nest, plan: Plan) -> Member | None:
    """The piece as a member, if its loops are simple enough."""
    lane = plan.vector
    if lane is None or among(lane, nest.axes) or plan.jam or plan.unroll or plan.rows_per_pass:
        return None
    if len(fold_groups(nest)) != 1:
        return None
    for f in nest.folds:
        if f.condition is not TRUE or f.start or not can_vectorise_fold(f.combiner):
            return None
    axes = nest.folds[0].axes
    if not all(_range(a) for a in (*nest.axes, *axes)):
        return None
    return Member(nest, plan, (*[a for a in axes if a is not lane], lane))


def _range(a: Axis) -> tuple[int, int] | None:
    """The constant bounds of an axis that walks by one."""
    if a.step is not ONE or not isinstance(a.lower, Const) or not a.extent:
        return None
    return int(a.lower.value), int(a.lower.value) + a.extent


def _bounds(a: Axis) -> tuple[int, int]:
    found = _range(a)
    assert found is not None  # members have such axes only
    return found


def _alike(a: Member, b: Member) -> bool:
    """Whether both run through equal output loops, read the same tensors, and mostly overlap."""
    if len(a.plan.order) != len(b.plan.order) or len(a.loops) != len(b.loops):
        return False
    if a.plan.parallel != b.plan.parallel or a.plan.width != b.plan.width:
        return False
    orders = zip(a.plan.order, b.plan.order, strict=True)
    if any(_bounds(x) != _bounds(y) for x, y in orders):
        return False
    if _read(a) != _read(b):
        return False
    return all(_overlap(x, y) for x, y in zip(a.loops, b.loops, strict=True))


def _read(m: Member) -> dict[Tensor, None]:
    return dict.fromkeys(x.tensor for x in fold_accesses(m.nest))


def _overlap(a: Axis, b: Axis) -> bool:
    (start, stop), (first, last) = _bounds(a), _bounds(b)
    return 2 * (min(stop, last) - max(start, first)) >= max(stop, last) - min(start, first)


def _parts(axes: Sequence[Axis]) -> list[tuple[int, int, list[int]]]:
    """(start, stop, positions of the axes that hold it) of each stretch between two bounds."""
    bounds = [_bounds(a) for a in axes]
    cuts = sorted({x for pair in bounds for x in pair})
    found = []
    for start, stop in pairwise(cuts):
        inside = [n for n, (low, high) in enumerate(bounds) if low <= start and stop <= high]
        if inside:
            found.append((start, stop, inside))
    return found


def _steps(members: Sequence[Member], depth: int) -> int:
    """How many folds are written out."""
    if depth == len(members[0].loops) - 1:
        return sum(len(m.nest.folds) for m in members)
    parts = _parts([m.loops[depth] for m in members])
    return sum(_steps([members[n] for n in inside], depth + 1) for _, _, inside in parts)


def emit_together(pieces: PlannedPieces) -> tuple[Stmt, ...]:
    """One loop nest for pieces that `together` put in a group."""
    if is_listening():
        for nest, plan in pieces:
            explain_plan(nest, plan)
        tensors = pieces[0][0].tensors
        note(
            Decision(
                tensors,
                f"{len(pieces)} pieces in one loop",
                "they fold over nearly the same points",
            )
        )
    made = [m for m in [_member(nest, plan) for nest, plan in pieces] if m is not None]
    first = made[0]
    members = [_over_axes_of(first, m) for m in made]
    copies = [own_accumulators(m.nest) for m in members]
    body: list[Stmt] = []
    for m, c in zip(members, copies, strict=True):
        for accumulators, identity in accumulators_of(m.nest):
            body.append(Assign(images_of(accumulators, c), identity))
    lanes = fold_lanes([f for m in members for f in m.nest.folds])
    body.extend(_level(list(zip(members, copies, strict=True)), 0, lanes))
    for m, c in zip(members, copies, strict=True):
        image = substitutor(c)
        values = tuple([image(v) for v in m.nest.values])
        body.append(Store(m.nest.tensors, m.nest.indices, values))
    for depth, a in reversed(list(enumerate(first.plan.order))):
        kind = "parallel" if depth == 0 and first.plan.parallel else "serial"
        body = [For(a, tuple(body), kind)]  # type: ignore[arg-type]  # one of the kinds
    return tuple(body)


def _over_axes_of(first: Member, m: Member) -> Member:
    """The member over the first one's output axes."""
    if m is first:
        return m
    mapping: Copy = dict(zip(m.plan.order, first.plan.order, strict=True))
    return replace(m, nest=substitute_nest(m.nest, mapping, first.plan.order))


def _level(active: Sequence[tuple[Member, Copy]], depth: int, lanes: int) -> list[Stmt]:
    """The reduce loops from `depth` inwards, in parts between the bounds of the members."""
    axes = [m.loops[depth] for m, _ in active]
    if depth == len(active[0][0].loops) - 1:
        return _lanes(active, axes, lanes)
    body: list[Stmt] = []
    for start, stop, inside in _parts(axes):
        here = axis(axes[0].name, start, stop)
        at: Expr = here if stop - start > 1 else int_const(start)
        held = [(active[n][0], {**active[n][1], axes[n]: at}) for n in inside]
        inner = _level(held, depth + 1, lanes)
        body.extend([For(here, tuple(inner))] if at is here else inner)
    return body


def _lanes(
    active: Sequence[tuple[Member, Copy]], axes: Sequence[Axis], registers: int
) -> list[Stmt]:
    """A vector loop for each range of lanes: the members that have it side by side.

    All members have registers of as many lanes, or sums would change theirs between the parts.
    """
    ranges: dict[tuple[int, int], list[int]] = {}
    for n, a in enumerate(axes):
        ranges.setdefault(_bounds(a), []).append(n)
    body: list[Stmt] = []
    for (start, stop), inside in ranges.items():
        lane = axis(axes[0].name, start, stop)
        folds: list[Stmt] = []
        for n in inside:
            m, copy = active[n]
            image = substitutor({**copy, axes[n]: lane})
            for f in m.nest.folds:
                values = tuple([image(s) for s in f.sources])
                folds.append(Fold(images_of(f.accumulators, copy), f.combiner, values))
        width = active[inside[0]][0].plan.width
        body.append(For(lane, tuple(folds), "vector", width, lanes=registers))
    return body
