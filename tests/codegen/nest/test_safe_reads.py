"""Which reads stay inside of their tensors without the guards around them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.nest.access import access, in_bounds, strides, unsafe_reads
from tensorad.ir.expr import Expr, axis, int_const
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import nest_for, op_of

X = te.placeholder((5,), "float64", name="X")
M = te.placeholder((4,), "float64", name="M")
SIZE = te.size("n")
I, K = axis("i", 0, 5), axis("k", 0, SIZE)  # noqa: E741


@pytest.mark.parametrize(
    ("index", "extent", "inside"),
    [
        (I, 5, True), (I, 4, False), (I + 1, 5, False), (I + 1, 6, True), (I - 1, 9, False),
        (4 - I, 5, True), (3 - I, 5, False), (I * 2, 9, True), (I * 2, 8, False),
    ],
)  # fmt: skip
def test_of_known_extents(index: Expr, extent: int, inside: bool) -> None:
    assert in_bounds(index, int_const(extent), Ranges([I])) == inside


@pytest.mark.parametrize(
    ("index", "extent", "inside"),
    [
        (K, SIZE, True), (K + 1, SIZE, False), (K + 1, SIZE + 1, True), (K + 2, SIZE + 1, False),
        (K - 1, SIZE, False), (K + I, SIZE + 4, True), (K + I, SIZE + 3, False),
    ],
)  # fmt: skip
def test_of_symbolic_extents(index: Expr, extent: Expr, inside: bool) -> None:
    assert in_bounds(index, extent, Ranges([I, K])) == inside


def test_guards_of_selects_count() -> None:
    inside = te.compute((4,), lambda i: te.select(M[i] > 0, X[i + 1], 0.0))
    beyond = te.compute((4,), lambda i: te.select(i < 3, X[i + 2], 0.0))
    assert not unsafe_reads(nest_for(inside))
    assert unsafe_reads(nest_for(beyond))


def test_conditions_of_folds_count_where_lanes_differ_in_them() -> None:
    k = te.reduce_axis(3, name="k")

    def summed(condition: object) -> Tensor:
        return te.compute((4,), lambda i: te.sum(X[k + i], axis=k, where=condition(i)))  # type: ignore[operator]

    t = summed(lambda i: (M[i] > 0) & (i < 3))
    nest = nest_for(t)
    (i,) = op_of(t).axes
    assert unsafe_reads(nest, i if i in nest.axes else nest.axes[0])
    inside = te.compute((3,), lambda i: te.sum(X[k + i], axis=k, where=M[i] > 0))
    assert not unsafe_reads(nest_for(inside), nest_for(inside).axes[0])


def test_strides_are_products_of_the_extents_behind() -> None:
    assert strides((2, 3, 4)) == [12, 4, 1]
    t = te.placeholder((2, 3, 4), name="t")
    a, b, c = axis("a", 0, 2), axis("b", 0, 3), axis("c", 0, 4)
    found = access(t, (a, b, c))
    assert [found.stride(x) for x in (a, b, c)] == [12, 4, 1]


def test_rows_are_read_where_they_lie() -> None:
    """A third step that reads another row of the second cannot join the loop of both."""
    n = 64
    x = te.placeholder((n, n), "float64", name="x")
    k = te.reduce_axis(n, name="k")
    a = te.compute((n, n), lambda i, j: te.exp(x[i, j] / 9), name="a")
    for at in (lambda i: i, lambda i: n - 1 - i):
        b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")
        c = te.compute((n, n), lambda i, j: a[i, j] / b[at(i)], name="c")
        array = np.arange(float(n * n)).reshape(n, n) / (n * n)
        e = np.exp(array / 9)
        want = e / e.sum(1)[[at(i) for i in range(n)], None]
        np.testing.assert_allclose(ta.build([c, a], [x])(array)[0], want, rtol=1e-12)
