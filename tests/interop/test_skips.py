"""Where all packages are installed, `.ci/run interop` and `peers` allow no test to be skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 'import pytest\n\npytest.importorskip("no_such_package")\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "workers", "passes"),
    [(SKIPPED, ["-n", "1"], False), ("def test_it(): ...\n", [], True)],
)
def test_a_skip_fails_where_none_is_allowed(
    text: str, workers: list[str], passes: bool, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(text)
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest",
        "--no-skips", *workers, str(tmp_path / "test_it.py"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode == 0) is passes, done.stdout
    assert ("1 skipped" in done.stdout) is not passes


def test_the_modes_of_ci_allow_none() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert text.count("--no-skips") == 3
    done = subprocess.run(
        ["bash", ".ci/run", "nothing"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "usage: .ci/run [interop|peers]\n")
