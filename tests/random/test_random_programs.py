"""Random programs: every derivative right in every mode, and no more work than the yardstick.

The seeds give many programs fast; hypothesis gives fewer, and shrinks the one that fails. With
HYPOTHESIS_PROFILE=soak there are twenty-four times as many, new ones every day.
"""

from __future__ import annotations

import random
import time
from datetime import date

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tensorad.ir.tensor import Tensor
from tests.random.generators import (
    SOAK,
    Choices,
    Program,
    random_program,
    random_symbolic_program,
)
from tests.support.program_checks import (
    MODES,
    Derivatives,
    check_derivatives,
)

SEEDS = range(2_400) if SOAK else range(60)
START = date.today().toordinal() * 10_000 if SOAK else 0
SCATTERS = (
    5,
    24,
    34,
    54,
    81,
    97,
    112,
    129,
    130,
    131,
    133,
    134,
    183,
    186,
    205,
    249,
    259,
    269,
    271,
    300,
    301,
    346,
    353,
    355,
    378,
    395,
    396,
    397,
    398,
    407,
    412,
    444,
    468,
    473,
    507,
    518,
    552,
    559,
    567,
    568,
    572,
    608,
    619,
    634,
    642,
    646,
    662,
    680,
    688,
    696,
    710,
    732,
    734,
    744,
    763,
    817,
    832,
    833,
    843,
    845,
    856,
    884,
    890,
)
"""Programs that scatter with a product, a maximum or a minimum."""
PATIENCE = 20.0
"""Seconds that writing all derivatives of one small program may take."""


def choose(
    seed: int, rng: random.Random | None = None, sums: bool = True
) -> tuple[Program, random.Random]:
    """A program, a fifth of them with symbolic sizes, and what decides the rest of the test.

    `sums`: whether scatters only sum.
    """
    rng = rng or random.Random(seed)
    by_data = rng.random() < 0.8
    if rng.random() < 0.2:
        return random_symbolic_program(seed, "float64", 3, by_data, rng, sums=sums), rng
    computes = rng.choice((1, 2, 3, 3, 4, 6))
    return random_program(seed, "float64", computes, by_data, rng=rng, sums=sums), rng


def sources(program: Program, rng: random.Random) -> tuple[Tensor, list[Tensor]]:
    """(an output, what it is derived by: all float inputs, now and then an intermediate too)."""
    y = program.outputs[-1]
    wrt = list(program.float_inputs)
    between = program.intermediates(y)
    if between and rng.random() < 0.2:
        wrt = [*rng.choice((wrt, [])), rng.choice(between)]
    return y, wrt


def differentiate(program: Program, rng: random.Random) -> Derivatives:
    """All derivatives of one output."""
    y, wrt = sources(program, rng)
    start = time.perf_counter()
    derivatives = Derivatives(program, y, wrt, rng.choice(MODES))
    assert time.perf_counter() - start < PATIENCE
    return derivatives


def check_program(program: Program, rng: random.Random) -> list[str]:
    """Everything, at one point or at several sizes; what the points were like."""
    return check_derivatives(differentiate(program, rng), rng)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(9))
def test_derivatives(seed: int) -> None:
    check_program(*choose(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_more_derivatives(seed: int) -> None:
    check_program(*choose(START + 9 + seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SCATTERS if SOAK else SCATTERS[::3])
def test_scatters_with_any_combiner(seed: int) -> None:
    program, rng = choose(seed, sums=False)
    assert program.features & {"scatter prod", "scatter max", "scatter min"}
    check_program(program, rng)


@pytest.mark.slow
@settings(max_examples=600 if SOAK else 25)
@given(st.randoms(use_true_random=False), st.integers(0, 1 << 30))
def test_derivatives_of_shrinkable_programs(source: random.Random, seed: int) -> None:
    for kind in check_program(*choose(seed, Choices(source))):
        event(kind)


def test_most_points_have_derivatives() -> None:
    kinds = [kind for seed in range(12, 16) for kind in check_program(*choose(seed))]
    assert kinds.count("kink") <= len(kinds) // 8


@pytest.mark.parametrize("seed", (91, 324))
def test_programs_that_failed_once(seed: int) -> None:
    """A read of another formula's stage; equal formulas told apart by conditions."""
    check_program(*choose(seed))
