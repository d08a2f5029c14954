"""Derivatives of random programs of records, branches by tags, loops and calls of definitions."""

from __future__ import annotations

import pytest

from tests.random.generators import campaign
from tests.random.records.derivatives import assert_derivatives


def check(seeds: range, **how: bool) -> None:
    moved = [assert_derivatives(seed, **how) > 0 for seed in seeds]
    assert sum(moved) > 0.6 * len(moved)


def test_both_modes_and_differences_agree() -> None:
    check(range(12), compiled=False, second=False)


@pytest.mark.slow
def test_second_derivatives_and_machine_code() -> None:
    check(range(12, 18), compiled=True, second=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", campaign(range(4), 2))
def test_more_programs(part: int) -> None:
    check(range(1000 + 25 * part, 1025 + 25 * part), compiled=True, second=True)
