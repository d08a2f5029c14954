"""Calls from Python beside another commit: by turns, all forms, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from benchmarks import calls_compared, guard
from benchmarks.__main__ import main
from benchmarks.race import call_side
from tests.benchmarks.test_guard import FakeSide


@pytest.mark.parametrize(("seconds", "code"), [(1.05e-7, 0), (1.2e-7, 1)])
def test_all_pairs_of_processes_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: float, code: int
) -> None:
    base = Path("base")
    started: list[Path] = []

    @contextmanager
    def side(folder: Path, module: str) -> Iterator[FakeSide]:
        assert module == calls_compared.SIDE
        started.append(folder)
        yield FakeSide({"f(x)": 1e-7 if folder == base else seconds})

    monkeypatch.setattr(guard, "side", side)
    monkeypatch.setattr(guard, "commit_of", lambda name: "0" * 40)
    monkeypatch.setattr(guard, "checked_out", lambda commit: nullcontext(base))
    options = ["interop", "--compare", "any", "--rounds", "4", "--processes", "3"]
    assert main(options) == code
    assert started == [base, guard.ROOT] * 3
    text = capsys.readouterr().out
    assert text.startswith("this checkout beside 0000000000\n")
    assert ("SLOWER" in text) == bool(code) and f"{seconds / 1e-7:.3f}" in text
    assert text.endswith(f"\n{code} of 1 slower than 1.1 times the time before, or failing\n")
    (row,) = calls_compared.run(base, guard.ROOT, 4, 3)
    assert len(row.shares) == 12


def test_a_form_that_is_gone_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    before, now = FakeSide({"f(x)": 1e-7}), FakeSide({}, {"f(x)": "BindError: no"})
    rows = list(guard.compare("calls", before, now, 3, 1e-3))
    assert "FAILS: BindError: no" in calls_compared.table(rows)
    assert main(["interop", "--compare", "no-such-commit"]) == 2
    assert capsys.readouterr().out == "this clone has no commit no-such-commit\n"


@pytest.mark.slow
def test_both_sides_know_all_forms() -> None:
    with guard.side(guard.ROOT, calls_compared.SIDE) as side:
        found = side.ask(prepare="calls")
        assert list(found["calls"]) == list(call_side.FORMS) and not found["failed"]
        seconds = [side.ask(sample=form, calls=10)["seconds"] for form in call_side.FORMS]
        assert all(0 < s < 1 for s in seconds)
