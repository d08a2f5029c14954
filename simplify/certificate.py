"""Certificates of eliminations (being written)."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.expr import Axis, Expr
from tensorad.simplify.domain import Solution
from tensorad.simplify.record import Elimination, note


def checked(
    outer: Sequence[Axis], inner: Sequence[Axis], condition: Expr, solution: Solution
) -> Solution:
    """Note an elimination; returns its solution."""
    note(Elimination(tuple(outer), tuple(inner), condition, solution))
    return solution
