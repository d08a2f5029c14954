"""No byte outside of the arrays of a call is read or written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.random.generators import campaign

ROOT = Path(__file__).resolve().parents[3]


def check(first: int, last: int, *options: str) -> None:
    """Run programs in a process of their own: what goes wrong ends it by a signal."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.guarded", str(first), str(last), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = done.stdout.split("\n")
    assert done.returncode == 0, f"{done.returncode} at: {lines[-2]}\n{done.stderr[-2000:]}"
    assert lines[-2] == "done"


def test_random_programs_stay_inside() -> None:
    check(0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(10, 40, 5), 1))
def test_more_random_programs_stay_inside(first: int) -> None:
    check(first, first + 5, "all")
