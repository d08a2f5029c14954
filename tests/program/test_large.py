"""Programs of many bindings in many functions: linear in both, and derivatives do not blow up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from benchmarks.workloads.large_programs import (
    TRANSFORMS,
    Function,
    W,
    X,
    closures,
    size,
    traced,
)
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.tensor import Saved
from tensorad.language import check, parse, without_dead_code
from tensorad.simplify.control.nested_calls import MOST_NESTED
from tests.support.profiled import number_of_calls
from tests.support.programs.large import called, chain, nested, text

TEXTS: Final = 15
"""Functions of the text."""
STEPS: Final = {name: step for name, step in TRANSFORMS.items() if name != "call"}
CASES: Final = [
    *[("nested", step) for step in STEPS],
    *[("closures", step) for step in ("trace", "reverse", "lower")],
    *[("called", step) for step in ("reverse", "lower")],
]
KINDS: Final = {"nested": nested, "closures": closures, "called": called}
FEWEST: Final = {"nested": MOST_NESTED + 1, "closures": 4, "called": 3}
"""Functions of the smallest program of a kind that is like the larger ones."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), CASES)
def test_work_grows_as_the_program_does(kind: str, step: str) -> None:
    """Python's calls for n, 2n and 4n functions: twice the functions, twice the work more."""
    make, fewest = KINDS[kind], FEWEST[kind]
    STEPS[step](make(fewest, 1))  # what is done once
    sizes = (fewest, 2 * fewest, 4 * fewest)
    counts = [number_of_calls(lambda n=n: STEPS[step](make(n, 1))) for n in sizes]
    first, second = np.diff(counts)
    assert second <= 2.4 * first, counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_all_kinds_agree(kind: str) -> None:
    n = FEWEST[kind]
    f = KINDS[kind](n, 1)
    value, slope = ta.value_and_grad(f)(X, W)
    _, along = ta.jvp(lambda x: f(x, W), (X,), (X,))
    np.testing.assert_allclose(along, slope @ X, rtol=1e-10)
    same, again = ta.value_and_grad(ta.checkpoint(f))(X, W)
    assert same == value
    np.testing.assert_array_equal(again, slope)
    if kind == "nested":
        flat = ta.value_and_grad(closures(n, 1))(X, W)
        assert flat[0] == value
        np.testing.assert_array_equal(flat[1], slope)


@pytest.mark.parametrize(("n", "most"), [(MOST_NESTED, None), (16, 16 * 10)])
def test_calls_that_are_nested_deep_save_nothing_of_each_other(n: int, most: int | None) -> None:
    """Calls in calls hand on what is saved inside; beyond some depth they are written out."""
    program = traced(ta.grad(nested(n, 1)))
    ops = ops_between(program.results, dict.fromkeys(program.parameters))
    every = [*ops, *inner_ops(ops)]
    count = sum(isinstance(o, Saved) for o in every)
    if most is None:
        assert count > n, "they are calls"
    else:
        assert count < MOST_NESTED**2 * 4 and len(every) < most + MOST_NESTED**2 * 4


@pytest.mark.slow
def test_four_gradients_are_forty_times_the_first() -> None:
    sizes = []
    for n in (8, 16):
        f: Any = chain(n)
        own = []
        for _ in range(4):
            f = ta.grad(f)
            own.append(size(ta.function(f).trace(np.float64(0.3))))
        assert own[3] <= 40 * own[0], own
        sizes.append(own[3])
    assert sizes[1] <= 2.3 * sizes[0], sizes


@pytest.mark.slow
def test_a_text_of_functions_inside_of_each_other() -> None:
    given = text(TEXTS)
    program = parse(given)
    assert str(parse(str(program))) == str(program)
    check(program)
    wanted = ta.function(closures_of_text(TEXTS))(X, W)
    np.testing.assert_allclose(program["f"](X, W), wanted, rtol=1e-12)


def test_dead_code_of_functions_inside_of_each_other() -> None:
    programs = [parse(text(n)) for n in (10, 20, 40)]
    counts = [number_of_calls(lambda p=p: without_dead_code(p)) for p in programs]
    first, second = np.diff(counts)
    assert second <= 2.4 * first, counts


def closures_of_text(n: int) -> Function:
    def whole(x: Any, w: Any) -> Any:
        for _ in range(n):
            for j in range(23):
                x = (ta.sin, lambda v: v * 1.01, lambda v: v + 0.5, ta.tanh)[j % 4](x)
            x = w @ x
        return x.sum()

    return whole
