"""What scalar operations cost: one row each, in the unit of every estimate that asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tensorad.ir.elementary.cost import (
    DIVISION,
    FUNCTION,
    INSTRUCTION,
    REMAINDER,
    OperationCost,
)
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Call, Expr
from tensorad.ir.visit import postorder

COSTS: Final[Mapping[str, OperationCost]] = {
    **dict.fromkeys(OPERATIONS, INSTRUCTION),
    **dict.fromkeys(("floordiv", "mod"), REMAINDER),
    "div": DIVISION,
    "pow": FUNCTION,
}
"""By the name of the operation (`Call.op`); a scalar function's cost is in its row."""


def cost_of(e: Call) -> OperationCost:
    """The row of an operation."""
    return FUNCTIONS[e.op].cost if e.op in FUNCTIONS else COSTS[e.op]


def takes_long(e: Call) -> bool:
    """Whether it is many instructions, and values of its own in registers."""
    return e.dtype.is_float and cost_of(e).half_cycles > 1


def operations(roots: Sequence[Expr]) -> int:
    """The weight of the float operations of expressions, each counted once."""
    return sum([cost_of(e).weight for e in _calls(roots)])


def cycles(roots: Sequence[Expr]) -> int:
    """Cycles in which a core begins the float operations of expressions, each once."""
    return sum([cost_of(e).cycles for e in _calls(roots)])


def _calls(roots: Sequence[Expr]) -> Iterable[Call]:
    return [e for e in postorder(*roots) if isinstance(e, Call) and e.dtype.is_float]
