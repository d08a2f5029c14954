"""One body to statements: reductions become loops that fold into scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tensorad.codegen.loops.ir import Assign, Fold, If, Stmt, Visit
from tensorad.codegen.loops.rewrite import serial
from tensorad.ir.analysis.levels import split_condition
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Expr,
    Param,
    Reduce,
    Select,
    logical_and,
    logical_not,
    logical_or,
    param,
    reduce_expr,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.visit import (
    and_then,
    children,
    either,
    needs,
    outside_reductions,
    substitute,
    substitute_all,
)


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
    """The reductions in order, those of one fold together, each with its need.

    A need does not ask for the values themselves: where they decide, they are computed.
    """
    groups: dict[Reduce, list[Expr]] = {}
    for e in order:
        if isinstance(e, Reduce):
            first = reduce_expr_of(e.combiner, e.sources, e.axes, e.condition, 0)
            groups.setdefault(first, []).append(e)
    loops = []
    for first, members in groups.items():
        guard = reduce(either, [need[e] for e in members])
        loops.append((_fold_loop(first), _whatever(guard, dict.fromkeys(members))))
    return loops


def _whatever(condition: Expr, unknown: Mapping[Expr, None]) -> Expr:
    """Where a condition holds for some values of the unknown nodes, each comparison apart."""
    if not occurs(REDUCE, condition):
        return condition
    touched = dict(unknown)
    ways: dict[Expr, tuple[Expr, Expr]] = {}
    """Node -> where it may be true, where it may be false."""
    for e in outside_reductions((condition,)):
        if e not in touched and not any(c in touched for c in children(e)):
            ways[e] = (e, logical_not(e)) if e.dtype is BOOL else (TRUE, TRUE)
            continue
        touched[e] = None
        ways[e] = _either_way(e, [] if isinstance(e, Reduce) else [ways[c] for c in children(e)])
    return ways[condition][0]


def _either_way(e: Expr, parts: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    """Where a node may be true and where it may be false, for those of its operands."""
    match e:
        case Call(op="not"):
            return parts[0][1], parts[0][0]
        case Call(op="and"):
            return logical_and(*[a for a, _ in parts]), logical_or(*[b for _, b in parts])
        case Call(op="or"):
            return logical_or(*[a for a, _ in parts]), logical_and(*[b for _, b in parts])
        case Select() if e.dtype is BOOL:
            (yes, no), then, orelse = parts
            true, false = [
                logical_or(and_then(yes, a), and_then(no, b))
                for a, b in zip(then, orelse, strict=True)
            ]
            return true, false
    return TRUE, TRUE


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
    body = serial(fold.axes, (Visit(), *body))
    return body if outer is TRUE else (If(outer, body),)
