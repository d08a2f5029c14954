"""Random programs: reverse mode = forward mode = central differences, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import jvp, vjp
from tensorad.ir.expr import Expr
from tensorad.ir.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.generators import Program, concrete_shape, random_program, random_symbolic_program

STEP = 4e-5
FAST = range(10, 30)
SLOW = (*range(10), *range(30, 430))
SYMBOLIC = {"n": 4, "m": 3}


def like(t: Tensor, name: str) -> Tensor:
    """A float64 placeholder of the shape of t."""
    return te.placeholder(t.shape, dtype="float64", name=name)


def check_gradients(program: Program, y: Tensor, sizes: dict[str, int]) -> str:
    """One output's gradients by all three ways; "kink" when it has no derivative here."""
    rng = np.random.default_rng(program.seed)
    wrt = program.float_inputs
    arrays = program.arrays(sizes)
    tangents = {x: rng.standard_normal(concrete_shape(x, sizes)) for x in wrt}
    value = interpret(y, arrays, sizes)
    head = rng.standard_normal(value.shape)
    h, d = like(y, "H"), {x: like(x, f"d{x.name}") for x in wrt}
    given = {**arrays, h: head, **{d[x]: tangents[x] for x in wrt}}
    tangent, *adjoints = interpret([jvp(y, d), *vjp(y, wrt, h)], given, sizes)
    forward = float((tangent * head).sum())
    reverse = float(sum((a * tangents[x]).sum() for a, x in zip(adjoints, wrt, strict=True)))
    scale = 1.0 + float(np.abs(tangent * head).sum())
    assert abs(forward - reverse) <= 1e-10 * scale, f"forward {forward}, reverse {reverse}"

    def shifted(step: float) -> float:
        moved = {x: arrays[x] + step * tangents[x] for x in wrt}
        return float((interpret(y, {**arrays, **moved}, sizes) * head).sum())

    wide = (shifted(STEP) - shifted(-STEP)) / (2 * STEP)
    narrow = (shifted(STEP / 2) - shifted(-STEP / 2)) / STEP
    if abs(wide - narrow) > 1e-3 * scale:
        return "kink"
    numeric = (4 * narrow - wide) / 3  # Richardson: the error is of fourth order
    assert abs(forward - numeric) <= 1e-6 * scale, f"forward {forward}, numeric {numeric}"
    return "smooth"


def check_seed(seed: int, symbolic: bool = False) -> list[str]:
    """All outputs of one program."""
    sizes = SYMBOLIC if symbolic else {}
    program = (random_symbolic_program if symbolic else random_program)(seed)
    return [check_gradients(program, y, sizes) for y in program.outputs]


def weighted_sum(t: Tensor, weights: Tensor) -> Tensor:
    """The 0-d sum of t * weights."""
    axes = [te.reduce_axis(n, name="k") for n in t.shape]
    at = tuple(axes)

    def body() -> Expr:
        product = t[at] * weights[at]
        return te.sum(product, axis=axes) if axes else product

    return te.compute((), body, name="S")


def check_second_order(seed: int) -> list[str]:
    """The gradients of weighted sums of gradients."""
    first = random_program(seed, computes=2)
    y, wrt = first.outputs[-1], first.float_inputs
    h = like(y, "H")
    checked = []
    for x, g in zip(wrt, vjp(y, wrt, h), strict=True):
        weights = like(x, "R")
        s = weighted_sum(g, weights)
        second = Program(seed, first.dtype, [*first.inputs, h, weights], [s], first.bounds)
        checked.append(check_gradients(second, s, {}))
    return checked


@pytest.mark.parametrize("seed", FAST)
def test_gradients(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("seed", range(6))
def test_symbolic_gradients(seed: int) -> None:
    check_seed(seed, symbolic=True)


@pytest.mark.parametrize("seed", range(6))
def test_second_order(seed: int) -> None:
    check_second_order(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 80))
def test_more_second_order(seed: int) -> None:
    check_second_order(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_more_gradients(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 60))
def test_more_symbolic_gradients(seed: int) -> None:
    check_seed(seed, symbolic=True)


def test_programs_have_derivatives_almost_everywhere() -> None:
    found = [kind for seed in range(20, 26) for kind in check_seed(seed)]
    assert found.count("kink") <= len(found) // 10
