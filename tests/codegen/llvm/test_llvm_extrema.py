"""Extrema in lanes: NaN comes through from every lane, and half of the comparisons see it."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

MACHINES = ("vector_bytes=64,registers=32", "vector_bytes=32,registers=16")


def extremum(name: str, shape: tuple[int, int], dtype: str) -> tuple[Tensor, list[Tensor]]:
    """The extremum of the quotients of each row: lanes beyond the row would divide 0 by 0."""
    x, z = (te.placeholder(shape, dtype, name=n) for n in "XZ")
    k = te.reduce_axis(shape[1], name="k")
    op = te.max if name == "max" else te.min

    def value(i: Expr) -> Expr:
        return op(x[i, k] / z[i, k], axis=k)

    return te.compute((shape[0],), value, name="Y"), [x, z]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 7, 16, 33, 64, 100, 135])
def test_nan_comes_through_from_every_place(n: int, dtype: str, name: str, machine: str) -> None:
    y, inputs = extremum(name, (n + 3, n), dtype)
    with described(machine):
        f = build(y, inputs)
    x = np.random.default_rng(n).normal(size=(n + 3, n)).astype(dtype)
    x[np.arange(n), np.arange(n)] = np.nan
    x[n + 1] = np.inf
    x[n + 2] = -np.inf
    want: Callable[..., np.ndarray] = np.max if name == "max" else np.min
    found = f(x, np.ones_like(x))
    np.testing.assert_array_equal(found, want(x, axis=1))
    assert np.isnan(found[:n]).all() and not np.isnan(found[n:]).any()


def test_two_registers_are_compared_once() -> None:
    y, inputs = extremum("max", (4, 1024), "float32")
    with described(MACHINES[0]):
        (kernel,) = lower_program([y], inputs).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    loop = next(b for b in re.split(r"\n\w+:\n", text) if b.count("fdiv <16 x float>") == 4)
    counts = [loop.count(f"fcmp {p} <16 x float>") for p in ("ogt", "uno")]
    assert counts == [4, 2]
    assert text.count("llvm.vector.reduce.or.v16i1(<16 x i1> %") == 1
