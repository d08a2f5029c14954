"""What scalar operations cost, about, each counted once however often it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.ir.expr import Call, Expr
from tensorad.ir.visit import postorder

HEAVY: Final = ("exp", "log", "tanh", "pow", "sin", "cos", "erf", "sigmoid", "atan2")
"""Functions that take several operations."""
FUNCTION: Final = 8
"""Operations that one of them counts as."""


def operations(roots: Sequence[Expr]) -> int:
    """How many float operations the expressions take, functions counted as several."""
    calls = [e for e in postorder(*roots) if isinstance(e, Call)]
    return sum(FUNCTION if c.op in HEAVY else 1 for c in calls if c.dtype.is_float or c.op in HEAVY)


def cycles_of(e: Call) -> float:
    """Of one register, about."""
    return float(FUNCTION) if e.op in HEAVY or e.op in ("div", "sqrt", "rsqrt") else 1.0
