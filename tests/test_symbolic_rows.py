"""Transposes of tensors whose rows have symbolic lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.config import override
from tensorad.ir.tensor import Tensor
from tests.guarded import guarded
from tests.test_memory_bound import RNG, text_of
from tests.test_targets import HAS_AVX2

CPUS = ("", *(("cpu=haswell",) if HAS_AVX2 else ()))
KINDS = ("both", "rows", "columns")


def transposed(rows: int, columns: int, kind: str, dtype: str) -> tuple[list[Tensor], list[Tensor]]:
    """Y[i, j] = X[j, i], X of shape (rows, columns), some of whose extents are symbolic."""
    m: Any = te.size("m") if kind in ("both", "rows") else rows
    n: Any = te.size("n") if kind in ("both", "columns") else columns
    x = te.placeholder((m, n), dtype, name="X")
    return [te.compute((n, m), lambda i, j: x[j, i], name="Y")], [x]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_rows_of_any_length_are_transposed(dtype: str, kind: str, cpu: str) -> None:
    with override(machine=cpu):
        f = build(*transposed(50, 37, kind, dtype))
    for rows, columns in ((50, 37), (33, 16), (16, 48), (5, 70), (70, 5), (1, 1)):
        shape = (50 if kind == "columns" else rows, 37 if kind == "rows" else columns)
        for at_end in (False, True):
            x, y = guarded(shape, dtype, at_end), guarded(shape[::-1], dtype, at_end)
            x[...] = RNG.integers(0, 2 if dtype == "bool" else 99, shape)
            f(x, out=y)
            np.testing.assert_array_equal(y, x.T)


def test_a_formula_reads_rows_of_symbolic_length_at_several_places() -> None:
    m, n = te.size("m"), te.size("n")
    x, z = te.placeholder((m + 1, n), name="X"), te.placeholder((n, m), name="Z")
    y = te.compute((n, m), lambda i, j: x[j, i] * z[i, j] + x[j + 1, i], name="Y")
    f = build([y], [x, z])
    for rows, columns in ((40, 53), (3, 18), (65, 64)):
        a, b = RNG.standard_normal((rows + 1, columns)), RNG.standard_normal((columns, rows))
        a, b = a.astype("float32"), b.astype("float32")
        want = a[:-1].T.astype("float64") * b + a[1:].T
        np.testing.assert_allclose(f(a, b), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_loaded_by_pieces_of_rows(kind: str) -> None:
    machine = "l2=100000000,l3=100000000,vector_bytes=64"
    fixed = text_of(*transposed(64, 80, "fixed", "float32"), machine)
    text = text_of(*transposed(64, 80, kind, "float32"), machine)
    assert fixed.count("= load <8 x float>") == 32
    assert text.count("= load <8 x float>") >= 32
