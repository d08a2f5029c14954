"""Fuzzers find planted mistakes, make them small and keep them; and find nothing otherwise."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tensorad.simplify.index import algebra
from tests.fuzz.__main__ import KEPT, fuzz, main
from tests.fuzz.case import Case, Fuzzer, read, written
from tests.fuzz.children import Child
from tests.fuzz.choices import Drawn, Repeated, shrunk
from tests.fuzz.fuzzers import FUZZERS
from tests.random.generators import Choices

FEW = {"simplify": 40, "bounds": 40, "elimination": 6, "calls": 2}


@pytest.mark.parametrize("name", FUZZERS)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    assert fuzz(name, 1_000, FEW.get(name, 1), None, tmp_path) == 0


def test_what_was_found_once() -> None:
    for path in sorted(KEPT.glob("*.txt")):
        name, case = read(path.read_text())
        FUZZERS[name].check(case)


@pytest.mark.parametrize("name", FUZZERS)
def test_a_case_is_its_choices_and_its_file(name: str) -> None:
    fuzzer, source = FUZZERS[name], Drawn(5)
    case = fuzzer.make(Choices(source), 5)
    again = fuzzer.make(Choices(Repeated(source.made)), 5)
    assert again.text == case.text
    kept = read(written(name, case, "ValueError: what\nwas said"))[1]
    assert kept.text.split() == case.text.split()
    assert (kept.seed, dict(kept.bounds)) == (case.seed, dict(case.bounds))
    if name != "programs":
        assert [t.name for t in kept.program().inputs] == [t.name for t in case.program().inputs]


def test_a_wrong_quotient_is_found_and_made_small(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def halved(op: str, value: object, divisor: int, plain: object = algebra._divide) -> object:
        return plain(op, value, divisor + 1 if divisor == 4 else divisor)  # type: ignore[operator]

    monkeypatch.setattr(algebra, "_divide", halved)
    assert main(["simplify", "--cases", "200", "--seed", "7", "--keep", str(tmp_path)]) == 1
    assert "found" in capsys.readouterr().out
    for path in tmp_path.glob("*.txt"):
        _, case = read(path.read_text())
        assert len(case.text) < 250, case.text
        with pytest.raises(AssertionError, match=r"value|again"):
            FUZZERS["simplify"].check(case)


def test_crashes_and_hangs_are_finds() -> None:
    def check(case: Case) -> None:
        if case.seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if case.seed == 2:
            time.sleep(60)
        assert case.seed != 3, "wrong: a value"

    fuzzer = Fuzzer(lambda rng, seed: Case(str(rng.randint(0, 9)), seed), check)
    with Child(fuzzer, patience=1.0) as child:
        told = [child.ask(n) for n in range(5)]
    assert [t.failure for t in told] == ["", "exit -9", "hang", "AssertionError check wrong", ""]


def test_choices_become_few_and_small() -> None:
    found = shrunk([3, 9, 40, 7, 12, 5], lambda given: sum(n >= 10 for n in given) >= 1)
    assert found == [10]
