"""A user's pass on the terms of programs: forward mode, against the one that is built in."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad.language import interpret, parse
from tests.support.language.forward_pass import forward

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


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("x", [0.25, 0.75])
def test_s004_13_forward_mode_by_a_users_pass(name: str, x: float) -> None:
    program = parse(PROGRAMS[name])
    changed = forward(program)
    assert str(parse(str(changed))) == str(changed)
    both = parse(f"{PROGRAMS[name]}\ndef df(x) {{ jvp(f)(x, 1.0) }}")
    wanted = interpret(both, "df", np.float64(x)).result
    given = (np.float64(x), np.float64(1.0))
    for found in (changed["f"](given), interpret(changed, "f", given).result):
        np.testing.assert_allclose(np.stack(found), np.stack(wanted), rtol=1e-12)
