"""Padded contractions where a factor is infinite or NaN: what has no term adds nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.cost.predict import predict
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For, If
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.random.generator_contractions import contraction

Program = tuple[list[Tensor], list[Tensor]]
CONTRACT = Choices(contract=True)


def convolution(size: int = 6, channels: int = 3) -> Program:
    """With zeros around it, and its gradients: each is padded."""
    x = te.placeholder((2, channels, size, size), name="X")
    w = te.placeholder((4, channels, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    h = te.placeholder(y.shape, name="H")
    return [y, *ta.vjp(y, [x, w], h)], [x, w, h]


def zeros_as_terms() -> Program:
    """0 times an infinite number is a term of this sum."""
    x, w = te.placeholder((40,), name="X"), te.placeholder((17, 3), name="W")
    k = te.reduce_axis(3, name="k")

    def term(i: Expr, o: Expr) -> Expr:
        inside = te.all_of(i + k >= 1, i + k < 41)
        return te.sum(te.select(inside, x[i + k - 1], 0.0) * w[o, k], axis=k)

    return [te.compute((40, 17), term, name="Y")], [x, w]


def given(inputs: list[Tensor], at: int, number: float) -> list[np.ndarray]:
    """Numbers, and in one of the tensors a few of another kind."""
    rng = np.random.default_rng(5)
    found = [rng.normal(size=t.shape).astype(str(t.dtype)) for t in inputs]
    found[at].flat[:: max(1, found[at].size // 3)] = number
    return found


def results(program: Program, arrays: list[np.ndarray], c: Choices | None) -> list[np.ndarray]:
    made = ta.build(*program, schedule=c)(*arrays)
    return made if isinstance(made, list) else [made]


def kind(a: np.ndarray) -> np.ndarray:
    """NaN, an infinity, or a number."""
    return np.where(np.isnan(a), 2, np.where(np.isinf(a), np.sign(a), 0))


def small() -> Program:
    return convolution(3, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", [small, zeros_as_terms], ids=lambda m: m.__name__)
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_results_are_those_of_the_formula(make: Callable[[], Program], number: float) -> None:
    program = make()
    outputs, inputs = program
    for at in range(len(inputs)):
        arrays = given(inputs, at, number)
        wanted = interpret(outputs, dict(zip(inputs, arrays, strict=True)))
        for t, have, want in zip(outputs, results(program, arrays, CONTRACT), wanted, strict=True):
            np.testing.assert_array_equal(kind(have), kind(want), err_msg=f"{t.name}, {at}")
            usual = np.isfinite(want)
            np.testing.assert_allclose(have[usual], want[usual], 1e-4, 1e-4)


def test_the_formula_runs_only_where_a_factor_is_unusual() -> None:
    program = lower_program(*convolution(), choices=CONTRACT)
    verify_loops(program)
    rare = [s for k in program.kernels for s in statements(k.body) if isinstance(s, If) and s.rare]
    assert len(rare) == 3, "the forward pass and both gradients"
    assert all(len(k.scratch) for k in program.kernels)
    alone = lower_program(*zeros_as_terms(), choices=CONTRACT).kernels
    assert not any(isinstance(s, If) and s.rare for k in alone for s in statements(k.body))
    flops = sum(predict(k, {}).flops for k in program.kernels)
    assert flops < 1.5 * 3 * 2 * (2 * 4 * 36 * 3 * 9), "what hardly ever runs is not counted"


def test_the_formula_runs_in_lanes_and_is_not_cut() -> None:
    for k in lower_program(*convolution(14, 20), choices=CONTRACT).kernels:
        rare = [s for s in statements(k.body) if isinstance(s, If) and s.rare]
        for again in [s.then for s in rare]:
            inside = [s for s in statements(again) if isinstance(s, For)]
            assert sum(s.kind == "vector" for s in inside) == 1


def test_a_small_result_of_unknown_size_is_looked_at() -> None:
    x = te.placeholder((te.size("n"), 3, 3, 15), name="X")
    w = te.placeholder((2, 3, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    h = te.placeholder(y.shape, name="H")
    verify_loops(lower_program([y, *ta.vjp(y, [x, w], h)], [x, w, h], choices=CONTRACT))


def check_random(seed: int) -> None:
    """Contractions and their gradients with unusual inputs, as without contractions."""
    made = contraction(seed)
    y, inputs = made.output, list(made.inputs)
    rng = np.random.default_rng(seed)
    head = te.placeholder(y.shape, dtype=str(y.dtype), name="H")
    program = [y, *ta.vjp(y, inputs, head)], [*inputs, head]
    arrays = [*made.arrays(seed), rng.normal(size=y.shape).astype(str(y.dtype))]  # type: ignore[arg-type]  # numbers
    for a in arrays:
        a.flat[rng.integers(0, a.size)] = rng.choice((np.inf, -np.inf, np.nan))
    wanted = results(program, arrays, Choices(contract=False))
    for have, want in zip(results(program, arrays, CONTRACT), wanted, strict=True):
        np.testing.assert_array_equal(kind(have), kind(want), err_msg=str(seed))


@pytest.mark.slow
def test_random_contractions_with_unusual_numbers() -> None:
    for seed in range(20):
        check_random(seed)
