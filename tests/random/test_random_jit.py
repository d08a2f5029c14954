"""Random programs: compiled = interpreted, for every dtype and memory layout of the inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad.building import build
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.random.generators import WIDE, Array, campaign, random_program, seeds

TOLERANCE = {"float64": 1e-9, "float32": 3e-4}
DTYPES = ("float64", "float64", "float32", "int32", "int64", "uint8", "int8", "bool")


def relaid(a: Array, kind: int) -> Array:
    """The same values in another layout: contiguous, strided, reversed, transposed, inner."""
    match kind:
        case 1:
            wide = np.zeros(tuple([2 * n for n in a.shape]), a.dtype)
            view = wide[(..., *[slice(None, None, 2)] * a.ndim)]
        case 2:
            view = np.zeros(a.shape, a.dtype)[(..., *[slice(None, None, -1)] * a.ndim)]
        case 3:
            view = np.zeros(a.shape, a.dtype, order="F")
        case 4:
            wide = np.zeros(tuple([n + 3 for n in a.shape]), a.dtype)
            view = wide[(..., *[slice(1, n + 1) for n in a.shape])]
        case _:
            return a
    view[...] = a
    return view


def check_compiled(outputs: list[Tensor], arrays: dict[Tensor, Array], seed: int) -> None:
    """The outputs by machine code and by the interpreter."""
    f = build(outputs, list(arrays))
    expected = interpret(outputs, arrays)
    given = [relaid(a, (seed + n) % 5) for n, a in enumerate(arrays.values())]
    results = f(*given)
    results = results if isinstance(results, list) else [results]
    for t, want, have in zip(outputs, expected, results, strict=True):
        assert have.dtype == np.dtype(str(t.dtype)) and have.shape == want.shape
        if not t.dtype.is_float:
            np.testing.assert_array_equal(have, want.astype(have.dtype), err_msg=str(t))
            continue
        tolerance = TOLERANCE[t.dtype]
        scale = 1.0 + float(
            np.abs(want, where=np.isfinite(want), out=np.zeros_like(want)).max(initial=0)
        )
        np.testing.assert_allclose(
            have, want, rtol=tolerance, atol=tolerance * scale, err_msg=str(t)
        )


def check_values(seed: int) -> None:
    """Every tensor of one program."""
    program = random_program(seed, DTYPES[seed % len(DTYPES)])
    tensors = program.tensors if seed % 3 == 0 else program.outputs
    check_compiled(tensors, program.arrays(), seed)


def check_wide(seed: int) -> None:
    """Programs with extents of several vectors and a tail."""
    program = random_program(seed, DTYPES[seed % len(DTYPES)], computes=4, extents=WIDE)
    check_compiled(program.tensors, program.arrays(), seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(12))
def test_values(seed: int) -> None:
    check_values(seed)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_wide(seed: int) -> None:
    check_wide(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(12, 280), 60))
def test_more_values(seed: int) -> None:
    check_values(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(6, 100), 20))
def test_more_wide(seed: int) -> None:
    check_wide(seed)
