"""What a condition around a formula says of fewer axes than it speaks of."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.analysis.points import possible
from tensorad.ir.expr import Axis, Const, Expr, logical_and, logical_or
from tensorad.ir.order import axes_in
from tensorad.ir.visit import conjuncts, free_leaves, substitute
from tensorad.simplify.zeros.eliminate import eliminate


def own_part(guard: Expr, used: Sequence[Axis]) -> Expr:
    """The index conditions that a guard implies and that speak of some axes alone.

    An axis of one value is that value.
    """
    known = dict.fromkeys(used)
    single = [a for a in axes_in(guard) if a.extent == 1 and isinstance(a.lower, Const)]
    parts = conjuncts(possible(substitute(guard, {a: a.lower for a in single if a not in known})))
    return logical_and(*[c for c in parts if all(a in known for a in free_leaves(c))])


def reached(guard: Expr, used: Sequence[Axis], context: Sequence[Axis]) -> Expr | None:
    """Where, over the axes `used`, the guard may hold for some values of the other axes around.

    It holds nowhere else; where a piece's loops over the others are empty, it does not hold
    either. None if the guard was not solved exactly.

    Requires: a guard of index conditions.
    """
    known = dict.fromkeys(used)
    needed = free_leaves(guard)
    for a in reversed(context):
        if a in needed:
            needed.update(free_leaves(a.lower, a.upper, a.step))
    others = [a for a in context if a in needed and a not in known]
    solution = eliminate(used, others, guard)
    if not solution.exact or solution.method != "isl":
        return None
    return logical_or(*[p.guard for p in solution.pieces])
