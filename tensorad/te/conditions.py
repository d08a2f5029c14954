"""What conditions guard: the right side of `a & b` and `a | b`, and the bounds of loops.

`a & b` and `a | b` evaluate `b` only where `a` does not decide, as Python's `and` and `or`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from tensorad.ir.expr import (
    FALSE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Expr,
    Read,
    Reduce,
    axis,
    reduce_expr,
    select,
)
from tensorad.ir.nodes import CONDITION, READ
from tensorad.ir.order import REDUCE, above, occurs, outside_reductions, reads
from tensorad.ir.visit import and_then, either, needs, postorder, rewrite, substitute_all
from tensorad.simplify.bounds.reads import unproved_reads

Axes = tuple[Axis, ...]


def with_guards(axes: Sequence[Axis], bodies: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The bodies of a tensor over `axes`, guards in the places where they are needed."""
    return guard_loops(axes, guard_rightwards(axes, bodies))


def guard_rightwards(axes: Sequence[Axis], bodies: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """a & b → select(a, b, False), a | b → select(a, True, b) where b may read outside a tensor.

    Other operands are evaluated without a branch: nobody can tell.

    Args:
        axes: of the loops around the bodies.
    """
    joined = [e for e in above(CONDITION, *bodies) if _reads_on_the_right(e)]
    unproved = unproved_reads(axes, bodies) if joined else {}
    guarded: dict[Expr, Expr] = {}
    for e in joined:
        if any(part in unproved for part in postorder(e.below[1])):
            first, second = substitute_all(e.below, guarded)
            both = isinstance(e, Call) and e.op == "and"
            guarded[e] = select(first, second, FALSE) if both else select(first, TRUE, second)
    return substitute_all(bodies, guarded)


def _reads_on_the_right(e: Expr) -> bool:
    return isinstance(e, Call) and e.op in ("and", "or") and bool(e.args[1].kinds & READ)


def guard_loops(axes: Sequence[Axis], bodies: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """select(g, sum(x, k < N[i]), c) → the sum over k < select(g, N[i], 0) where i may be outside.

    Loops read their bounds whatever guards what is inside of them. A guard that folds something
    itself stays outside.

    Args:
        axes: of the loops around the bodies.
    """
    ragged = [e for e in above(REDUCE, *bodies) if isinstance(e, Reduce) and _read_bounds(e.axes)]
    unproved = unproved_reads(axes, bodies) if ragged else {}
    guards = _guards_of_loops(bodies) if unproved else {}
    made: dict[Axes, tuple[Axes, tuple[Expr, ...]]] = {}

    def rule(e: Expr) -> Expr | None:
        guard = guards.get(e.axes, TRUE) if isinstance(e, Reduce) else TRUE
        if not isinstance(e, Reduce) or guard is TRUE:
            return None
        if e.axes not in made:  # components of one fold stay together
            fresh = _guarded_axes(e.axes, guard, unproved)
            inside = substitute_all((e.condition, *e.sources), fresh)
            made[e.axes] = tuple([a for a in fresh.values() if isinstance(a, Axis)]), inside
        new, (condition, *sources) = made[e.axes]
        return reduce_expr(e.combiner, tuple(sources), new, condition, e.index)

    memo: dict[Expr, Expr] = {}
    return tuple([rewrite(b, rule, memo, REDUCE) for b in bodies]) if guards else bodies


def _read_bounds(axes: Sequence[Axis]) -> bool:
    return occurs(READ, *[b for a in axes for b in (a.lower, a.upper, a.step)])


def _guards_of_loops(bodies: tuple[Expr, ...]) -> dict[Axes, Expr]:
    """Where each nest of reduce axes is entered, as far as no fold decides it."""
    found: dict[Axes, Expr] = {}
    todo: list[tuple[tuple[Expr, ...], Expr]] = [(bodies, TRUE)]
    while todo:
        roots, outside = todo.pop()
        order = outside_reductions(roots)
        need = needs(roots, order)
        for e in order:
            if isinstance(e, Reduce):
                here = _both(outside, need[e])
                found[e.axes] = either(found[e.axes], here) if e.axes in found else here
                todo.append((e.sources, _both(here, e.condition)))
                todo.append(((e.condition,), here))
    return found


def _both(first: Expr, second: Expr) -> Expr:
    """The second condition, evaluated only where the first holds; without what a fold decides."""
    known = TRUE if occurs(REDUCE, second) else second
    return first if known is TRUE else and_then(first, known)


def _guarded_axes(axes: Axes, guard: Expr, unproved: dict[Read, None]) -> dict[Expr, Expr]:
    """Axes -> those of the same loops, empty where a guard of reads in their bounds fails."""
    fresh: dict[Expr, Expr] = {}
    for a in axes:
        bounds = substitute_all((a.lower, a.upper, a.step), fresh)
        if any(r in unproved for r in reads(a.lower, a.upper, a.step)):
            bounds = (*[select(guard, b, ZERO) for b in bounds[:2]], bounds[2])
        fresh[a] = a if all(map(is_, bounds, (a.lower, a.upper, a.step))) else axis(a.name, *bounds)
    return fresh
