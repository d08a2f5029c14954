"""The driver of passes: what is run, seen, checked, timed and bisected."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, passes
from tensorad.bisect import Culprit, first_wrong_pass, main
from tensorad.errors import BuildError, InternalError
from tensorad.passes import Form, NotComparedError, Pass, run_passes


def _compare(limit: int, before: int, after: int) -> str:
    if before > limit:
        raise NotComparedError("too large")
    return "" if after % 10 == before % 10 else f"{after} for {before}"


def _verify(limit: int, state: int) -> None:
    if state < 0:
        raise InternalError("it is negative")


NUMBER: Form[int, int] = Form(lambda limit, state: f"<{state}>", _verify, _compare)
FINE = Pass("fine", lambda limit, n: n + 10, "first")
IDLE = Pass("idle", lambda limit, n: n, "anywhere")
NEEDED = Pass("needed", lambda limit, n: n + 100, "what follows wants a hundred", required=True)
WRONG = Pass("wrong", lambda limit, n: n + 1, "last")
BROKEN = Pass("broken", lambda limit, n: -n, "last")


def test_without_flags_all_passes_run() -> None:
    with config.override(debug=(), bisect=None):
        assert run_passes((FINE, NEEDED, WRONG), 0, 5, NUMBER) == 116


def test_what_changed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=("ir",)):
        run_passes((FINE, IDLE, NEEDED), 0, 5, NUMBER)
    assert capsys.readouterr().err == "after fine:\n<15>\n\nafter needed:\n<115>\n\n"
    with config.override(debug=("ir:needed",)):
        run_passes((FINE, IDLE, NEEDED), 0, 5, NUMBER)
    assert capsys.readouterr().err == "after needed:\n<115>\n\n"


def test_the_first_wrong_pass_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=("check",)):
        with pytest.raises(InternalError, match=r"^the pass wrong changed values: 16 for 15\n"):
            run_passes((FINE, WRONG, WRONG), 99, 5, NUMBER)
        assert run_passes((WRONG,), 0, 5, NUMBER) == 6
    assert capsys.readouterr().err == "not compared, before and after wrong: too large\n"
    wrong = pytest.raises(InternalError, match=r"^after the pass broken: it is negative$")
    with config.override(debug=("verify",)), wrong:
        run_passes((FINE, BROKEN, BROKEN), 99, 5, NUMBER)


def test_times_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_times", {"nothing": (1, 0.0)})
    with config.override(debug=("time",)):
        run_passes((FINE, FINE, NEEDED), 0, 5, NUMBER)
    head, *rows = passes.time_table().splitlines()
    assert head == "passes:"
    assert {tuple(r.split()[-3:]) for r in rows} == {
        ("2", "x", "fine"),
        ("1", "x", "needed"),
        ("1", "x", "nothing"),
    }


def test_misspelt_passes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_seen", {"nothing"})
    with config.override(debug=("ir:fien", "ir:fine")):
        run_passes((FINE, IDLE), 0, 5, NUMBER)
    assert passes.unknown_passes(("verify", "ir:idle", "ir:loops")) == ""
    assert passes.unknown_passes(("ir:fien", "ir:fine")) == (
        "TENSORAD_DEBUG=ir:fien: no pass of this name ran. Passes that ran: fine, idle, nothing\n"
    )


@pytest.mark.parametrize(("limit", "want"), [(0, 105), (1, 115), (2, 116), (3, 126)])
def test_optional_passes_stop_at_the_limit(limit: int, want: int) -> None:
    passes.count_again()
    with config.override(bisect=limit):
        assert run_passes((FINE, NEEDED, WRONG, FINE), 0, 5, NUMBER) == want
    assert passes.counted() == (limit, ["", "fine", "wrong", "fine"][limit])


def test_a_mistake_before_the_pass_that_decides_is_named() -> None:
    order = (FINE, WRONG, FINE, replace(NEEDED, required=False, deciding=True), FINE)

    def is_right() -> bool:
        found = run_passes(order, 0, 5, NUMBER)
        return found < 100 or found % 10 == 5  # less is thrown away

    assert first_wrong_pass(is_right) == Culprit(3, "wrong")
    passes.count_again()
    with config.override(bisect=2):
        assert run_passes(order, 0, 5, NUMBER) == 115
    assert passes.counted() == (2, "fine")


@pytest.mark.parametrize("place", [0, 1, 2, 3, 7, 12])
def test_bisecting_finds_the_pass(place: int) -> None:
    order = [FINE] * 13
    order[place] = WRONG

    def is_right() -> bool:
        return run_passes(order, 0, 5, NUMBER) % 10 == 5

    assert first_wrong_pass(is_right) == Culprit(place + 1, "wrong")


def test_what_breaks_counts_as_wrong() -> None:
    def is_right() -> bool:
        return 1 / (run_passes((FINE, WRONG, FINE), 0, 5, NUMBER) % 10 - 6) < 0

    assert first_wrong_pass(is_right) == Culprit(2, "wrong")


def test_bisecting_where_no_pass_is_wrong() -> None:
    assert first_wrong_pass(lambda: True) is None
    assert first_wrong_pass(lambda: False) == Culprit(0, "")
    with pytest.raises(BuildError) as raised:
        first_wrong_pass(lambda: config.current().bisect != sys.maxsize)
    assert str(raised.value) == (
        "the program is right after all of its passes, and wrong without TENSORAD_BISECT.\n"
        "  hint: let it do the same each time: no clock, no random seed of its own."
    )


BISECT = """
import os, sys
limit = os.environ.get("TENSORAD_BISECT")
n = 99 if limit is None else int(limit)
if n <= 6:
    print(f"TENSORAD_BISECT={n}: the last pass is p{n}", file=sys.stderr)
