"""Derivatives of random programs: both modes, differences, second orders, Jacobians."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tests.random.generators import campaign
from tests.support.programs.oracles import check_both_modes
from tests.support.programs.random_programs import SIZE, Programs


@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", campaign(range(240), 50))
def test_derivatives_of_random_programs(seed: int) -> None:
    made = Programs(seed)
    y, rng = made.program(), np.random.default_rng(seed)
    x, m = made.x, made.m
    at = {t: rng.uniform(-1, 1, t.shape) for t in (x, made.y, m)} | {made.count: seed % 4}
    check_both_modes(y, [x, made.y, m], at)
    h = ta.placeholder((SIZE,), "float64", name="h")
    bound = {**at, h: rng.uniform(-1, 1, SIZE)}
    match seed % 3:
        case 0:
            check_both_modes(ta.vjp(y, [m], h)[0], [x, m, h], bound)
        case 1:
            check_both_modes(ta.jvp(y, {x: h}), [x, m, h], bound)
        case 2:
            modes = [ta.jacobian(y, x, mode=mode) for mode in ("reverse", "forward")]
            by_rows, by_columns = ta.interpret(modes, at)
            assert np.allclose(by_rows, by_columns)
