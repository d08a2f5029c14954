"""Contractions whose extents are known only at the call: the bits of those of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.autodiff import vjp
from tensorad.codegen.contraction.register_tiles import row_tiles
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir.expr import int_const
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.codegen.contraction.test_contraction import FORCED

Made = tuple[list[Tensor], list[Tensor]]
"""Outputs and inputs."""


def dense(n: Any) -> Made:
    x, w = ta.placeholder((n, 19), name="X"), ta.placeholder((37, 19), name="W")
    y = topi.nn.dense(x, w)
    h = ta.placeholder(y.shape, name="H")
    return [y, *vjp(y, [x, w], h)], [x, w, h]


def convolution(n: Any) -> Made:
    x, w = ta.placeholder((n, 3, 7, 6), name="X"), ta.placeholder((5, 3, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    h = ta.placeholder(y.shape, name="H")
    return [y, *vjp(y, [x, w], h)], [x, w, h]


def batched(n: Any) -> Made:
    a, b = ta.placeholder((n, 2, 7, 9), name="A"), ta.placeholder((n, 9, 21), name="B")
    k = ta.reduce_axis(9, name="k")
    y = ta.compute(
        (2, n, 7, 21), lambda h, s, i, j: ta.sum(a[s, h, i, k] * b[s, k, j], axis=k), name="Y"
    )
    return [y], [a, b]


def deep(n: Any) -> Made:
    """Reduce axes before and behind the symbolic one; factors of one side are multiplied."""
    t, c = ta.placeholder((13, 4, n, 5), name="T"), ta.placeholder((4, 18), name="C")
    d = ta.placeholder((n, 5, 18), name="D")
    ks = [ta.reduce_axis(4, name="p"), ta.reduce_axis(n, name="q"), ta.reduce_axis(5, name="r")]
    p, q, r = ks
    y = ta.compute(
        (13, 18), lambda i, s: ta.sum(t[i, p, q, r] * c[p, s] * d[q, r, s], axis=ks), name="Y"
    )
    return [y], [t, c, d]


def outside(n: Any) -> Made:
    """A symbolic reduce axis around the one that is cut, rows with a symbolic first axis."""
    a, b = ta.placeholder((n, 3, n, 11), name="A"), ta.placeholder((n, 11, 17), name="B")
    ks = [ta.reduce_axis(n, name="p"), ta.reduce_axis(11, name="q")]
    p, q = ks
    y = ta.compute(
        (n, 3, 17), lambda i, c, j: ta.sum(a[i, c, p, q] * b[p, q, j], axis=ks), name="Y"
    )
    return [y], [a, b]


def grouped(n: Any) -> Made:
    """Groups divide the channels, the dilation divides bounds of the window."""
    x, w = ta.placeholder((n, 6, 9, 11), name="X"), ta.placeholder((8, 3, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=2, dilation=2, groups=2)
    h = ta.placeholder(y.shape, name="H")
    return [y, *vjp(y, [x], h)], [x, w, h]


MADE = (dense, convolution, batched, deep, outside, grouped)
QUICK = ((deep, FORCED[1]), (outside, FORCED[3]), (grouped, FORCED[0]))
"""Not left to the slow tests."""


def arrays(tensors: list[Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=t.shape).astype(np.float32) for t in tensors]


def results(found: Any) -> list[np.ndarray]:
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        pytest.param(m, c, marks=() if (m, c) in QUICK else pytest.mark.slow)
        for m in MADE
        for c in FORCED[:4]
    ],
)
def test_symbolic_sizes_add_as_fixed_ones_do(make: Callable[[Any], Made], choices: Choices) -> None:
    out, inputs = make(ta.size("n"))
    verify_loops(lower_program(out, inputs, choices=choices))
    f = ta.build(out, inputs, schedule=choices)
    for n in (0, 1, 6, 23):
        same, given = make(n)
        expected = ta.build(same, given, schedule=Choices(contract=True))
        xs = arrays(given)
        for mine, other in zip(results(f(*xs)), results(expected(*xs)), strict=True):
            assert np.array_equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize("make", MADE)
def test_symbolic_contractions_are_right(make: Callable[[Any], Made]) -> None:
    out, inputs = make(ta.size("n"))
    f = ta.build(out, inputs, schedule=Choices(contract=True))
    for n in (2, 5):
        same, given = make(n)
        xs = arrays(given)
        if n == 2:
            wide = [x.astype(np.float64) for x in xs]
            wanted = interpret(same, dict(zip(given, wide, strict=True)))
        else:  # where the interpreter takes long
            wanted = results(ta.build(same, given, schedule=Choices(contract=False))(*xs))
        for mine, want in zip(results(f(*xs)), wanted, strict=True):
            np.testing.assert_allclose(mine, want, rtol=1e-4, atol=1e-4)


def test_the_analysis_takes_them_by_itself() -> None:
    n = ta.size("n")
    x, w = ta.placeholder((n, 64), name="X"), ta.placeholder((64, 64), name="W")
    image, taps = ta.placeholder((n, 8, 16, 16), name="I"), ta.placeholder((8, 8, 3, 3), name="T")
    for out, inputs in (
        (topi.nn.dense(x, w), [x, w]),
        (topi.nn.conv2d(image, taps, padding=1), [image, taps]),
    ):
        (kernel,) = lower_program([out], inputs).kernels
        loops = [s for s in statements(kernel.body) if isinstance(s, For)]
        assert any(s.kind == "vector" and s.axis.name == "l" for s in loops)
        assert "@llvm.fma" in kernel_text(kernel, kernel_key(kernel)[1])[0]


@pytest.mark.parametrize("images", [4, None])
def test_groups_with_dilated_windows_are_one_contraction(images: int | None) -> None:
    n = ta.size("n") if images is None else images
    x, w = ta.placeholder((n, 32, 64, 64), name="X"), ta.placeholder((64, 8, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=2, dilation=2, groups=4)
    (kernel,) = ta.lower([y], [x, w]).report().kernels
    (said,) = [d.why for d in kernel.decisions if d.what == "contraction"]
    assert "over ci, ky, kx, batch coo" in said


def test_rows_of_an_unknown_number_take_ever_smaller_tiles() -> None:
    assert [t[2] for t in row_tiles(ta.size("n"), 6, 1)] == [6, 3, 1]
    assert [t[2] for t in row_tiles(int_const(10), 6, 1)] == [5]
