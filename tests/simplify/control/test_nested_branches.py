"""Branches nested deep stand beside each other: values stay, and sizes are linear in the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Branch, Control, Op, Saved, Tensor
from tensorad.simplify.control import nested_branches
from tensorad.simplify.control.nested_branches import MOST_WITHIN, without_deep_branches
from tests.support.programs.nested import KINDS, program

X: Final = np.linspace(0.2, 0.5, 4)
POINTS: Final = (X, X * 0.1, X * 2, X * 4, -X)
DEPTHS: Final = {"after": 4, "switch": 3, "while": 3, "twice": 3}


def ops_of(f: Callable[..., Any]) -> list[Op]:
    """The operations of a program at X, those in blocks included."""
    trace = ta.function(f).trace(X)
    ops = ops_between(trace.results, dict.fromkeys(trace.parameters))
    return [*ops, *inner_ops(ops)]


def size(f: Callable[..., Any]) -> tuple[int, int, int]:
    """Operations, those of them that are saved, operands of what has blocks."""
    ops = ops_of(f)
    operands = sum(len(o.operands) for o in ops if isinstance(o, Control))
    return len(ops), sum(isinstance(o, Saved) for o in ops), operands


def beside(f: Callable[..., Any]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Parameters, results, and the results by branches that stand beside each other."""
    trace = ta.function(f).trace(X)
    given = list(trace.parameters)
    made = without_deep_branches(trace.results, given)
    verify(made)
    return given, list(trace.results), made


@pytest.mark.parametrize(
    "kind", ["after", *[pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "after"]]
)
def test_values_and_derivatives_stay(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = program(kind, DEPTHS[kind])
    wanted = [[made(x) for x in POINTS] for made in (ta.function(f), ta.grad(f))]
    along = ta.hvp(f, (X,), (X,))
    monkeypatch.setattr(nested_branches, "MOST_WITHIN", 1)
    given, before, after = beside(f)
    assert after[0] is not before[0]
    for x in POINTS:
        (value,) = interpret(after, {given[0]: x})
        np.testing.assert_array_equal(value, interpret(before, {given[0]: x})[0])
    again = ta.function(program(kind, DEPTHS[kind]))
    built = ta.build(after, given)
    for x, value, slope in zip(POINTS, *wanted, strict=True):
        np.testing.assert_array_equal(built(x), value)
        np.testing.assert_array_equal(ta.grad(again)(x), slope)
    np.testing.assert_allclose(ta.hvp(again, (X,), (X,)), along, rtol=1e-12)
    _, pushed = ta.jvp(again, (X,), (X,))
    np.testing.assert_allclose(pushed, ta.grad(again)(X) @ X, rtol=1e-12)
    if kind == "after":
        rows = ta.vmap(ta.grad(again))(np.stack(POINTS))
        np.testing.assert_allclose(rows, np.stack(wanted[1]), rtol=1e-12)
        ta.gradcheck(again, X)


def test_an_arm_whose_loop_tells_a_size_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a loop ran, which its derivative in the arm uses, is known in the arm only."""

    def level(x: Any, depth: int) -> Any:
        def arm() -> Any:
            slope = ta.grad(lambda v: ta.while_loop(lambda s: s.sum() < 2.5, _more, v).sum())(x)
            return level(ta.sin(x) * slope, depth - 1) + slope

        return ta.cond(x.sum() > 1.0, arm, lambda: x * x) if depth else x

    def f(x: Any) -> Any:
        return level(x, 3).sum()

    whole = ta.grad(f)
    wanted = [whole(x) for x in POINTS]
    monkeypatch.setattr(nested_branches, "MOST_WITHIN", 1)
    _, before, after = beside(f)
    assert after[0] is before[0]
    other = ta.grad(f)
    for x, slope in zip(POINTS, wanted, strict=True):
        np.testing.assert_array_equal(other(x), slope)


def _more(s: Any) -> Any:
    return s * 1.3


def test_branches_that_are_not_deep_stay() -> None:
    _, before, after = beside(program("after", MOST_WITHIN))
    assert after[0] is before[0]


@pytest.mark.parametrize("is_call", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sizes_of_derivatives_are_linear(is_call: bool) -> None:
    """Each further level adds the same numbers of operations, saved values and operands; of calls
    each 16 do, since arms are cut so."""
    depths = (32, 48, 64) if is_call else (24, 32, 40)
    levels = depths[1] - depths[0]
    sizes = [size(ta.grad(program("after", n, is_call=is_call))) for n in depths]
    first, second = np.diff(sizes, axis=0)
    assert second.tolist() == first.tolist(), sizes
    assert (first <= np.array([24, 6, 14]) * levels).all(), sizes


@pytest.mark.slow
def test_sizes_of_second_derivatives_are_linear() -> None:
    sizes = []
    for n in (24, 32, 40):
        g = ta.grad(program("after", n))
        sizes.append(size(ta.grad(lambda x, g=g: g(x).sum())))
    first, second = np.diff(sizes, axis=0)
    assert second.tolist() == first.tolist(), sizes


def test_branches_of_the_derivative_stand_beside_each_other() -> None:
    """Four for each level: what is before, what is after, and both reversed."""
    counts = []
    for n in (MOST_WITHIN + 4, MOST_WITHIN + 8):
        trace = ta.function(ta.grad(program("after", n))).trace(X)
        ops = ops_between(trace.results, dict.fromkeys(trace.parameters))
        counts.append(sum(isinstance(o, Branch) for o in ops))
    assert counts[1] - counts[0] == 4 * 4
