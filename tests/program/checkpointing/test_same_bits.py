"""Loops that store less have the same bits, however outside tensors are read."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.support.programs.random_loops import check_same_bits

SLOW = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, 10, *range(204, 204 + SLOW)])
def test_random_loops(seed: int) -> None:
    check_same_bits(seed)


@pytest.mark.parametrize("segment", [1, 2])
def test_a_matrix_and_its_row_at_the_counter(segment: int) -> None:
    """The row is added after what the whole matrix gets, however long segments are."""
    data = np.random.default_rng(0)
    w, x = data.normal(size=(6, 6)), data.normal(size=6)

    def of(**way: Any) -> Any:
        def loss(w: Any, x: Any) -> Any:
            def step(i: Any, c: Any) -> Any:
                return ta.tanh(w @ c + w[i] * c)

            return ta.for_loop(0, 6, step, x, **way).sum()

        return ta.grad(loss, argnums=(0, 1))

    for a, b in zip(of()(w, x), of(checkpoint=segment)(w, x), strict=True):
        np.testing.assert_array_equal(a, b)
