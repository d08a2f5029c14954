"""Loops that store: how many registers they take at a time, and that all elements are met."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import build
from tensorad.codegen.kernel_key import kernel_key
from tensorad.codegen.kernels import kernel_text
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.expr import Expr

WIDE = "vector_bytes=64,registers=32,l2=1048576,l3=33554432"
N = 1024


def order(n: int, f: Callable[[Expr, Expr], Expr], machine: str = WIDE) -> str:
    """The loads and stores of a loop over two arrays: l and s, in the order of the text."""
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    y = te.compute((n,), lambda i: f(a[i], b[i]), name="Y")
    with override(machine=machine):
        (kernel,) = lower_program([y], [a, b]).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    lines = [line for line in text.splitlines() if "<16 x float>" in line]
    found = [
        "l" if " = load " in line else "s" if line.startswith("store ") else "" for line in lines
    ]
    return "".join(found)


def test_several_registers_are_read_before_one_is_stored() -> None:
    assert order(N, lambda x, y: x * y) == "l" * 8 + "s" * 4
    assert order(N, lambda x, y: x * y, f"{WIDE},vector_bytes=16,registers=32") == "llllss"
    assert order(N, lambda x, y: x * y, f"{WIDE},vector_bytes=16,registers=16") == "lls"


def test_short_loops_and_functions_take_one_register() -> None:
    assert order(240, lambda x, y: x * y) == "lls"
    assert order(N, lambda x, y: te.exp(x) * y) == "lls"


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [256, 257, 271, 273, 320, 383, 511])
def test_every_element_is_stored_once(n: int, dtype: str, streaming: bool) -> None:
    a, v = te.placeholder((3, n), dtype, name="A"), te.placeholder((n,), dtype, name="V")
    y = te.compute((3, n), lambda i, j: (a[i, j] - v[j]) * v[j], name="Y")
    with override(machine=f"{WIDE},vector_bytes=64"):
        f = build(y, [a, v], schedule=ta.Schedule(streaming=streaming))
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((3, n)).astype(dtype), rng.standard_normal(n).astype(dtype)
    x[1, n // 2] = np.nan
    for offset in (0, 1, 3, 15):
        room = np.full(3 * n + 32, 7, dtype)
        f(x, w, out=room[offset : offset + 3 * n].reshape(3, n))
        np.testing.assert_array_equal(room[offset : offset + 3 * n].reshape(3, n), (x - w) * w)
        assert (room[:offset] == 7).all() and (room[offset + 3 * n :] == 7).all()
