"""What one operation costs, in the units that are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


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
