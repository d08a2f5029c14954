"""Random programs with every decision of the schedule made for it in turn."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BuildError
from tensorad.ir.reference.interpret import interpret
from tests.random.generators import (
    SOAK,
    WIDE,
    campaign,
    random_program,
    random_symbolic_program,
)
from tests.random.test_random_jit import DTYPES
from tests.support.choice_cases import TILES, by_name, close, general


def check(seed: int, most: int | None = None) -> int:
    """One program with its choices, all or some; how many could be followed."""
    rng = random.Random(seed)
    dtype = DTYPES[seed // 4 % len(DTYPES)]
    kind, sizes = seed % 4, {"n": 5, "m": 3} if seed % 4 == 3 else {}
    if kind == 3:
        program = random_symbolic_program(seed, "float64", 3)
    elif kind:
        program = random_program(seed, dtype, 3, extents=WIDE)
    else:
        program = random_program(seed, dtype, 4)
    tensors, arrays = program.tensors, program.arrays(sizes)
    want = interpret(tensors, arrays, sizes)
    cases = [*general(), *by_name(program, tensors)]
    followed = 0
    for choices in cases if most is None else rng.sample(cases, min(most, len(cases))):
        try:
            loops = lower_program(tensors, list(arrays), choices=choices)
        except BuildError as error:
            assert "cannot run in lanes" in str(error)
            continue
        followed += 1
        f = CompiledFunction(tensors, loops, "f")
        with override(num_threads=rng.choice((1, 2, 3))):
            have = f(*arrays.values(), **sizes)
        close(tensors, have if isinstance(have, list) else [have], want)
        if sum(a.size for a in want) < 400:
            verify_loops(loops)
            close(tensors, interpret_loops(loops, arrays, sizes)[0], want)
    return followed


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
def test_a_sample(seed: int) -> None:
    assert check(seed, 3) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(0, 3_000, 10), 1))
def test_many(first: int) -> None:
    for seed in range(100 + first, 110 + first):
        check(seed, None if SOAK else 12)


def edges() -> Iterator[tuple[int, int, int]]:
    """Extents 1 .. twice the tile, of rows, columns and steps in turn."""
    for n in range(1, 11):
        yield n, 18, 3
    for n in range(1, 67):
        yield 3, n, 2
    for n in range(1, 13):
        yield 6, 17, n


@pytest.mark.parametrize("tile", [(5, 1), (4, 2), (2, 3)])
def test_ragged_edges_of_a_tile(tile: tuple[int, int]) -> None:
    n, m, depth = te.size("n"), te.size("m"), te.size("d")
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis(depth, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k) + 1.0, name="C")
    f = build(c, [a, b], schedule=Choices(vector="j", tile=tile))
    rng = np.random.default_rng(1)
    for rows, columns, steps in edges():
        x, y = (rng.integers(-4, 5, s).astype("f") for s in ((rows, steps), (steps, columns)))
        np.testing.assert_array_equal(f(x, y), x @ y + 1, err_msg=f"{rows, columns, steps}")


@pytest.mark.slow
@pytest.mark.parametrize("tile", TILES)
def test_ragged_edges_of_fixed_sizes(tile: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    for rows, columns, steps in [*edges()][::3]:
        a = te.placeholder((rows, steps), dtype="float64", name="A")
        b = te.placeholder((steps, columns), dtype="float64", name="B")
        k = te.reduce_axis(steps, name="k")
        c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        x, y = rng.integers(-4, 5, a.shape) * 1.0, rng.integers(-4, 5, b.shape) * 1.0
        np.testing.assert_array_equal(build(c, [a, b], schedule=Choices(tile=tile))(x, y), x @ y)
