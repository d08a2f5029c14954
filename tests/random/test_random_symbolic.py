"""Random programs over symbolic sizes: one build, called at five sizes, 0 and 1 among them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.tensor import Tensor
from tests.random.generators import Program, campaign, random_symbolic_program

SIZES = (
    {"n": 0, "m": 3},
    {"n": 1, "m": 1},
    {"n": 5, "m": 2},
    {"n": 4, "m": 0},
    {"n": 3, "m": 9},
)


def check_sizes(program: Program, outputs: list[Tensor], head: Tensor | None = None) -> None:
    """Compiled = interpreted at every size, by one compiled function."""
    f: CompiledFunction | None = None
    for sizes in SIZES:
        arrays = program.arrays(sizes)
        if head is not None:
            shape = shape_of(program.outputs[-1], {t: a.shape for t, a in arrays.items()}, sizes)
            arrays[head] = np.random.default_rng(program.seed).standard_normal(shape)
        f = f or build(outputs, list(arrays))
        results = f(*arrays.values())
        have = results if isinstance(results, list) else [results]
        want = interpret(outputs, arrays, sizes)
        for t, a, b in zip(outputs, have, want, strict=True):
            assert a.shape == b.shape, f"{t} at {sizes}"
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{t} at {sizes}")


def check_values(seed: int) -> None:
    """All outputs of one program."""
    program = random_symbolic_program(seed)
    check_sizes(program, program.outputs)


def check_gradients(seed: int) -> None:
    """The gradients of the last output."""
    program = random_symbolic_program(seed, computes=3, sums=True)
    y = program.outputs[-1]
    h = te.placeholder(y.shape, dtype="float64", name="H")
    check_sizes(program, vjp(y, program.float_inputs, h), h)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(5))
def test_values(seed: int) -> None:
    check_values(seed)


@pytest.mark.parametrize("seed", range(4))
def test_gradients(seed: int) -> None:
    check_gradients(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(5, 42), 12))
def test_more_values(seed: int) -> None:
    check_values(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(4, 20), 6))
def test_more_gradients(seed: int) -> None:
    check_gradients(seed)
