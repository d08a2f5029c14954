"""A user's pass on the terms of programs, as it stands in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tensorad.language import interpret, parse

GUIDE: Final = (Path(__file__).resolve().parents[3] / "docs" / "passes.md").read_text()
CODE, USE, SHOWN = re.findall(r"```(?:python)?\n(.*?)```", GUIDE, re.DOTALL)

PROGRAMS = {
    "closures": "def f(x) {\n g = fn (v) { sin(v) * x }\n g(g(x)) - 0.5\n}",
    "references": "def f(x) {\n r = ref(x)\n q = r\n q := read(r) * x\n tanh(read(r)) + read(q)\n}",
    "branches": "def f(x) {\n r = ref(x)\n if x > 0.5 { r := x * x } else { r := sin(x) }\n"
    " read(r)\n}",
    "loops": "def f(x) {\n loop i in [0, 3) carry (s = x) { sin(s) * x }\n}",
    "tuples": "def f(x) {\n t = (x, (x * 2.0, fn (v) { v * x }))\n t[1][1](t[1][0])\n}",
    "tags": "data maybe = none | one(t)\n"
    "def f(x) {\n match inject one(x) {\n  case none { x }\n  case one(y) { y * x }\n }\n}",
    "recursion": "def power(x, n) {\n if n > 0 { x * power(x, n - 1) } else { 1.0 }\n}\n"
    "def f(x) { power(x, 3) }",
}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the guide's code defines."""
    found: dict[str, Any] = {}
    exec(CODE, found)  # the code of the guide
    return found


def test_s004_13_the_guide_says_what_it_prints(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    exec(USE, names)  # as above
    assert capsys.readouterr().out == SHOWN


def test_s004_13_a_pass_has_some_40_lines() -> None:
    lines = [line for line in CODE.split("\n") if line and not line.startswith(("from", "import"))]
    assert len(lines) <= 40


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("x", [0.25, 0.75])
def test_s004_13_forward_mode_by_a_users_pass(names: dict[str, Any], name: str, x: float) -> None:
    program = parse(PROGRAMS[name])
    changed = names["forward"](program)
    assert str(parse(str(changed))) == str(changed)
    both = parse(f"{PROGRAMS[name]}\ndef df(x) {{ jvp(f)(x, 1.0) }}")
    wanted = interpret(both, "df", np.float64(x)).result
    given = (np.float64(x), np.float64(1.0))
    for found in (changed["f"](given), interpret(changed, "f", given).result):
        np.testing.assert_allclose(np.stack(found), np.stack(wanted), rtol=1e-12)
