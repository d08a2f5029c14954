"""Reverse mode in binding form beside `vjp`: the same values, every adjoint a tensor."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.binding import bound_adjoints
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import tree_leaves
from tensorad.ir.visit import op_inputs, placeholders, topological_ops
from tests.random.generators import random_program


def floats_behind(y: Tensor) -> list[Tensor]:
    made = [t for op in topological_ops([y]) for t in outputs(op)]
    return [t for t in made if t.dtype.is_float and not t.is_constant]


@pytest.mark.parametrize("seed", range(12))
def test_binding_form_and_vjp_have_the_same_values(seed: int) -> None:
    made = random_program(seed)
    y = next(t for t in made.outputs if t.dtype.is_float)
    given = made.arrays({})
    head = ta.placeholder(y.shape, str(y.dtype), name="head")
    arrays = {**given, head: np.random.default_rng(seed).standard_normal(y.shape)}
    values = floats_behind(y)
    wrt = [t for t in given if t in values]
    if not wrt:
        pytest.skip("the output depends on nothing")
    found = bound_adjoints({y: head}, wrt, values, {})
    expected = ta.vjp(y, wrt, head)
    for x, dx in zip(wrt, expected, strict=True):
        value = ta.interpret(dx, arrays)
        if x in found:
            np.testing.assert_allclose(ta.interpret(found[x], arrays), value, rtol=1e-9, atol=1e-9)
        else:
            assert not np.any(value)


def test_adjoints_read_those_of_their_users() -> None:
    x = ta.placeholder((3,), name="x")
    y = ta.exp(x)
    z = y * y
    head = ta.placeholder((3,), name="head")
    found = bound_adjoints({z: head}, [x], [x, y, z], {})
    assert list(found) == [z, x, y] and found[z] is head
    assert found[y] in op_inputs(found[x].op) and found[z] in op_inputs(found[y].op)
    only = bound_adjoints({z: head}, [y], [x, y, z], {})
    assert list(only) == [z, y]


def test_an_output_that_others_depend_on_receives_both() -> None:
    x = ta.placeholder((), "float64", name="x")
    y = x * 3.0
    z = y * y
    one, two = (ta.compute((), lambda v=v: ta.const(v, "float64"), name="c") for v in (1.0, 2.0))
    found = bound_adjoints({y: one, z: two}, [x], [x, y, z], {})
    assert found[z] is two and found[y] is not one
    assert ta.interpret(found[y], {x: np.float64(2.0)}) == 1 + 2 * 2 * 6
    assert ta.interpret(found[x], {x: np.float64(2.0)}) == 3 * 25


def nested_calls(depth: int) -> ta.Tensor:
    """sin(sin(... sin(x))), each sine in a function of its own around those inside."""
    lines = ["def f0(x : float64[]) -> float64[]:\n  y : float64[] = sin(x)\n  return y\n"]
    for k in range(1, depth + 1):
        lines += [
            f"def f{k}(x : float64[]) -> float64[]:\n  u : float64[] = call f{k - 1}(x)\n"
            "  y : float64[] = sin(u)\n  return y\n"
        ]
    (y,) = tree_leaves(parse_program("\n".join(lines))[f"f{depth}"].results)
    return y


@pytest.mark.parametrize("by", ["vjp", "jvp", "binding"])
def test_functions_are_nested_deeper_than_pythons_stack(by: str) -> None:
    y = nested_calls(25)
    (x,) = placeholders([y])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        if by == "binding":
            one = ta.compute((), lambda: ta.const(1.0, "float64"), name="one")
            slope = bound_adjoints({y: one}, [x], [x, y], {})[x]
        else:
            slope = ta.vjp(y, [x])[0] if by == "vjp" else ta.jvp(y, {x: 1.0})
    finally:
        sys.setrecursionlimit(limit)
    value, wanted = 1.3, 1.0
    for _ in range(26):
        wanted, value = wanted * np.cos(value), np.sin(value)
    np.testing.assert_allclose(ta.interpret(slope, {x: np.float64(1.3)}), wanted)
