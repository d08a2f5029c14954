"""One body to statements: reductions become loops that fold into scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tensorad.codegen.loopir import Assign, Fold, For, If, Stmt, Visit
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Param,
    Reduce,
    param,
    reduce_expr,
)
from tensorad.ir.levels import split_condition
from tensorad.ir.visit import either, needs, outside_reductions, substitute, substitute_all


@dataclass(frozen=True, eq=False)
class FoldLoop:
    """The reductions that share one loop nest, one accumulator per component."""

    combiner: Combiner
    sources: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    condition: Expr
    accumulators: tuple[Param, ...]
    start: tuple[Expr, ...] = ()
    """What the accumulators start from, if not from the combiner's identity."""
    merge: Combiner | None = None
    """A combiner of the same result for points in any order, if it takes one of its own."""


def lower_values(roots: Sequence[Expr]) -> tuple[tuple[Stmt, ...], tuple[Expr, ...]]:
    """Statements that compute every reduction under `roots`, and the roots over the results.

    A reduction under a branch of a select is computed only where the branch is taken.
    """
    order = outside_reductions(roots)
    if not any(isinstance(e, Reduce) for e in order):
        return (), tuple(roots)
    need = needs(roots, order)
    results: dict[Expr, Expr] = {}
    statements: list[Stmt] = []
    for fold, guard in fold_loops(order, need):
        body = lower_fold(fold)
        if guard is not TRUE:
            before, guard = _lower_guard(guard, results)
            statements.extend(before)
            body = (If(guard, body),)
        statements.append(Assign(fold.accumulators, fold.combiner.identity))
        statements.extend(body)
        for index, value in enumerate(fold.accumulators):
            results[component(fold, index)] = value
    return tuple(statements), substitute_all(roots, results)


def component(fold: FoldLoop, index: int) -> Reduce:
    """The reduction whose value is accumulator `index`."""
    return reduce_expr_of(fold.combiner, fold.sources, fold.axes, fold.condition, index)


def reduce_expr_of(
    combiner: Combiner,
    sources: tuple[Expr, ...],
    axes: tuple[Axis, ...],
    condition: Expr,
    index: int,
) -> Reduce:
    """`reduce_expr`, typed as the node it makes."""
    made = reduce_expr(combiner, sources, axes, condition, index)
    assert isinstance(made, Reduce)  # the factory makes nothing else
    return made


def _lower_guard(guard: Expr, results: dict[Expr, Expr]) -> tuple[tuple[Stmt, ...], Expr]:
    """A guard over earlier results; reductions that come later are computed for it alone."""
    statements, (value,) = lower_values((substitute(guard, results),))
    return statements, value


def fold_loops(order: Sequence[Expr], need: dict[Expr, Expr]) -> list[tuple[FoldLoop, Expr]]:
    """The reductions in order, those of one fold together, each with its need."""
    groups: dict[Reduce, list[Expr]] = {}
    for e in order:
        if isinstance(e, Reduce):
            first = reduce_expr_of(e.combiner, e.sources, e.axes, e.condition, 0)
            groups.setdefault(first, []).append(e)
    loops = []
    for first, members in groups.items():
        guard = reduce(either, [need[e] for e in members])
        loops.append((_fold_loop(first), guard))
    return loops


def _fold_loop(e: Reduce) -> FoldLoop:
    return FoldLoop(e.combiner, e.sources, e.axes, e.condition, accumulators_for(e.combiner))


def accumulators_for(combiner: Combiner) -> tuple[Param, ...]:
    """New scalars for the state of a fold."""
    names = ["acc"] if combiner.arity == 1 else [f"acc{n}" for n in range(combiner.arity)]
    return tuple([param(n, c.dtype) for n, c in zip(names, combiner.identity, strict=True)])


def lower_fold(fold: FoldLoop) -> tuple[Stmt, ...]:
    """The loops of a fold, its accumulators already set.

    Conjuncts over outer axes alone switch the whole loop off; the others are tested inside.
    """
    before, values = lower_values(fold.sources)
    body: tuple[Stmt, ...] = (*before, Fold(fold.accumulators, fold.combiner, values))
    outer, inner = split_condition(fold.condition, fold.axes)
    if inner is not TRUE:
        before, (inner,) = lower_values((inner,))
        body = (*before, If(inner, body))
    body = (Visit(), *body)
    for a in reversed(fold.axes):
        body = (For(a, body),)
    return body if outer is TRUE else (If(outer, body),)
