"""One body to statements: reductions become loops that fold into scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.codegen.loopir import Assign, Fold, For, If, Stmt, Visit
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    logical_and,
    logical_not,
    logical_or,
    param,
    reduce_expr,
    select,
)
from tensorad.ir.visit import children, conjuncts, postorder, substitute, substitute_all


@dataclass(frozen=True, eq=False)
class FoldLoop:
    """The reductions that share one loop nest, one accumulator per component."""

    combiner: Combiner
    sources: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    condition: Expr
    accumulators: tuple[Param, ...]


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


def outside_reductions(roots: Sequence[Expr]) -> list[Expr]:
    """Post-order of the nodes evaluated at the roots' own level; reductions are leaves."""
    done: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        missing = () if isinstance(e, Reduce) else [c for c in children(e) if c not in done]
        if missing:
            stack.extend(reversed(missing))
        else:
            done[e] = None
            stack.pop()
    return list(done)


def needs(roots: Sequence[Expr], order: Sequence[Expr]) -> dict[Expr, Expr]:
    """The condition under which each node's value is used; selects make it narrower."""
    need: dict[Expr, Expr] = dict.fromkeys(roots, TRUE)
    for e in reversed(order):
        here = need[e]
        if isinstance(e, Reduce):
            continue
        if not isinstance(e, Select):
            for c in children(e):
                _widen(need, c, here)
            continue
        _widen(need, e.cond, here)
        _widen(need, e.then, _and_then(here, e.cond))
        _widen(need, e.orelse, _and_then(here, logical_not(e.cond)))
    return need


def _and_then(first: Expr, second: Expr) -> Expr:
    """Both, the second evaluated only where the first holds."""
    return second if first is TRUE else select(first, second, FALSE)


def _widen(need: dict[Expr, Expr], e: Expr, condition: Expr) -> None:
    before = need.get(e)
    if before is None:
        need[e] = condition
    elif before is not TRUE and before is not condition:
        opposite = logical_not(before) is condition or logical_not(condition) is before
        need[e] = TRUE if opposite else logical_or(before, condition)


def fold_loops(order: Sequence[Expr], need: dict[Expr, Expr]) -> list[tuple[FoldLoop, Expr]]:
    """The reductions in order, those of one fold together, each with its need."""
    groups: dict[Reduce, list[Expr]] = {}
    for e in order:
        if isinstance(e, Reduce):
            first = reduce_expr_of(e.combiner, e.sources, e.axes, e.condition, 0)
            groups.setdefault(first, []).append(e)
    loops = []
    for first, members in groups.items():
        union: dict[Expr, Expr] = {}
        for e in members:
            _widen(union, first, need[e])
        loops.append((_fold_loop(first), union[first]))
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


def split_condition(condition: Expr, axes: Sequence[Axis]) -> tuple[Expr, Expr]:
    """The conjuncts that are index arithmetic of outer axes, and all others."""
    inside = dict.fromkeys(axes)
    outer: list[Expr] = []
    inner: list[Expr] = []
    for c in conjuncts(condition):
        varies = any(e in inside or isinstance(e, (Read, Reduce)) for e in postorder(c))
        (inner if varies else outer).append(c)
    return logical_and(*outer), logical_and(*inner)
