"""Programs that are first-order in effect become what their hand-written twins are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import ShapeError
from tensorad.ir.reference.verify import verify
from tensorad.language import check, interpret, parse, without_dead_code
from tests.support.language.programs import SAMPLES
from tests.support.programs.twins import gradient, kernels, leaves

Function = Callable[..., Any]
NAMES = list(SAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_evaluated_as_interpreted(name: str) -> None:
    sample = SAMPLES[name]
    program = parse(sample.text)
    assert str(parse(str(program))) == str(program)
    check(program)
    wanted = interpret(program, "f", *sample.args)
    for found in (
        program["f"](*sample.args),
        interpret(without_dead_code(program), "f", *sample.args)[0],
    ):
        for a, b in zip(leaves(wanted.result), leaves(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_writes_that_the_next_iteration_reads_stay() -> None:
    program = parse(
        "def f(x, n) {\n r = ref(x)\n loop i in [0, n) carry (s = x) {\n  v = read(r)\n"
        "  r := v * 2.0\n  s + v\n }\n}"
    )
    args = np.float64(0.5), np.int64(4)
    for one in (program, without_dead_code(program)):
        assert interpret(one, "f", *args).result == 8.0
    assert program["f"](*args) == 8.0


def test_a_call_is_checked_with_what_references_hold_then() -> None:
    text = (
        "def get(r) { read(r) }\ndef f(x : float64[3], y : float64[4]) {\n"
        " r = ref(fn (v) { v })\n a = get(r)(x)\n r := fn (v) { v + %s }\n a + get(r)(x)\n}"
    )
    check(parse(text % "x"))
    with pytest.raises(ShapeError):
        check(parse(text % "y"))


@pytest.mark.parametrize("chosen", ["make(p)", "grad(p)"])
def test_functions_of_one_text_differ_by_what_they_capture(chosen: str) -> None:
    """By what those that they capture do, too."""
    other = chosen.replace("(p)", "(q)")
    program = parse(
        "def make(h) { fn (v) { h(v) } }\ndef times(a) { fn (v) { v * a } }\ndef f(x, c) {\n"
        " p = times(x)\n q = times(x + 2.0)\n"
        f" g = if c > 0.0 {{ {chosen} }} else {{ {other} }}\n g(x)\n}}"
    )
    f = ta.function(program["f"])
    found = [f(np.float64(3.0), np.float64(c)) for c in (1.0, -1.0)]
    assert found == ([9.0, 15.0] if chosen == "make(p)" else [3.0, 5.0])


@pytest.mark.parametrize(
    ("name", "order"),
    [(n, 0) for n in NAMES] + [pytest.param(n, 1, marks=pytest.mark.slow) for n in NAMES],
)
def test_the_hand_written_program(name: str, order: int) -> None:
    """Nothing is left of functions and references: as many kernels, the same bits."""
    sample = SAMPLES[name]
    assert sample.twin is not None
    own: Function = parse(sample.text)["f"]
    twin = sample.twin
    if order:
        own, twin = gradient(own, sample.args), gradient(twin, sample.args)
    verify(list(ta.function(own).trace(*sample.args).results))
    assert kernels(own, sample.args) == kernels(twin, sample.args)
    found, wanted = ta.function(own)(*sample.args), ta.function(twin)(*sample.args)
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
