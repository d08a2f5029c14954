"""`a & b` and `a | b` evaluate `b` only where `a` does not decide, as Python's `and` and `or`."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.expr import FALSE, TRUE, Axis, Call, Expr, select
from tensorad.ir.nodes import CONDITION, READ
from tensorad.ir.order import above
from tensorad.ir.visit import postorder, substitute_all
from tensorad.simplify.bounds import unproved_reads


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
