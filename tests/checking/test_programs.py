"""First and second derivatives of sixty programs beside differences, in both modes."""

from __future__ import annotations

import pytest

import tensorad as ta
from tests.support.programs.differentiated import PROGRAMS
from tests.support.programs.functions import FUNCTIONS


def test_there_are_sixty() -> None:
    assert len(PROGRAMS) + len(FUNCTIONS) >= 60


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_order_of_tensors(name: str) -> None:
    y, wrt = PROGRAMS[name](3)
    assert ta.gradcheck(y, wrt, order=2)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_order_of_functions(name: str) -> None:
    f, arguments = FUNCTIONS[name]
    assert ta.gradcheck(f, *arguments, order=2)
