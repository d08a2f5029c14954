"""Programs that are first-order in effect become what their hand-written twins are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
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
