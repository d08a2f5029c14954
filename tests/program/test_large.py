"""Programs of many bindings in many functions: linear in both, and derivatives do not blow up."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Saved
from tensorad.ir.visit import op_expressions, postorder
from tensorad.language import check, parse
from tensorad.program.traces import Program
from tensorad.simplify.control.nested_calls import MOST_NESTED
from tensorad.simplify.control.passes import simplified
from tests.support.profiled import number_of_calls
from tests.support.programs.large import W, X, called, chain, closures, nested, text

Function = Callable[..., Any]
XS: Final = np.stack([X, -X])


def traced(f: Function) -> Program:
    return ta.function(f).trace(X, W)


STEPS: Final[dict[str, Callable[[Function], object]]] = {
    "trace": traced,
    "verify": lambda f: verify(list(traced(f).results)),
    "text": lambda f: str(ta.module(str(traced(f)))),
    "pickle": lambda f: pickle.loads(pickle.dumps(list(traced(f).results))),
    "forward": lambda f: traced(lambda x, w: ta.jvp(f, (x, w), (x, w))),
    "reverse": lambda f: traced(ta.value_and_grad(f, (0, 1))),
    "vmap": lambda f: ta.function(ta.vmap(f, in_axes=(0, None))).trace(XS, W),
    "checkpoint": lambda f: traced(ta.grad(ta.checkpoint(f))),
    "interpret": lambda f: ta.interpret(ta.function(f), X, W),
    "lower": lambda f: ta.function(f).lower(X, W),
}
CASES: Final = [
    *[("nested", step) for step in STEPS],
    *[("closures", step) for step in ("trace", "reverse", "lower")],
    *[("called", step) for step in ("reverse", "lower")],
]
KINDS: Final = {"nested": nested, "closures": closures, "called": called}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), CASES)
def test_work_grows_as_the_program_does(kind: str, step: str) -> None:
    """Python's calls for 12, 24 and 48 functions: twice the functions, twice the work more."""
    make = KINDS[kind]
    STEPS[step](make(MOST_NESTED + 2, 1))  # what is done once
    counts = [number_of_calls(lambda n=n: STEPS[step](make(n, 1))) for n in (12, 24, 48)]
    first, second = np.diff(counts)
    assert second <= 2.4 * first, counts


@pytest.mark.slow
@pytest.mark.parametrize("make", [closures, nested, called])
def test_derivatives_of_all_kinds_agree(make: Callable[[int, int], Function]) -> None:
    n = MOST_NESTED + 2
    f = make(n, 1)
    value, slope = ta.value_and_grad(f)(X, W)
    _, along = ta.jvp(lambda x: f(x, W), (X,), (X,))
    np.testing.assert_allclose(along, slope @ X, rtol=1e-10)
    same, again = ta.value_and_grad(ta.checkpoint(f))(X, W)
    assert same == value
    np.testing.assert_array_equal(again, slope)
    if make is nested:
        flat = ta.value_and_grad(closures(n, 1))(X, W)
        assert flat[0] == value
        np.testing.assert_array_equal(flat[1], slope)


@pytest.mark.parametrize(("n", "most"), [(MOST_NESTED, None), (40, 40 * 10)])
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


def size(program: Program) -> int:
    """Nodes of all formulas after all passes, equal ones of an operation once."""
    results = simplified(list(program.results), list(program.parameters))
    ops = ops_between(results, dict.fromkeys(program.parameters))
    return sum(len(postorder(*op_expressions(o))) for o in (*ops, *inner_ops(ops)))


@pytest.mark.slow
def test_four_gradients_are_forty_times_the_first() -> None:
    sizes = []
    for n in (10, 20):
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
    given = text(60)
    program = parse(given)
    assert str(parse(str(program))) == str(program)
    check(program)
    wanted = ta.function(closures_of_text(60))(X, W)
    np.testing.assert_allclose(program["f"](X, W), wanted, rtol=1e-12)


def closures_of_text(n: int) -> Function:
    def whole(x: Any, w: Any) -> Any:
        for _ in range(n):
            for j in range(23):
                x = (ta.sin, lambda v: v * 1.01, lambda v: v + 0.5, ta.tanh)[j % 4](x)
            x = w @ x
        return x.sum()

    return whole
