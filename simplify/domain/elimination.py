"""The record of one elimination: a domain, and the loops that replace it."""

from __future__ import annotations

from dataclasses import dataclass

from tensorad.ir.analysis.decisions import Record
from tensorad.ir.expr import Axis, Expr
from tensorad.simplify.domain.solution import Solution


@dataclass(frozen=True, eq=False)
class Elimination(Record):
    """A domain {inner : bounds, condition} and the loops that replace it."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    condition: Expr
    solution: Solution
