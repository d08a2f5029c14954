"""The mistakes by kind. They were written from the source, not from its tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.mutants.lists import (
    calculus,
    calls,
    checking,
    dtypes,
    fresh_code,
    fresh_derivatives,
    fresh_interop,
    fresh_operators,
    fresh_programs,
    functions,
    index_checks,
    integer_sets,
    intervals,
    kernels,
    memory,
    programs,
    third_operators,
    third_programs,
    threads,
)
from tests.mutants.mistake import Mistake

KINDS: Final[dict[str, Sequence[Mistake]]] = {
    "calculus": calculus.MISTAKES,
    "integer_sets": integer_sets.MISTAKES,
    "intervals": intervals.MISTAKES,
    "dtypes": dtypes.MISTAKES,
    "index_checks": index_checks.MISTAKES,
    "kernels": kernels.MISTAKES,
    "memory": memory.MISTAKES,
    "calls": calls.MISTAKES,
    "threads": threads.MISTAKES,
    "functions": functions.MISTAKES,
    "programs": programs.MISTAKES,
    "checking": checking.MISTAKES,
    "fresh_operators": fresh_operators.MISTAKES,
    "fresh_derivatives": fresh_derivatives.MISTAKES,
    "fresh_code": fresh_code.MISTAKES,
    "fresh_interop": fresh_interop.MISTAKES,
    "fresh_programs": fresh_programs.MISTAKES,
    "third_programs": third_programs.MISTAKES,
    "third_operators": third_operators.MISTAKES,
}
