"""Sums that add the same value again: the value times how often it is added."""

from __future__ import annotations

from tensorad.ir.expr import (
    Axis,
    Const,
    Expr,
    Reduce,
    call,
    cast,
    const,
    logical_and,
    mul,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.visit import free_leaves, uses_any
from tensorad.simplify.zeros.lift import rewrite_outside


def without_repeats(body: Expr) -> Expr:
    """sum(f, axes (k, l)) -> sum(f * (upper - lower of k), axes (l)), if f does not vary over k.

    Ensures: equal values for finite data; f is read only where the loop over k has a value.
    """
    if not occurs(REDUCE, body):
        return body
    return rewrite_outside(body, lambda e: _counted(e) if isinstance(e, Reduce) else None)


def _counted(e: Reduce) -> Expr:
    repeats = _repeats(e) if e.combiner.is_sum else []
    if not repeats:
        return e
    (source,) = e.sources
    condition = e.condition
    for a in repeats:
        source = mul(source, cast(sub(a.upper, a.lower), source.dtype))
        condition = logical_and(condition, call("lt", a.lower, a.upper))
    kept = [a for a in e.axes if not any(a is r for r in repeats)]
    if not kept:
        return select(condition, source, const(0, source.dtype))
    return reduce_expr(e.combiner, (source,), tuple(kept), condition)


def _repeats(e: Reduce) -> list[Axis]:
    """The axes that nothing inside depends on, and whose bounds hold for the whole sum."""
    used = free_leaves(*e.sources, e.condition)
    found: list[Axis] = []
    for a in reversed(e.axes):
        bounds = (a.lower, a.upper, a.step)
        one = isinstance(a.step, Const) and a.step.value == 1
        if a not in used and one and not any(uses_any(b, e.axes) for b in bounds):
            found.append(a)
        used.update(free_leaves(*bounds))
    return found
