"""Affine domains as disjoint pieces, each with loops; plans are memoised by structure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorad import config
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import TRUE, Axis, Expr, Size, logical_and
from tensorad.ir.order import sizes_in
from tensorad.simplify.domain.convex_loops import Unsolved, complexity, plan_part
from tensorad.simplify.domain.quotients import Quotients
from tensorad.simplify.domain.solution import Piece, PlanMemo, Solution, as_given
from tensorad.simplify.index.quasi_affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine, Space, budget

_memo = PlanMemo()
_MAX_PIECES = 16
_MOST_QUOTIENTS = 16
"""Formulas with more divisions are not given to isl."""
_FEW_DIMS = 6
_SIMPLE = 40
"""Plans of this size are taken without looking for simpler ones."""


def solve_affine(outer: Sequence[Axis], inner: Sequence[Axis], affine: Sequence[Expr]) -> Solution:
    """{inner : bounds and affine conditions} as disjoint pieces.

    Where isl cannot help, the axes stay as they are and every condition is tested.
    """
    used = _used_outer(outer, inner, affine)
    own = [e for e in free_parameters([*used, *inner], *affine) if isinstance(e, Size)]
    known = [f for f in facts_about(own) if is_affine(f, ())]
    sizes = list(dict.fromkeys([*own, *sizes_in(*known)]))
    facts = logical_and(*[s >= 0 for s in sizes], *known)

    def solve() -> Solution:
        return _plan(used, inner, affine, sizes, facts)

    return _memo.solve(used, inner, affine, facts, solve)


def _used_outer(outer: Sequence[Axis], inner: Sequence[Axis], affine: Iterable[Expr]) -> list[Axis]:
    """The outer axes the problem speaks of, and those in their bounds."""
    found = dict.fromkeys(free_parameters(inner, *affine))
    return [a for a in outer if a in found]


def _plan(
    outer: Sequence[Axis],
    inner: Sequence[Axis],
    affine: Sequence[Expr],
    sizes: Sequence[Size],
    facts: Expr,
) -> Solution:
    """The best plan: over the axes themselves, or over their quotients as well."""
    known = logical_and(facts, *[axis_conditions(a) for a in outer])
    params = [*sizes, *outer]
    quotients = Quotients(inner)
    conditions = [*[quotients.linear(c) for c in affine], *quotients.definitions]
    if len(quotients.axes) > _MOST_QUOTIENTS:
        piece = as_given(inner, logical_and(*affine))
        reason = f"the formula holds {len(quotients.axes)} different divisions"
        return Solution((piece,), False, "none", reason)
    limit = _operations(len(inner) + len(quotients.axes))
    best = _within_budget(limit, params, inner, [], affine, known)
    if best.exact and plan_size(best) <= _SIMPLE:
        return best
    if len(quotients.axes) > best.exact:
        other = _within_budget(limit // 3, params, inner, quotients.axes, conditions, known)
        if other.exact and (not best.exact or plan_size(other) < plan_size(best)):
            return other
    return best


def _operations(dims: int) -> int:
    """The budget of one attempt: an isl operation takes longer the more dims there are."""
    crowd = max(1.0, dims / _FEW_DIMS)
    return max(1, int(config.current().isl_operations / crowd**2))


def _within_budget(
    operations: int,
    params: Sequence[Expr],
    inner: Sequence[Axis],
    quotients: Sequence[Axis],
    conditions: Sequence[Expr],
    known: Expr,
) -> Solution:
    """The pieces, or the domain as it is where isl gives up."""
    try:
        with budget(operations):
            return _pieces(params, inner, quotients, conditions, known)
    except (NotAffine, BudgetExceeded) as error:
        return Solution((as_given(inner, logical_and(*conditions)),), False, "none", str(error))


def plan_size(solution: Solution) -> int:
    """The size of the expressions, divisions counting as several operations."""
    roots: list[Expr] = []
    for p in solution.pieces:
        roots += [p.guard, p.residual, *p.values.values()]
        roots += [b for a in p.axes for b in (a.lower, a.upper)]
    return complexity(*roots)


def _pieces(
    params: Sequence[Expr],
    inner: Sequence[Axis],
    quotients: Sequence[Axis],
    conditions: Sequence[Expr],
    known: Expr,
) -> Solution:
    """A plan whose loops may run over inner axes and over quotients of them."""
    space = Space(params, [*reversed(quotients), *inner])
    context = IntegerSet.of(space, known)
    bounds = IntegerSet.of(space, *[axis_conditions(a) for a in inner])
    domain = context.intersect(bounds).intersect(IntegerSet.of(space, *conditions)).simplify()
    parts = domain.disjoint_pieces()
    if len(parts) > _MAX_PIECES:
        piece = as_given(inner, logical_and(*conditions))
        reason = f"the domain falls apart into {len(parts)} pieces"
        return Solution((piece,), False, "none", reason)
    pieces: list[Piece] = []
    reason = ""
    for part in parts:
        try:
            piece = plan_part(part, context, known)
            pieces.append(replace(piece, values={a: piece.values[a] for a in inner}))
            if piece.residual is not TRUE:
                reason = reason or "no loop bounds describe the points alone"
        except Unsolved as error:
            inside = part.gist_condition(context.intersect(bounds))
            pieces.append(as_given(inner, inside))
            reason = str(error)
    return Solution(tuple(pieces), not reason, "isl", reason)
