"""The guard of speed: two commits by turns, and what it says where there is only one."""

from __future__ import annotations

import argparse
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import guard
from benchmarks.__main__ import main


class FakeSide:
    """A side of the guard whose calls take so many seconds; the machine drifts."""

    def __init__(self, seconds: dict[str, float], failed: dict[str, str] | None = None) -> None:
        self.seconds, self.failed, self.drift = seconds, failed or {}, 1.0

    def ask(self, **request: object) -> dict[str, object]:
        self.drift *= 1.1
        if "prepare" in request:
            return {"calls": self.seconds, "failed": self.failed}
        return {"seconds": self.seconds[str(request["sample"])] * self.drift}


def test_the_guard_compares_two_commits_by_turns() -> None:
    def compared(fwd: float, fb: float) -> list[guard.Compared]:
        before = FakeSide({"fwd": 1e-3, "fb": 3e-3})
        return list(guard.compare("a", before, FakeSide({"fwd": fwd, "fb": fb}), 5, 1e-3))

    same = compared(1e-3, 3e-3)
    assert [r.share for r in same] == pytest.approx([1.0, 1.0]) and not any(r.fell for r in same)
    slower = compared(1e-3, 3.2 * 1.5e-3)
    assert [r.fell for r in slower] == [False, True]
    assert "FELL" in guard.table(slower) and "FELL" not in guard.table(same)


def test_what_ran_before_the_guard_demands() -> None:
    before, now = FakeSide({"fwd": 1e-3}), FakeSide({}, {"fwd": "BuildError: no"})
    (lost,) = guard.compare("a", before, now, 3, 1e-3)
    assert lost.fell and "a fwd" in guard.table([lost]) and "BuildError: no" in guard.table([lost])
    assert list(guard.compare("a", now, before, 3, 1e-3)) == []  # it is new


def test_a_fall_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = iter([[2.0, 1.0], [2.0], [1.9]])
    asked_for: list[list[str]] = []

    def run(base: Path, this: Path, names: list[str], options: object) -> list[guard.Compared]:
        asked_for.append(names)
        found = zip(names, next(shares), strict=True)
        return [guard.Compared(name, "fwd", 1e-3, [share]) for name, share in found]

    monkeypatch.setattr(guard, "run", run)
    monkeypatch.setattr(guard, "commit_of", lambda name: "0" * 40)
    monkeypatch.setattr(guard, "checked_out", lambda commit: nullcontext(Path("base")))
    options = ["guard", "maxpool_small", "softmax_small"]
    assert main(options) == 1
    assert asked_for == [["maxpool_small", "softmax_small"], ["maxpool_small"], ["maxpool_small"]]
    shares = iter([[2.0, 1.0], [1.1]])
    assert main(options) == 0
    assert capsys.readouterr().out.endswith(
        "\n0 slower than 1.5 times the time before, or failing\n"
    )


def test_without_a_parent_the_guard_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "commit_of", lambda name: "")
    assert main(["guard"]) == 0
    text = "NOTHING IS COMPARED: this clone has no parent of its commit (a full one has)\n"
    assert capsys.readouterr().out == text


def test_the_guard_refuses_what_it_does_not_find(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt commit or name would be a guard that judges nothing."""
    assert main(["guard", "--base", "no-such-commit"]) == 2
    assert main(["guard", "no-such-workload"]) == 2
    assert capsys.readouterr().out.splitlines() == [
        "this clone has no commit no-such-commit",
        "no workload's name contains no-such-workload",
    ]


@pytest.mark.parametrize(
    "arguments",
    [["guard", "--rounds", "0"], ["frameworks", "--processes", "-1"], ["calls", "--threads", "0"]],
)
def test_numbers_of_what_there_has_to_be_are_positive(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    suite, option, value = arguments
    said = f"error: argument {option}: {value!r} is no positive integer"
    assert capsys.readouterr().err.endswith(f"benchmarks {suite}: {said}\n")


@pytest.mark.slow
def test_the_sides_of_the_guard_are_processes(tmp_path: Path) -> None:
    shutil.copytree(guard.ROOT / "benchmarks", tmp_path / "benchmarks")
    for name in ("tensorad", "codegen", "simplify"):
        shutil.copytree(guard.ROOT / name, tmp_path / name, symlinks=True)
    own = tmp_path / "benchmarks" / "peers" / "ours.py"
    own.write_text(
        own.read_text().replace("        f(*given, out=target)", "        time.sleep(0.01)")
    )
    options = argparse.Namespace(rounds=3, seconds=1e-3)
    rows = guard.run(guard.ROOT, tmp_path, ["flatten"], options)
    assert [r.mode for r in rows] == ["fwd", "fb"] and all(r.fell for r in rows)
