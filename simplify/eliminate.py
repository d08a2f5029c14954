"""Solving a reduction's domain: which axes are determined, how far the others run.

The domain {inner : bounds, conditions} with the outer axes as parameters becomes loops over
as few axes as possible, with tight bounds; every determined axis becomes an expression.
The result is compared with the domain by isl before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from tensorad.errors import TensoradError
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Reduce,
    Size,
    add,
    axis,
    call,
    const,
    logical_and,
    reduce_expr,
    sub,
)
from tensorad.ir.facts import facts_about
from tensorad.ir.visit import (
    conjuncts,
    fresh_axes,
    postorder,
    substitute,
    uses_any,
    with_fresh_reductions,
)
from tensorad.simplify.affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.certificate import checked
from tensorad.simplify.domain import Piece, PlanMemory, Solution
from tensorad.simplify.islset import IntegerSet
from tensorad.simplify.islspace import BudgetExceeded, NotAffine, Space, budget
from tensorad.simplify.nonzeroness import guarded, split_condition

_memory = PlanMemory()
_MAX_PIECES = 16


class _Unsolved(TensoradError):
    """This part of the domain has no loops we can write."""


def eliminate(outer: Sequence[Axis], inner: Sequence[Axis], condition: Expr) -> Solution:
    """Solve {inner : bounds and condition} for each value of the outer axes.

    Requires: bounds of inner axes use outer axes, sizes and inner axes before them.
    Ensures: the pieces are disjoint and their union is the domain; conditions on data are
        kept in `residual`. Where isl cannot help, the axes stay and everything is residual.
    """
    solved, left, parts = _identities(outer, inner, conjuncts(condition))
    if all(p is TRUE for p in parts):
        parts = []
    leaves = [*outer, *left]
    affine = [p for p in parts if is_affine(p, leaves)]
    residual = logical_and(*[p for p in parts if not is_affine(p, leaves)])
    constant = all(isinstance(b, Const) for a in left for b in (a.lower, a.upper))
    if not affine and constant:
        mapping = fresh_axes(left)
        kept = tuple([a for a in mapping.values() if isinstance(a, Axis)])
        solution = Solution((Piece(TRUE, kept, mapping),), True, "identity")
    else:
        solution = _solve(outer, left, affine)
    pieces = tuple([_complete(p, solved, residual) for p in solution.pieces])
    return checked(outer, inner, condition, replace(solution, pieces=pieces))


def _complete(piece: Piece, solved: dict[Expr, Expr], residual: Expr) -> Piece:
    values = dict(piece.values)
    for v, e in solved.items():
        values[v] = substitute(e, piece.values)
    rest = logical_and(piece.residual, substitute(residual, values))
    return Piece(piece.guard, piece.axes, values, rest)


def _identities(
    outer: Sequence[Axis], inner: Sequence[Axis], parts: list[Expr]
) -> tuple[dict[Expr, Expr], list[Axis], list[Expr]]:
    """v == x with x an outer axis of the same bounds: v is x. (Most maps are no more.)

    An axis of extent 1 is its only value.
    """
    solved: dict[Expr, Expr] = {a: a.lower for a in inner if a.extent == 1}
    inside = dict.fromkeys(inner)
    outside = dict.fromkeys(outer)
    rest: list[Expr] = []
    for p in parts:
        pair = _axis_pair(p, inside, outside)
        if pair is not None and pair[0] not in solved and _same_bounds(*pair):
            solved[pair[0]] = pair[1]
        else:
            rest.append(p)
    left = [a for a in inner if a not in solved]
    if solved:
        rest = [substitute(p, solved) for p in rest]
        if any(uses_any(b, solved) for a in left for b in (a.lower, a.upper, a.step)):
            return {}, list(inner), parts
    return solved, left, rest


def _axis_pair(
    p: Expr, inside: dict[Axis, None], outside: dict[Axis, None]
) -> tuple[Axis, Axis] | None:
    if isinstance(p, Call) and p.op == "eq":
        a, b = p.args
        for v, x in ((a, b), (b, a)):
            if isinstance(v, Axis) and isinstance(x, Axis) and v in inside and x in outside:
                return v, x
    return None


def _same_bounds(v: Axis, x: Axis) -> bool:
    return v.lower is x.lower and v.upper is x.upper and v.step is x.step


def _solve(outer: Sequence[Axis], inner: Sequence[Axis], affine: Sequence[Expr]) -> Solution:
    used = _used_outer(outer, inner, affine)
    sizes = [e for e in free_parameters([*used, *inner], *affine) if isinstance(e, Size)]
    facts = logical_and(*[s >= 0 for s in sizes], *facts_about(sizes))

    def solve() -> Solution:
        try:
            with budget():
                return _plan(used, inner, affine, sizes, facts)
        except (NotAffine, BudgetExceeded) as error:
            piece = _unsolved(inner, logical_and(*affine))
            return Solution((piece,), False, "none", str(error))

    return _memory.solve(used, inner, affine, facts, solve)


def _used_outer(outer: Sequence[Axis], inner: Sequence[Axis], affine: Iterable[Expr]) -> list[Axis]:
    """The outer axes the problem speaks of, and those in their bounds."""
    found = dict.fromkeys(free_parameters(inner, *affine))
    return [a for a in outer if a in found]


def _unsolved(inner: Sequence[Axis], condition: Expr) -> Piece:
    mapping = fresh_axes(inner)
    axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
    return Piece(TRUE, axes, mapping, substitute(condition, mapping))


def _plan(
    outer: Sequence[Axis],
    inner: Sequence[Axis],
    affine: Sequence[Expr],
    sizes: Sequence[Size],
    facts: Expr,
) -> Solution:
    space = Space([*sizes, *outer], inner)
    known = logical_and(facts, *[axis_conditions(a) for a in outer])
    context = IntegerSet.of(space, known)
    bounds = IntegerSet.of(space, *[axis_conditions(a) for a in inner])
    domain = context.intersect(bounds).intersect(IntegerSet.of(space, *affine)).simplify()
    parts = domain.disjoint_pieces()
    if len(parts) > _MAX_PIECES:
        piece = _unsolved(inner, logical_and(*affine))
        reason = f"the domain falls apart into {len(parts)} pieces"
        return Solution((piece,), False, "none", reason)
    pieces: list[Piece] = []
    reason = ""
    for part in parts:
        try:
            pieces.append(_solve_part(part, context, known))
            if pieces[-1].residual is not TRUE:
                reason = reason or "no loop bounds describe the points alone"
        except _Unsolved as error:
            inside = part.gist_condition(context.intersect(bounds))
            pieces.append(_unsolved(inner, inside))
            reason = str(error)
    return Solution(tuple(pieces), not reason, "isl", reason)


def _solve_part(part: IntegerSet, context: IntegerSet, known: Expr) -> Piece:
    loops: dict[Expr, Axis] = {}
    values: dict[Expr, Expr] = {}
    for group in part.components():
        own = part.restrict_to(group)
        kept = _choose_kept(own, group)
        inside = known
        for n, a in enumerate(kept):
            loops[a] = _loop(own.restrict_to([a], kept[:n]), a, loops, inside)
            inside = logical_and(inside, axis_conditions(a))
        determined = [a for a in group if not any(a is b for b in kept)]
        for a in determined:
            values[a] = _value(own.restrict_to([a], kept), a)
    return _certified(part, context, loops, values)


def _choose_kept(own: IntegerSet, group: Sequence[Axis]) -> list[Axis]:
    """The cheapest axes to loop over such that all others are determined."""
    if own.is_singleton():
        return []
    if len(group) == 1:
        return list(group)
    cost = {a: _range_size(own, a) for a in group}
    for count in range(1, len(group)):
        good = [
            kept
            for kept in combinations(group, count)
            if own.restrict_to([a for a in group if a not in set(kept)], kept).is_singleton()
        ]
        if good:
            return list(min(good, key=lambda kept: prod(cost[a] for a in kept)))
    return list(group)


def _range_size(own: IntegerSet, a: Axis) -> float:
    bounds = own.static_range(a)
    return float("inf") if bounds is None else bounds[1] - bounds[0] + 1


def _loop(own: IntegerSet, a: Axis, outer_loops: dict[Expr, Axis], known: Expr) -> Axis:
    """A tight loop over the only dim of `own`, in terms of the loops outside it."""
    lowers, uppers = own.simplify().bounds(a)
    if not lowers or not uppers:
        raise _Unsolved(f"{a} has no bounds")
    context = IntegerSet.of(own.space, known)
    step, offset = own.stride(a)
    lower = _fold("maximum", _needed("ge", lowers, context))
    if step > 1 and not own.implies((lower - offset) % step == 0):
        lower = add(lower, (offset - lower) % step)
    upper = _fold("minimum", [add(b, ONE) for b in _needed("le", uppers, context)])
    return axis(a.name, substitute(lower, outer_loops), substitute(upper, outer_loops), step)


def _needed(op: str, bounds: Sequence[Expr], context: IntegerSet) -> list[Expr]:
    """The bounds that are not implied by another one."""
    left = list(bounds)
    for b in sorted(bounds, key=lambda e: -len(postorder(e))):
        others = [c for c in left if c is not b]
        if any(context.implies(call(op, c, b)) for c in others):
            left = others
    return left


def _fold(op: str, bounds: Sequence[Expr]) -> Expr:
    ordered = sorted(bounds, key=lambda e: not isinstance(e, Const))
    result = ordered[0]
    for b in ordered[1:]:
        result = call(op, result, b)
    return result


def _value(own: IntegerSet, a: Axis) -> Expr:
    """The simplest bound that the dim always equals."""
    lowers, uppers = own.simplify().bounds(a)
    candidates = sorted(dict.fromkeys([*lowers, *uppers]), key=lambda e: len(postorder(e)))
    for e in candidates:
        if own.implies(a == e):
            return e
    value = own.value_of(a)
    if value is None:
        raise _Unsolved(f"{a} has no value in one piece")
    return value


def _certified(
    part: IntegerSet, context: IntegerSet, loops: dict[Expr, Axis], values: dict[Expr, Expr]
) -> Piece:
    """Rebuild the set from the plan's own expressions and compare it with the part."""
    back: dict[Expr, Expr] = {new: old for old, new in loops.items()}
    rebuilt = [_loop_condition(old, new, back) for old, new in loops.items()]
    rebuilt += [old == e for old, e in values.items()]
    claimed = context.intersect(IntegerSet.of(part.space, *rebuilt))
    guard: Expr = TRUE
    if not claimed.equals(part):
        guard = part.parameter_guard(context)
        claimed = claimed.intersect(IntegerSet.of(part.space, guard))
    residual: Expr = TRUE
    if not claimed.equals(part):
        if not part.is_subset(claimed):
            raise _Unsolved("the rebuilt domain misses points")
        residual = part.gist_condition(claimed)
    mapping: dict[Expr, Expr] = dict(loops)
    for old, e in values.items():
        mapping[old] = substitute(e, loops)
    return Piece(guard, tuple(loops.values()), mapping, substitute(residual, mapping))


def _loop_condition(old: Expr, new: Axis, back: dict[Expr, Expr]) -> Expr:
    lower, upper = substitute(new.lower, back), substitute(new.upper, back)
    inside = logical_and(old >= lower, old < upper)
    if new.step is ONE:
        return inside
    return logical_and(inside, sub(old, lower) % new.step == 0)


def sum_over(solution: Solution, value: Expr) -> Expr:
    """The sum of `value` (over the old inner axes) over a solved domain."""
    total: Expr | None = None
    for n, piece in enumerate(solution.pieces):
        body = substitute(with_fresh_reductions(value) if n else value, piece.values)
        residual, data = split_condition(piece.residual)
        body = guarded(logical_and(*data), body)
        if piece.axes:
            condition = logical_and(piece.guard, residual)
            combiner = sum_combiner(value.dtype)
            body = reduce_expr(combiner, (body,), piece.axes, condition)
        else:
            body = guarded(logical_and(piece.guard, residual), body)
        total = body if total is None else add(total, body)
    return const(0, value.dtype) if total is None else total


def solve_sum(outer: Sequence[Axis], e: Reduce) -> Expr:
    """A sum over the nonzero points of its own condition only."""
    return sum_over(eliminate(outer, e.axes, e.condition), e.sources[0])
