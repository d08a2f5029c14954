"""The training run inside of PyTorch: accuracy and time."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAST = 97.0
MOST_SECONDS = 60.0
"""Of processors: what else the machine does is no part of it."""
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """They take seconds to load: tests that are left out do not ask for them."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def test_it_learns_within_a_minute() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [sys.executable, "examples/torch_training.py"], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=600, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found.returncode == 0, found.stderr
    accuracy = re.search(r"test accuracy ([\d.]+) %", found.stdout)
    assert accuracy is not None and float(accuracy[1]) >= LEAST, found.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS


def test_its_operator_is_the_formula_in_pytorch() -> None:
    torch_training = import_module("examples.torch_training")
    torch = torch_training.torch
    x, c, w = [torch.rand(n, 64) for n in (3, 5, 5)]
    parts = ((x[:, None] - c[None]) ** 2 * w[None]).reshape(3, 5, 4, 16).sum(-1)
    expected = -torch.log(torch.exp(-parts).sum(-1) + 1e-6)
    torch.testing.assert_close(torch_training.part_distances(x, c, w), expected)
