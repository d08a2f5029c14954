"""Random programs with everything in them: every way to run them agrees, and so do derivatives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tensorad as ta
from tests.random.whole.checks import check_seed, run_text
from tests.random.whole.generator import KINDS, whole_program
from tests.random.whole.plain import Plain
from tests.random.whole.shrink import failure_of, shrunk
from tests.random.whole.texts import Program


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(10_001, 10_013))
def test_programs(seed: int) -> None:
    check_seed(seed)


def test_programs_contain_everything() -> None:
    found: Counter[str] = Counter()
    for seed in range(500):
        found.update(whole_program(seed).features)
    assert {make.__name__ for _, _, make in KINDS} == {f for f in found if " " not in f}
    assert min(found[make.__name__] for _, _, make in KINDS) >= 2
    closed = ("reference", "apply", "listed", "composed")
    assert all(found[f"{name} in a closed block"] for name in closed)


def test_a_failing_program_is_made_smaller() -> None:
    """The failure: the program has a sine."""

    def check(program: Program) -> None:
        run_text(program, Plain())(np.float64(0.5), np.ones(3), np.int64(2))
        assert "ta.sin(v_" not in str(program), "found: a sine"

    seed = next(s for s in range(100) if failure_of(check)(whole_program(s, 12)))
    program = whole_program(seed, 12)
    before = len(str(program).splitlines())
    small = shrunk(program, failure_of(check))
    assert failure_of(check)(small) == "AssertionError found"
    assert len(str(small).splitlines()) < before


def test_a_failure_shows_the_program() -> None:
    """Rules of the oracle that are not the library's are told with a text that runs."""
    program = whole_program(3)
    assert str(program).startswith("# seed 3\n")
    run_text(program, ta)
