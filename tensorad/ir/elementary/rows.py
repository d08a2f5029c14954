"""Every scalar function of the language, in the table."""

from __future__ import annotations

from typing import Final

from tensorad.ir.elementary import (
    error_function,
    exponential,
    gamma,
    hyperbolic,
    inverse_hyperbolic,
    inverse_trigonometric,
    remainder,
    trigonometric,
)
from tensorad.ir.elementary.table import FUNCTIONS as FUNCTIONS
from tensorad.ir.elementary.table import register

for _subject in (
    exponential,
    hyperbolic,
    error_function,
    trigonometric,
    inverse_trigonometric,
    inverse_hyperbolic,
    remainder,
    gamma,
):
    for _row in _subject.ROWS:
        register(_row)

BUILT_IN: Final = frozenset(FUNCTIONS)
"""The names of those: what is registered later is a user's."""
