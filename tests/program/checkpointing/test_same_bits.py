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
@pytest.mark.parametrize("seed", [8, 10, *range(205, 205 + SLOW)])
def test_random_loops(seed: int) -> None:
    check_same_bits(seed)


@pytest.mark.parametrize("segment", [1, 2, 4, 5])
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


@pytest.mark.parametrize("segment", [5, 8, 11])
def test_a_row_at_a_shorter_last_segment(segment: int) -> None:
    """Conditions that distinguish the last segment say where the row is, in each case."""
    data = np.random.default_rng(206)
    x, w = data.normal(size=3), data.normal(size=17)

    def of(**way: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            def step(i: Any, c: Any) -> Any:
                return 0.3 * (w[i] * c) - 0.4 * ta.compute((3,), lambda k: c[k] * w[k])

            return ta.for_loop(1, 14, step, x, **way).sum()

        return ta.grad(loss, argnums=(0, 1))

    for a, b in zip(of()(x, w), of(checkpoint=segment)(x, w), strict=True):
        np.testing.assert_array_equal(a, b)