"""
"""The start of scripts of six passes that are none."""


def run_command(path: Path, text: str, *arguments: str) -> int:
    path.write_text(text)
    return main([str(path), *arguments])


def test_a_right_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import sys\nprint('y' * 1000)\nassert sys.argv[1:] == ['two words']\n"
    assert run_command(tmp_path / "a.py", text, "two words") == 0
    assert capsys.readouterr().out == (
        "all passes: right\nnothing is wrong: the script ends with exit code 0 after all passes.\n"
    )


def test_a_script_that_is_always_wrong_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "import os\nos.write(2, b'\\xff')\nraise SystemExit('why')\n"
    assert run_command(tmp_path / "a.py", text) == 1
    assert capsys.readouterr().out.splitlines() == [
        "all passes: wrong (exit code 1)",
        "0 passes: wrong (exit code 1)",
        "wrong before the first pass that may be left out; TENSORAD_DEBUG=verify,check",
        "looks at the others. What the script says:",
        "\N{REPLACEMENT CHARACTER}why",
    ]


def test_a_script_that_waits_for_input_ends(tmp_path: Path) -> None:
    assert run_command(tmp_path / "a.py", "import sys\nassert sys.stdin.read() == ''\n") == 0


def test_the_pass_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORAD_BISECT", "2")  # of this process, not of the script
    script = tmp_path / "a b.py"
    assert run_command(script, f"{BISECT}sys.exit(n >= 5)\n") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "the first wrong pass is p5, number 5. To see it:",
        f"TENSORAD_BISECT=5 TENSORAD_DEBUG=ir:p5 python '{script}'",
    ]


def test_a_script_that_is_not_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(tmp_path / "a.py", f"{BISECT}raise SystemExit(limit is None)\n") == 1
    assert "let it do the same each time" in capsys.readouterr().err


def test_wrong_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["-x"]) == main(["no/such.py"]) == 2
    assert "there is no script no/such.py." in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m tensorad.bisect script.py")


def test_formulas_that_use_how_often_a_loop_ran_are_not_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def f(x: Any) -> Any:
        return ta.while_loop(lambda c: c > 0.5, lambda c: ta.sin(c) * x, x)

    second = ta.grad(ta.grad(f))
    wanted = second(np.float64(0.8))
    with config.override(debug=("verify", "check")):
        found = ta.grad(ta.grad(lambda x: f(x)))(np.float64(0.8))
    assert np.isclose(found, wanted, rtol=1e-12)
    assert "not compared, before and after solve_domains: the size trips" in capsys.readouterr().err
