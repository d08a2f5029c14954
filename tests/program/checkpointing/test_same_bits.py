"""Loops that store less have the same bits, however outside tensors are read."""

from __future__ import annotations

import os

import pytest

from tests.support.programs.random_loops import check_same_bits

SLOW = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, 10, *range(204, 204 + SLOW)])
def test_random_loops(seed: int) -> None:
    check_same_bits(seed)
