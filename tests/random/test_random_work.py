"""Random programs: the count `work` predicts is the count the loop interpreter executes."""

from __future__ import annotations

import pytest

from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.counting import work
from tensorad.ir.tensor import Tensor
from tests.random.generators import Array, random_program, random_symbolic_program, seeds


def check_count(tensors: list[Tensor], arrays: dict[Tensor, Array], sizes: dict[str, int]) -> None:
    """Executed bodies of the unscheduled loops, and `work` for these sizes."""
    program = lower_program(tensors, list(arrays), schedule=False)
    executed = interpret_loops(program, arrays, sizes)[1]
    assert work(tensors, sizes).iterations == executed


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
