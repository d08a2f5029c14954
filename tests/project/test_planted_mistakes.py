"""A mistake in any pass is found: by comparing around passes, and by bisecting a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensorad import config
from tensorad.bisect import first_wrong_pass
from tensorad.errors import InternalError
from tensorad.passes import Pass
from tensorad.simplify.zeros.passes import NONZERO_PASSES
from tests.random.generators import SOAK
from tests.support.machines import described
from tests.support.planted import PLANTED, Gradients, Mistake, planted, program_for

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = [(p, m) for p, m in PLANTED if not p.required]
BISECTED = OPTIONAL if SOAK else OPTIONAL[::3]
OVER_BODIES = [(p, m) for p, m in OPTIONAL if p in NONZERO_PASSES]


def _named(pairs: list[tuple[Pass[Any, Any], Mistake]]) -> list[str]:
    return [f"{p.name}-{mistake.__name__}" for p, mistake in pairs]


@pytest.mark.sampled(32)
@pytest.mark.parametrize(("p", "mistake"), PLANTED, ids=_named(PLANTED))
@described()
def test_comparing_names_the_pass(p: Pass[Any, Any], mistake: Mistake) -> None:
    program = program_for(p)
    told = pytest.raises(InternalError, match=rf"^the pass {p.name} changed values: ")
    with planted(p, mistake), config.override(debug=("check",)), told:
        program.is_right()


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("p", "mistake"), BISECTED, ids=_named(BISECTED))
@described()
def test_bisecting_names_the_pass(p: Pass[Any, Any], mistake: Mistake) -> None:
    program = program_for(p)
    assert program.is_right()
    with planted(p, mistake):
        found = first_wrong_pass(program.is_right)
    assert found is not None
    assert found.name == p.name


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("p", "mistake"), OVER_BODIES, ids=_named(OVER_BODIES))
@described()
def test_bisecting_names_the_pass_of_a_body_that_unsolved_is_a_scatter(
    p: Pass[Any, Any], mistake: Mistake
) -> None:
    gradients = Gradients()
    with planted(p, mistake):
        found = first_wrong_pass(gradients.is_right)
    assert found is not None
    assert found.name == p.name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["split_conditions"])
def test_the_command_names_the_pass(name: str) -> None:
    script = str(ROOT / "tests" / "support" / "planted.py")
    done = subprocess.run(
        [sys.executable, "-m", "tensorad.bisect", script, name],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2].startswith(f"the first wrong pass is {name}, number ")
