"""A model of JAX with an operator of one's own learns handwritten digits."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from examples import jax_training
from tensorad.errors import MissingPackageError

ROOT = Path(__file__).resolve().parents[2]
LEAST = 0.97
MOST_SECONDS = 60.0
"""Of processors."""


@pytest.mark.interop
@pytest.mark.slow
def test_digits_are_told_apart_within_a_minute_from_the_import() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    pytest.importorskip("sklearn", reason="the digits need the extra train")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "examples.jax_training"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"(\d\d\.\d\d)% of 450 test images right, [\d.]+ s\n", done.stdout)
    assert found is not None and float(found[1]) >= 100 * LEAST


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingPackageError("tensorad.interop.jax needs the package jax.", hint="install it.")

    monkeypatch.setattr(jax_training, "distances", missing)
    monkeypatch.setattr(jax_training, "check_installed", lambda *what: None)
    with pytest.raises(SystemExit) as caught:
        jax_training.main([])
    assert caught.value.code == ("tensorad.interop.jax needs the package jax.\n  hint: install it.")


def test_wrong_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        jax_training.main(["--epochs", "0"])
    assert capsys.readouterr().err.endswith("error: --epochs 0: there has to be one\n")
