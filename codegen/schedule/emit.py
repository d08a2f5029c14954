"""A nest and its plan to loops."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.loops.collapse import long_shared
from tensorad.codegen.loops.index_ranges import Ranges, among, fold_by_ranges, substitutor
from tensorad.codegen.loops.ir import Assign, Fold, For, If, LoopKind, Stmt, Store
from tensorad.codegen.loops.rewrite import renewed
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest, accumulators_of, fold_groups, images_of, own_accumulators
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.reasons import explain_plan
from tensorad.codegen.schedule.sums_in_memory import emit_sums_in_memory
from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Expr,
    Param,
    add,
    axis,
    call,
    floordiv,
    int_const,
    logical_and,
    mul,
    select,
    sub,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.visit import conjuncts, free_leaves, postorder, substitute, substitute_all

STRIPS = 32
"""Strips of a vector loop on several threads, where it is long enough."""
SHORTEST_STRIP = 256
LONGEST_STRIP = 16384

Copy = dict[Expr, Expr]
"""What a jammed copy puts in place of axes and accumulators."""


def emit_nest(nest: Nest, plan: Plan) -> tuple[Stmt, ...]:
    """The loops of a nest in the order, tiles and lanes of its plan."""
    if is_listening():
        explain_plan(nest, plan)
    return long_shared(_Emitter(nest, plan).level(0, [{}]), plan.order)


class _Emitter:
    def __init__(self, nest: Nest, plan: Plan) -> None:
        self.nest = nest
        self.plan = plan

    def level(self, depth: int, copies: list[Copy]) -> tuple[Stmt, ...]:
        """The loops from order[depth] inwards."""
        if depth == len(self.plan.order):
            return self.inner(copies)
        a = self.plan.order[depth]
        kind: LoopKind = "parallel" if depth == 0 and self.plan.parallel else "serial"
        if self.plan.strip and a in self.plan.jam:
            return self.across(a, depth, copies, kind)
        if a is self.plan.vector:
            return self.lanes(a, depth, copies, kind)
        factor = self.plan.jam.get(a, 1)
        if factor == 1:
            return (For(a, self.level(depth + 1, copies), kind),)
        return self.unroll_and_jam(a, factor, depth, copies, kind)

    def lanes(self, a: Axis, depth: int, copies: list[Copy], kind: LoopKind) -> tuple[Stmt, ...]:
        """The vector loop; cut into strips where it is also the parallel one."""
        width = self.plan.width
        if self.plan.rows_per_pass:
            return emit_sums_in_memory(
                self.nest, a, width, self.plan.rows_per_pass, self.plan.fused_stores
            )
        if self.plan.strip:
            lane = self.strip_of(a, copies)
            body = self.level(depth + 1, copies)
            return (For(lane, body, "vector", width, within=a),)
        if kind != "parallel":
            return (For(a, self.level(depth + 1, copies), "vector", width),)
        outer, lane = strips(a, width or strip_width(a))
        body = self.level(depth + 1, [{**c, a: lane} for c in copies])
        return (For(outer, (For(lane, body, "vector", width),), "parallel"),)

    def across(self, a: Axis, depth: int, copies: list[Copy], kind: LoopKind) -> tuple[Stmt, ...]:
        """Strips of the lanes, in each of them tiles along `a` that cover it.

        The bounds of both axes are constant.
        """
        vector = self.plan.vector
        assert vector is not None  # strips are planned with lanes
        factor = self.plan.jam[a]
        outer, lane = strips(vector, self.plan.strip)
        tiles = axis(a.name, a.lower, sub(a.upper, int_const(factor - 1)), factor)
        copies = _tile([{**c, vector: lane} for c in copies], a, tiles, factor)
        return (For(outer, (For(tiles, self.level(depth + 1, copies), covering=True),), kind),)

    def strip_of(self, a: Axis, copies: list[Copy]) -> Axis:
        lane = copies[0][a]
        assert isinstance(lane, Axis)  # `across` has put the strip there
        return lane

    def unroll_and_jam(
        self, a: Axis, factor: int, depth: int, copies: list[Copy], kind: LoopKind
    ) -> tuple[Stmt, ...]:
        """A loop over whole tiles of `factor` values, then the rest."""
        extent = sub(a.upper, a.lower)
        whole = mul(floordiv(extent, int_const(factor)), int_const(factor))
        middle = add(a.lower, whole)
        tiles = axis(a.name, a.lower, middle, factor)
        rest = axis(a.name, middle, a.upper)
        result: tuple[Stmt, ...] = ()
        if tiles.extent == 1:
            result = self.level(depth + 1, _tile(copies, a, a.lower, factor))
        elif tiles.extent != 0:
            body = self.level(depth + 1, _tile(copies, a, tiles, factor))
            result = (For(tiles, body, kind),)
        if rest.extent is None:
            body = self.level(depth + 1, _tile(copies, a, rest, 1))
            result += (For(rest, body, kind),)
        elif rest.extent:
            result += self.level(depth + 1, _tile(copies, a, middle, rest.extent))
        return result

    def inner(self, copies: list[Copy]) -> tuple[Stmt, ...]:
        """Accumulators, folds and stores of all copies."""
        nest = self.nest
        if len(copies) > 1 or copies[0]:
            copies = [{**c, **own_accumulators(nest)} for c in copies]
        statements: list[Stmt] = []
        for accumulators, identity in accumulators_of(nest):
            for c in copies:
                start = substitute_all(identity, c)
                statements.append(Assign(images_of(accumulators, c), start))
        for folds in fold_groups(nest):
            statements.extend(self.fold(folds, copies))
        for c in copies:
            image = substitutor(c)
            indices = tuple([image(i) for i in nest.indices])
            statements.append(Store(nest.tensors, indices, tuple([image(v) for v in nest.values])))
        return tuple(statements)

    def fold(self, folds: Sequence[FoldLoop], copies: list[Copy]) -> tuple[Stmt, ...]:
        """The reduce loops of folds over the same axes, shared by the copies."""
        fold = folds[0]
        unrolled = [a for a in fold.axes if a in self.plan.unroll]
        loops = [a for a in fold.axes if a not in self.plan.unroll and a is not self.plan.vector]
        if among(self.plan.vector, fold.axes):
            loops.append(self.plan.vector)  # type: ignore[arg-type]  # it is an axis of the fold
        return self.reduce_level(folds, loops, unrolled, conjuncts(fold.condition), copies)

    def reduce_level(
        self,
        folds: Sequence[FoldLoop],
        loops: Sequence[Axis],
        unrolled: Sequence[Axis],
        conditions: Sequence[Expr],
        copies: list[Copy],
    ) -> tuple[Stmt, ...]:
        inside = {*loops, *unrolled}
        never_empty = all(a.extent for a in loops)
        here: list[Expr] = []
        later: list[Expr] = []
        for c in conditions:
            used = free_leaves(c)
            bound = self.varies(c) or any(a in used for a in inside)
            if not never_empty and occurs(READ, c):
                bound = True  # where no point exists its reads may be out of bounds
            (later if bound else here).append(c)
        if not loops:
            body = self.points(folds, unrolled, later, copies)
        else:
            a, rest = loops[0], loops[1:]
            own = renewed(a, substitutor(copies[0]))
            if own is not a:
                copies = [{**c, a: own} for c in copies]
            body = self.reduce_level(folds, rest, unrolled, later, copies)
            is_vector = a is self.plan.vector
            if is_vector:
                lanes = fold_lanes(self.nest.folds)
                body = (For(own, body, "vector", self.plan.width, lanes=lanes),)
            else:
                body = (For(own, body),)
        condition = substitute(logical_and(*here), copies[0])
        return body if condition is TRUE else (If(condition, body),)

    def varies(self, condition: Expr) -> bool:
        """Whether a condition may differ between lanes."""
        vector = self.plan.vector
        outer = among(vector, self.plan.order)
        return any(e is vector or (outer and isinstance(e, Param)) for e in free_leaves(condition))

    def points(
        self,
        folds: Sequence[FoldLoop],
        unrolled: Sequence[Axis],
        conditions: Sequence[Expr],
        copies: list[Copy],
    ) -> tuple[Stmt, ...]:
        """The folds at every point of the unrolled axes, for every copy."""
        points: list[Copy] = [{}]
        for a in unrolled:
            low, step = int(a.lower.value), int(a.step.value)  # type: ignore[attr-defined]  # constant
            values = [int_const(low + n * step) for n in range(a.extent or 0)]
            points = [{**p, a: v} for p in points for v in values]
        condition = logical_and(*conditions)
        varies = self.varies(condition)
        statements: list[Stmt] = []
        ranges = Ranges()
        for p in points:
            for c in copies:
                image = substitutor({**c, **p})
                fixed: dict[Expr, Expr] = {}
                test = fold_by_ranges(image(condition), ranges, fixed)
                for f in folds:
                    values_ = [fold_by_ranges(image(s), ranges, fixed) for s in f.sources]
                    statements.extend(self.step(f, test, varies, tuple(values_), c))
        return tuple(statements)

    def step(
        self, fold: FoldLoop, test: Expr, varies: bool, values: tuple[Expr, ...], copy: Copy
    ) -> list[Stmt]:
        """One fold step where `test` holds."""
        targets = images_of(fold.accumulators, copy)
        if test is TRUE:
            any_order = among(self.plan.vector, fold.axes)
            combiner = fold.merge if any_order and fold.merge is not None else fold.combiner
            return [Fold(targets, combiner, values)]
        if test is FALSE:
            return []
        in_lanes = among(self.plan.vector, fold.axes)
        if not varies and not in_lanes:
            return [If(test, (Fold(targets, fold.combiner, values),))]
        if in_lanes:
            masked = tuple(
                [select(test, v, n) for v, n in zip(values, fold.combiner.identity, strict=True)]
            )
            return [Fold(targets, fold.combiner, masked)]
        mapping: Copy = dict(zip(fold.combiner.lhs, targets, strict=True))
        mapping.update(zip(fold.combiner.rhs, values, strict=True))
        results = [substitute(r, mapping) for r in fold.combiner.results]
        chosen = tuple([select(test, r, t) for r, t in zip(results, targets, strict=True)])
        return [Assign(targets, chosen)]


def fold_lanes(folds: Sequence[FoldLoop]) -> int:
    """Lanes of one register for folds in lanes, by what they add up alone."""
    sums = [p for f in folds for p in f.accumulators]
    return lanes_for(postorder(*sums, *[s for f in folds for s in f.sources]))


def strip_width(a: Axis) -> int:
    """Lanes that a thread takes at a time: many, but leaving some for each of the threads."""
    share = (a.extent if a.extent is not None else LONGEST_STRIP) // STRIPS
    return max(SHORTEST_STRIP, min(LONGEST_STRIP, share // SHORTEST_STRIP * SHORTEST_STRIP))


def strips(a: Axis, width: int) -> tuple[Axis, Axis]:
    """(number of the strip, position in it): `a` in strips of `width` values."""
    count = floordiv(add(sub(a.upper, a.lower), int_const(width - 1)), int_const(width))
    outer = axis(f"{a.name}o", 0, count)
    lower = add(a.lower, mul(int_const(width), outer))
    return outer, axis(a.name, lower, call("minimum", a.upper, add(lower, int_const(width))))


def _tile(copies: list[Copy], a: Axis, base: Expr, factor: int) -> list[Copy]:
    return [{**c, a: add(base, int_const(u))} for c in copies for u in range(factor)]
