"""What scalar operations cost: one row each, in the unit of every estimate that asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.ir.expr import Call, Expr
from tensorad.ir.nodes import BINARY_MATH, OPERATIONS, UNARY_MATH
from tensorad.ir.visit import postorder


@dataclass(frozen=True)
class OperationCost:
    """One operation on floats. The units differ: none is another one times a number."""

    weight: int
    """Additions that it counts as in a plan. The order of sums follows from it."""
    cycles: int
    """Until a core may begin the next one of a register: what arithmetic takes beside loads."""
    half_cycles: int
    """Of a register of lanes among other work, whose time decides whether threads start."""
    flops: int
    """Operations that a report and the order of trials in tuning count."""


INSTRUCTION: Final = OperationCost(weight=1, cycles=1, half_cycles=1, flops=1)
DIVISION: Final = replace(INSTRUCTION, cycles=8)
ROOT: Final = replace(DIVISION, half_cycles=16)
REMAINDER: Final = replace(INSTRUCTION, half_cycles=16)
FUNCTION: Final = OperationCost(weight=8, cycles=8, half_cycles=16, flops=15)
"""A polynomial, and what brings its argument near."""
COSTS: Final[Mapping[str, OperationCost]] = {
    **dict.fromkeys(OPERATIONS, INSTRUCTION),
    **dict.fromkeys((*UNARY_MATH, *BINARY_MATH, "pow"), FUNCTION),
    **dict.fromkeys(("sqrt", "rsqrt"), ROOT),
    **dict.fromkeys(("floordiv", "mod"), REMAINDER),
    "div": DIVISION,
}
"""By the name of the operation (`Call.op`)."""


def cost_of(e: Call) -> OperationCost:
    """The row of an operation."""
    return COSTS[e.op]


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
