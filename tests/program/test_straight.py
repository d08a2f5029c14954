"""Functions of Python that are first-order in effect are as many kernels as their twins."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.ir.reference.verify import verify
from tensorad.program.trees import flatten
from tests.support.language.programs import SAMPLES
from tests.support.programs.straight_state import WITH_STATE as STRAIGHT
from tests.support.programs.twins import gradient, kernels, leaves

NAMES = list(STRAIGHT)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_the_program_by_hand(name: str, order: int) -> None:
    """Value and gradient: as many kernels, the same bits."""
    own, twin, args = STRAIGHT[name]
    if order:
        own, twin = gradient(own, args), gradient(twin, args)
    program = ta.function(own).trace(*args)
    verify(list(program.results))
    assert not program.references and not program.reads
    assert kernels(own, args) == kernels(twin, args)
    found, wanted = ta.function(own)(*args), ta.function(twin)(*args)
    assert flatten(found).structure == flatten(wanted).structure
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_there_are_more_than_sixty() -> None:
    assert len(SAMPLES) + len(STRAIGHT) >= 60
