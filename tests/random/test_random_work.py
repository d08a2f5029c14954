"""Random programs: the count `work` predicts is the count the loop interpreter executes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad.autodiff import vjp
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.counting import work
from tensorad.ir.tensor import Tensor
from tests.random.generators import (
    Array,
    Program,
    campaign,
    random_program,
    random_symbolic_program,
    seeds,
)
from tests.support.program_checks import asks_for_data, like


def check_count(tensors: list[Tensor], arrays: dict[Tensor, Array], sizes: dict[str, int]) -> None:
    """Executed bodies of the unscheduled loops, and `work` for these sizes."""
    program = lower_program(tensors, list(arrays), schedule=False)
    executed = interpret_loops(program, arrays, sizes)[1]
    assert work(tensors, sizes).iterations == executed


def check_gradients(program: Program) -> bool:
    """Those of one output by all float inputs; whether the count had to be the same.

    A gradient may ask for data where the program does not, as those of selections: less is
    executed then than `work` counts.
    """
    y = program.outputs[-1]
    if not (y.dtype.is_float and program.float_inputs):
        return False
    h = like(y, "H")
    gradients = vjp(y, program.float_inputs, h)
    arrays = {**program.arrays(), h: np.ones([int(str(n)) for n in y.shape])}
    loops = lower_program(gradients, list(arrays), schedule=False)
    executed, counted = interpret_loops(loops, arrays)[1], work(gradients).iterations
    if asks_for_data(loops):
        assert executed <= counted
        return False
    assert executed == counted
    return True


def check_values(seed: int) -> None:
    """Every tensor of one program."""
    program = random_program(seed, data_conditions=False)
    check_count(program.tensors, program.arrays(), {})


def check_limit(seed: int) -> None:
    """Conditions on data count as true: the count is then an upper limit."""
    program = random_program(seed)
    arrays = program.arrays()
    loops = lower_program(program.tensors, list(arrays), schedule=False)
    assert interpret_loops(loops, arrays)[1] <= work(program.tensors).iterations


def check_symbolic(seed: int) -> None:
    """One symbolic program at three sizes."""
    program = random_symbolic_program(seed, computes=3, data_conditions=False)
    for sizes in ({"n": 0, "m": 3}, {"n": 1, "m": 1}, {"n": 4, "m": 5}):
        check_count(program.tensors, program.arrays(sizes), sizes)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", seeds(20, 40))
def test_values(seed: int) -> None:
    check_values(seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(8))
def test_symbolic(seed: int) -> None:
    check_symbolic(seed)


@pytest.mark.parametrize("seed", range(10))
def test_limit(seed: int) -> None:
    check_limit(seed)


def check_exactly(first: int, count: int) -> int:
    """So many programs, each with its gradients: how many of these were compared exactly."""
    compared = 0
    for seed in range(first, first + count):
        program = random_program(seed, "float64", data_conditions=False)
        check_count(program.tensors, program.arrays(), {})
        compared += check_gradients(program)
    return compared


def test_most_gradients_are_compared_exactly() -> None:
    assert check_exactly(300, 3) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(400, 920, 20), 1))
def test_more_gradients_are_compared_exactly(first: int) -> None:
    """520 programs with HYPOTHESIS_PROFILE=soak, and more than 300 gradients in any case."""
    assert check_exactly(first, 20) >= 15
