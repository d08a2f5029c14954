"""Random programs with aliased references under branches, in loops, closures and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.support.programs.mutable import Maker, expected, program


def check(seed: int) -> None:
    """Python's values and number of writes, interpreted and compiled; both modes and differences;
    the second derivatives of some."""
    block = Maker(seed).block(3, 2)
    f = program(block)
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 3))
    wanted, writes = expected(block, x, y)
    for found, count in (ta.function(f)(x, y), ta.interpret(f, x, y)):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12, err_msg=f"seed {seed}")
        assert count == writes, f"seed {seed}: each write runs once each time"

    def total(x: Any, y: Any) -> Any:
        return f(x, y)[0]

    found = ta.grad(total, (0, 1))(x, y)
    along = rng.standard_normal((2, 3))
    slope = float(np.sum(found * along))
    _, forward = ta.jvp(total, (x, y), tuple(along))
    scale = 1 + float(np.abs(found).sum())
    np.testing.assert_allclose(
        forward, slope, rtol=1e-9, atol=1e-11 * scale, err_msg=f"seed {seed}"
    )
    _check_differences(block, x, y, along, slope, scale, f"seed {seed}")
    if seed % 5 == 0:
        _check_second_order(total, x, y, along, f"seed {seed}")


def _check_differences(
    block: Any, x: Any, y: Any, along: Any, slope: float, scale: float, told: str
) -> None:
    def at(s: float) -> float:
        return expected(block, x + s * along[0], y + s * along[1])[0]

    if scale > 1e5:  # too steep for differences
        return
    quotients = [(at(h) - at(-h)) / (2 * h) for h in (1e-5, 1e-6)]
    close = [abs(q - slope) < 1e-4 * scale for q in quotients]
    jump = abs(at(1e-6) - at(-1e-6)) > 1e-4 * scale  # another branch is taken
    assert any(close) or jump, f"{told}: {quotients} and {slope}"


def _check_second_order(total: Any, x: Any, y: Any, along: Any, told: str) -> None:
    one, two = ta.hvp(total, (x, y), tuple(along))
    (_, _), (dx, dy) = ta.jvp(ta.grad(total, (0, 1)), (x, y), tuple(along))
    np.testing.assert_allclose([one, two], [dx, dy], rtol=1e-8, atol=1e-9, err_msg=told)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs(part: int) -> None:
    for seed in range(100 + 6 * part, 106 + 6 * part):
        check(seed)
