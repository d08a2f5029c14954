"""Data-dependent indices are verified by loops of their own, before the loops that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorad.codegen.loopir import Check, For, If, Kernel, Stmt
from tensorad.codegen.lower_body import lower_values
from tensorad.ir.expr import FALSE, TRUE, ZERO, Axis, Expr, Read, Reduce, logical_and, read, select
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor, dim_expr, last_states, outputs
from tensorad.ir.visit import free_leaves, needs, op_expressions, outside_reductions, reads
from tensorad.simplify.bounds import dynamic_dimensions


@dataclass(frozen=True, eq=False)
class _Scope:
    """Expressions evaluated in loops over `axes` where `guard` holds."""

    roots: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    guard: Expr


def check_kernel(op: Op, into: Tensor | None = None) -> Kernel | None:
    """Loops that check every read and write of `op` that data may put outside; None without any.

    Args:
        into: the tensor that a scatter writes in the place of its own.
    """
    dynamic = dynamic_dimensions(op)
    if not dynamic:
        return None
    body: list[Stmt] = []
    todo = list(_scopes(op))[::-1]
    while todo:
        scope = todo.pop()
        order = outside_reductions(scope.roots)
        need = needs(scope.roots, order)
        for e in order:
            guard = _both(scope.guard, need[e])
            if isinstance(e, Read):
                checked = e if into is None or e.tensor.op is not op else read(into, e.indices)
                body.extend(_checks(checked, dynamic.get(e, ()), scope.axes, guard))
            elif isinstance(e, Reduce):
                axes = (*scope.axes, *e.axes)
                todo.append(_Scope(e.sources, axes, _both(guard, e.condition)))
                todo.append(_Scope((e.condition,), axes, guard))
    if not body:
        return None
    used = dict.fromkeys(r.tensor for r in reads(*op_expressions(op)))
    return Kernel(f"{op.name}.check", tuple(body), (), tuple(used))


def _scopes(op: Op) -> Iterator[_Scope]:
    if isinstance(op, Compute):
        yield _Scope(op.bodies, op.axes, TRUE)
    if isinstance(op, Scan):
        cells = () if op.cell is None else (read(last_states(op)[0], op.cell),)
        yield _Scope(op.start, op.axes, TRUE)
        yield _Scope((op.condition,), op.scope, TRUE)
        yield _Scope((*op.sources, *cells), op.scope, op.condition)
    if isinstance(op, Scatter):
        (out,) = outputs(op)
        for u in op.updates:
            yield _Scope((u.condition,), op.axes, TRUE)
            yield _Scope((u.value, read(out, u.indices)), op.axes, u.condition)


def _both(first: Expr, second: Expr) -> Expr:
    """The second condition is evaluated only where the first holds."""
    if first is TRUE:
        return second
    return first if second is TRUE else select(first, second, FALSE)


def _checks(r: Read, dimensions: Sequence[int], axes: Sequence[Axis], guard: Expr) -> list[Stmt]:
    """One loop nest per index that is not proved in bounds."""
    result: list[Stmt] = []
    for dimension in dimensions:
        index, extent = r.indices[dimension], dim_expr(r.tensor.shape[dimension])
        loops, entered = _needed_loops(axes, (index, guard))
        before, (condition,) = lower_values((_both(entered, guard),))
        inner, (value,) = lower_values((index,))
        indices: list[Expr] = [ZERO] * len(r.indices)  # the other indices are checked on their own
        indices[dimension] = value
        checked = read(r.tensor, tuple(indices))
        block: tuple[Stmt, ...] = (*inner, Check(checked, dimension, extent))
        if condition is not TRUE:
            block = (*before, If(condition, block))
        for a in reversed(loops):
            lanes = len(block) == 1 and isinstance(block[0], Check) and _in_a_row(index, a)
            block = (For(a, block, "vector" if lanes else "serial"),)
        result.extend(block)
    return result


def _in_a_row(index: Expr, a: Axis) -> bool:
    """Whether the indices to check lie side by side: then they are looked at in lanes."""
    if not isinstance(index, Read):
        return False
    *others, last = index.indices
    return last is a and not any(a in free_leaves(i) for i in others)


def _needed_loops(axes: Sequence[Axis], roots: Sequence[Expr]) -> tuple[list[Axis], Expr]:
    """The axes that the roots use, directly or through bounds, and that no other is empty."""
    used = free_leaves(*roots)
    needed: list[Axis] = []
    entered: Expr = TRUE
    for a in reversed(axes):
        filled = a.lower < a.upper
        if a in used:
            needed.append(a)
        elif filled is TRUE:
            continue
        else:
            entered = logical_and(filled, entered)
        used.update(free_leaves(a.lower, a.upper, a.step))
    return needed[::-1], entered
