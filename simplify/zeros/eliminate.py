"""Solving a reduction's domain: which axes are determined, how far the others run.

The domain {inner : bounds, conditions} with the outer axes as parameters becomes loops over
as few axes as possible, with tight bounds; every determined axis becomes an expression.
The result is compared with the domain by isl before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Reduce,
    const,
    logical_and,
    logical_or,
    reduce_expr,
    summed,
)
from tensorad.ir.visit import (
    conjuncts,
    substitute,
    with_fresh_reductions,
)
from tensorad.simplify.certify.certificate import checked
from tensorad.simplify.domain.identities import solve_identities
from tensorad.simplify.domain.independent_parts import MOST_PIECES, linked, product, unconstrained
from tensorad.simplify.domain.listed_points import fold_constant_reads
from tensorad.simplify.domain.mixed_radix import split_digits
from tensorad.simplify.domain.point_tables import tabulate
from tensorad.simplify.domain.polyhedral import plan_size, solve_affine
from tensorad.simplify.domain.solution import Piece, Solution, rename_piece
from tensorad.simplify.index.quasi_affine import is_affine
from tensorad.simplify.zeros.lift import guarded, is_index_condition, is_static, split_condition

_LONG = 100
"""Plans with larger expressions are listed as tables where that is possible."""


def eliminate(outer: Sequence[Axis], inner: Sequence[Axis], condition: Expr) -> Solution:
    """Solve {inner : bounds and condition} for each value of the outer axes.

    Requires: bounds of inner axes use outer axes, sizes and inner axes before them.
    Ensures: the pieces are disjoint and their union is the domain; conditions on data are
        kept in `residual`. Where isl cannot help, the axes stay and everything is residual.
    """
    condition = fold_constant_reads(condition)
    solution = _eliminate(outer, inner, conjuncts(condition))
    return checked(outer, inner, condition, solution)


def _eliminate(
    outer: Sequence[Axis], inner: Sequence[Axis], parts: list[Expr], may_split: bool = True
) -> Solution:
    solved, left, parts = solve_identities(outer, inner, parts)
    if all(p is TRUE for p in parts):
        parts = []
    solution = _over_digits(outer, left, parts) if may_split else None
    if solution is None:
        solution = _by_sets(outer, left, parts)
        if not _is_short(solution):
            solution = _with_tables(outer, left, parts) or solution
    return replace(solution, pieces=tuple([_with_solved(p, solved) for p in solution.pieces]))


def _by_sets(outer: Sequence[Axis], inner: Sequence[Axis], parts: Sequence[Expr]) -> Solution:
    """What isl makes of the affine conditions; the others stay."""
    leaves = [*outer, *inner]
    affine = [p for p in parts if is_affine(p, leaves)]
    others = [p for p in parts if not is_affine(p, leaves)]
    around, groups = linked(inner, affine)
    found: list[Solution] = []
    for axes, own in groups:
        found.append(solve_affine(outer, axes, [*own, *around]) if own else unconstrained(axes))
    if around and not any(own for _, own in groups):
        found.append(solve_affine(outer, (), around))
    solution = product(inner, affine, found)
    pieces = tuple([_with_residual(p, logical_and(*others)) for p in solution.pieces])
    solution = replace(solution, pieces=pieces)
    left = [c for p in pieces for c in conjuncts(p.residual) if is_static(c)]
    if solution.exact and left:
        return replace(solution, exact=False, reason=f"{left[0]} is not affine")
    return solution


def _is_short(solution: Solution) -> bool:
    """Whether a plan is exact, and evaluating its expressions no dearer than reading a table."""
    return solution.exact and plan_size(solution) <= _LONG


def _with_tables(
    outer: Sequence[Axis], inner: Sequence[Axis], parts: Sequence[Expr]
) -> Solution | None:
    """Axes that conditions link solved together: by sets, or from a table where those fail."""
    static = [p for p in parts if is_static(p)]
    around, groups = linked(inner, static)
    if not groups:
        return None
    found: list[Solution] = []
    for axes, own in groups:
        solution = _by_sets(outer, axes, [*own, *around]) if len(groups) > 1 else None
        if solution is None or not _is_short(solution):
            solution = tabulate(outer, axes, [*own, *around]) or solution
        if solution is None or not solution.exact:
            return None
        found.append(solution)
    for n, (axes, own) in enumerate(groups):  # a table is one piece
        if prod(len(s.pieces) for s in found) > MOST_PIECES and len(found[n].pieces) > 1:
            found[n] = tabulate(outer, axes, [*own, *around]) or found[n]
    whole = product(inner, static, found)
    rest = logical_and(*[p for p in parts if not is_static(p)])
    pieces = tuple([_with_residual(p, rest) for p in whole.pieces])
    return replace(whole, pieces=pieces)


def _over_digits(
    outer: Sequence[Axis], inner: Sequence[Axis], parts: Sequence[Expr]
) -> Solution | None:
    """The problem solved over the digits of its axes, where it is not affine over them."""
    leaves = [*outer, *inner]
    bounds = [b for a in leaves for b in (a.lower, a.upper, a.step)]
    index = [p for p in parts if is_index_condition(p)]
    if all(is_affine(e, leaves) for e in (*bounds, *index)):
        return None
    digits = split_digits(outer, inner, parts)
    if digits is None:
        return None
    solution = _eliminate(digits.outer, digits.inner, digits.conditions, may_split=False)
    pieces = []
    for p in solution.pieces:
        own = rename_piece(p, {**dict(zip(digits.inner, digits.inner)), **digits.mapping})
        values: dict[Expr, Expr] = {a: own.values[a] for a in inner if a not in digits.values}
        values.update({a: substitute(e, own.values) for a, e in digits.values.items()})
        pieces.append(replace(own, values=values))
    return replace(solution, pieces=tuple(pieces), method="digits")


def _with_solved(piece: Piece, solved: dict[Expr, Expr]) -> Piece:
    """The piece with the axes that were solved before it."""
    if not solved:
        return piece
    values = dict(piece.values)
    for v, e in solved.items():
        values[v] = substitute(e, piece.values)
    return replace(piece, values=values)


def _with_residual(piece: Piece, residual: Expr) -> Piece:
    rest = logical_and(piece.residual, substitute(residual, piece.values))
    return replace(piece, residual=rest)


def sum_over(outer: Sequence[Axis], solution: Solution, value: Expr) -> Expr:
    """The sum of `value` (over the old inner axes) over a domain solved for the outer axes."""
    terms: list[tuple[Expr, Expr]] = []
    """(where it counts, a sum or a value at a single point)."""
    for n, piece in enumerate(solution.pieces):
        body = substitute(with_fresh_reductions(value) if n else value, piece.values)
        residual, data = split_condition(piece.residual)
        body = guarded(logical_and(*data), body)
        condition = logical_and(piece.guard, residual)
        if piece.axes:
            body = reduce_expr(sum_combiner(value.dtype), (body,), piece.axes, condition)
            condition = TRUE
        _add_term(outer, terms, condition, body)
    total = summed(guarded(condition, body) for condition, body in terms)
    return const(0, value.dtype) if total is None else total


def _add_term(
    outer: Sequence[Axis], terms: list[tuple[Expr, Expr]], condition: Expr, body: Expr
) -> None:
    """Add a term; one of the same value that never counts together with it takes it in."""
    for n, (known, other) in enumerate(terms):
        if other is body and not eliminate(outer, (), logical_and(known, condition)).pieces:
            terms[n] = (logical_or(known, condition), body)
            return
    terms.append((condition, body))


def solve_sum(outer: Sequence[Axis], e: Reduce) -> Expr:
    """A sum over the nonzero points of its own condition only."""
    return sum_over(outer, eliminate(outer, e.axes, e.condition), e.sources[0])
