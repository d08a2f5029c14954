"""Loops of which derivatives store something for each step."""

from __future__ import annotations

from typing import Final

from tensorad.errors import GradError
from tensorad.ir.expr import Axis
from tensorad.ir.order import READ, occurs
from tensorad.simplify.index.intervals import interval

_UNBOUNDED: Final = (1 << 31) - 1
"""Steps of a loop that nothing bounds but the dtype of what it reads."""


def check_stored(name: str, a: Axis) -> None:
    """Whether what each step of a loop finds can be stored for the derivative of an operation.

    Raises:
        GradError: data alone bound the loop.
    """
    bounds = interval(a)
    steps = 0 if bounds.lo is None or bounds.hi is None else bounds.hi - bounds.lo
    if steps >= _UNBOUNDED and occurs(READ, a.lower, a.upper):
        raise GradError(
            f"the derivative of {name} stores what each step over {a.name} finds, but data alone "
            f"bound {a.name}.",
            where=f"{a.name} in [{a.lower}, {a.upper})",
            hint="bound it in the formula, too: reduce_axis((maximum(p[i], 0), "
            "minimum(p[i + 1], n))).",
        )
