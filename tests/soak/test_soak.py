"""A short soak, and what it would say of a process that keeps too much."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.measures import Held, complaints, held

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_all_comes_back() -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", "0.2", "--seed", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    told = [line for line in done.stdout.splitlines() if "memory grows" not in line]
    assert "done: " in done.stdout, done.stderr[-2000:]
    assert not [line for line in told if ": " in line and not line.startswith("done")], told


def test_what_is_kept_is_told() -> None:
    first = held(0)
    assert first.resident > 1 << 20 and first.threads >= 1 and first.mappings > 10
    grown = [first._replace(cycles=n * 100, resident=n << 20) for n in range(6)]
    assert complaints(grown) == ["memory grows by 10.00 MB per 1,000 cycles"]
    flat = [Held(n, 5 << 20, 4, 7, 90) for n in range(5)]
    assert complaints(flat) == []
    assert complaints([*flat, Held(9, 5 << 20, 5, 9, 400)]) == [
        "threads: 4 at first, 5 at last", "descriptors: 7 at first, 9 at last",
        "mappings: 90 at first, 400 at last",
    ]  # fmt: skip
