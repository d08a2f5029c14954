"""Solving a reduction's domain: which axes are determined, how far the others run.

The domain {inner : bounds, conditions} with the outer axes as parameters becomes loops over
as few axes as possible, with tight bounds; every determined axis becomes an expression.
The result is compared with the domain by isl before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Reduce,
    Size,
    add,
    const,
    logical_and,
    reduce_expr,
)
from tensorad.ir.facts import facts_about
from tensorad.ir.visit import (
    conjuncts,
    fresh_axes,
    substitute,
    uses_any,
    with_fresh_reductions,
)
from tensorad.simplify.affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.certificate import checked
from tensorad.simplify.domain import Piece, PlanMemory, Solution
from tensorad.simplify.islset import IntegerSet
from tensorad.simplify.islspace import BudgetExceeded, NotAffine, Space, budget
from tensorad.simplify.loops import Unsolved, plan_part
from tensorad.simplify.nonzeroness import guarded, split_condition

_memory = PlanMemory()
_MAX_PIECES = 16


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
            pieces.append(plan_part(part, context, known))
            if pieces[-1].residual is not TRUE:
                reason = reason or "no loop bounds describe the points alone"
        except Unsolved as error:
            inside = part.gist_condition(context.intersect(bounds))
            pieces.append(_unsolved(inner, inside))
            reason = str(error)
    return Solution(tuple(pieces), not reason, "isl", reason)


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
