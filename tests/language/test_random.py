"""Random programs: interpreted, evaluated and compiled, without dead code."""

from __future__ import annotations

import os

import pytest

from tests.support.language.checks import check_program

FAST, SLOW = 6, 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 100


@pytest.mark.parametrize("seed", range(FAST))
def test_interpreted_evaluated_compiled(seed: int) -> None:
    check_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST, SLOW, 25))
def test_dead_code_never_changes_a_value(first: int) -> None:
    for seed in range(first, min(first + 25, SLOW)):
        check_program(seed)
