"""Reverse mode: what gradients look like, and what they cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import JacobianRecursive, hessian, jacobian, vjp
from tensorad.checking import gradcheck
from tensorad.counting import work
from tensorad.errors import GradError
from tensorad.ir.expr import Const, Expr, Reduce
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Scatter, Tensor, outputs
from tensorad.ir.visit import op_expressions, postorder, topological_ops


def body(t: Tensor) -> str:
    """The only formula of a compute, printed."""
    assert isinstance(t.op, Compute)
    return str(t.op.bodies[t.index])


def nodes(tensors: list[Tensor]) -> int:
    """Expression nodes of the whole DAG (constants aside: equal ones are one node)."""
    return sum(
        not isinstance(e, Const)
        for op in topological_ops(tensors)
        for e in postorder(*op_expressions(op))
    )


def matrix(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, name=name)


def test_outputs_without_elements_have_gradients_of_zeros() -> None:
    x, k = matrix("X", 4), te.reduce_axis(4, name="k")
    product = te.compute((6,), lambda i: te.prod(x[k] + i, axis=k))
    y = te.compute((6, 0), lambda i, j: product[i] * 2.0)
    (dx,) = vjp(y, [x], matrix("H", 6, 0), strict=True)
    assert body(dx) == "0.0"  # and no walk back through the products


def test_dense_weights_sum_over_the_batch_alone() -> None:
    x, w, h = matrix("X", 8, 9), matrix("W", 7, 9), matrix("H", 8, 7)
    k = te.reduce_axis(9, "k")
    y = te.compute((8, 7), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="Y")
    dx, dw = JacobianRecursive(y, [x, w], h)
    assert body(dw) == "sum(H[i, j]*X[i, k], axes (i : [0, 7]))"
    assert body(dx) == "sum(H[i, j]*W[j, k], axes (j : [0, 6]))"
    reduction = dw.op.bodies[0]
    assert isinstance(reduction, Reduce)
    assert str(reduction.condition) == "True"


def test_flatten_has_no_reduction_and_no_guard() -> None:
    x, h = matrix("X", 3, 2, 4, 5), matrix("H", 3, 40)
    y = te.compute((3, 40), lambda i, k: x[i, k // 20, k // 5 % 4, k % 5], name="Y")
    assert body(vjp(y, [x], h)[0]) == "H[i, 20*x1 + 5*x2 + x3]"


def test_average_pool_has_no_reduction_and_no_guard() -> None:
    x, h = matrix("X", 3, 2, 8, 6), matrix("H", 3, 2, 4, 3)
    ky, kx = te.reduce_axis(2, "ky"), te.reduce_axis(2, "kx")
    y = te.compute(
        (3, 2, 4, 3),
        lambda n, c, i, j: te.sum(x[n, c, 2 * i + ky, 2 * j + kx], axis=[ky, kx]) * 0.25,
        name="Y",
    )
    assert body(vjp(y, [x], h)[0]) == "H[n, c, x2//2, x3//2]*0.25"


def test_two_reads_of_one_tensor_are_two_terms() -> None:
    a, h = matrix("A", 6, 6), matrix("H", 6, 6)
    y = te.compute((6, 6), lambda i, j: a[i, j] + a[j, i], name="Y")
    assert body(vjp(y, [a], h)[0]) == "H[i, j] + H[j, i]"


def test_values_needed_anyway_are_read_back() -> None:
    x, h = matrix("X", 5, 6), matrix("H", 5, 6)
    e = te.compute((5, 6), lambda i, j: te.exp(x[i, j]), name="e")
    k = te.reduce_axis(6, "k")
    s = te.compute((5,), lambda i: te.sum(e[i, k], axis=k), name="s")
    y = te.compute((5, 6), lambda i, j: e[i, j] / s[i], name="Y")
    (dx,) = vjp(y, [x], h)
    exps = [
        e
        for op in topological_ops([dx])
        for e in postorder(*op_expressions(op))
        if str(e).startswith("exp(")
    ]
    assert len(exps) == 1


def test_maximum_over_disjoint_windows_asks_for_the_winner() -> None:
    x, h = matrix("X", 5, 6), matrix("H", 5)
    k = te.reduce_axis(6, "k")
    y = te.compute((5,), lambda i: te.max(x[i, k], axis=k), name="Y")
    (dx,) = vjp(y, [x], h)
    assert body(dx) == "select(Y.winner[i] == k, H[i], 0.0)"


def test_maximum_over_overlapping_windows_scatters_to_the_winner() -> None:
    x, h = matrix("X", 9), matrix("H", 7)
    k = te.reduce_axis(3, "k")
    y = te.compute((7,), lambda i: te.max(x[i + k], axis=k), name="Y")
    (dx,) = vjp(y, [x], h)
    assert isinstance(dx.op, Scatter)
    assert [a.name for a in dx.op.axes] == ["i"]


def test_points_that_meet_in_one_element_are_all_counted() -> None:
    x, h = matrix("X", 5), te.placeholder((), name="H")
    k = te.reduce_axis((1, 5), "k")
    y = te.compute((), lambda: te.sum(x[te.minimum((1 + k) % 8, 8 - (1 + k) % 8)], axis=k))
    (dx,) = vjp(y, [x], h)
    found = interpret(dx, {h: np.float32(1.0)})
    assert found.tolist() == [0.0, 0.0, 1.0, 2.0, 1.0]


def test_jacobian_of_a_product_is_a_guarded_read() -> None:
    x, w = matrix("X", 3, 4), matrix("W", 2, 4)
    k = te.reduce_axis(4, "k")
    y = te.compute((3, 2), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="Y")
    j = jacobian(y, w)
    assert j.shape == (3, 2, 2, 4)
    assert body(j) == "select(j == b1, X[b0, k], 0.0)"


def test_hessian_of_a_separable_sum_is_diagonal() -> None:
    x = matrix("x", 4)
    k = te.reduce_axis(4, "k")
    y = te.compute((), lambda: te.sum(te.exp(x[k]), axis=k), name="y")
    assert body(hessian(y, x)) == "select(k == b0, exp(x[k]), 0.0)"


@pytest.mark.parametrize("n", [8, 11])
def test_node_counts_do_not_depend_on_extents(n: int) -> None:
    counts = []
    for extent in (n, 3 * n):
        x, h = matrix("X", extent, extent), matrix("H", extent - 2)
        a, b = te.reduce_axis(3, "a"), te.reduce_axis(extent, "b")
        y = te.compute((extent - 2,), lambda i: te.prod(x[i + a, b], axis=[a, b]), name="Y")
        counts.append(nodes(vjp(y, [x], h)))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_many_reads_share_one_pass() -> None:
    x, h = matrix("X", 300), matrix("H", 100)
    y = te.compute((100,), lambda i: _product(x, i, 100), name="Y")
    (dx,) = vjp(y, [x], h)
    assert isinstance(dx.op, Scatter)
    assert nodes([dx]) < 3000


def _product(x: Tensor, i: object, count: int) -> object:
    total: object = x[i]
    for n in range(1, count):
        total = total * x[i + 2 * n]  # type: ignore[operator]
    return total


def test_an_adjoint_that_is_zero_in_one_row_is_summed_over_the_others() -> None:
    x = te.placeholder((5,), "float64", name="X")
    w = te.placeholder((6, 5), "float64", name="W")
    j = te.reduce_axis(5, "j")
    t = te.compute((6,), lambda i: te.sum(x[j] * w[i, j], axis=j), name="T")
    y = te.compute((6,), lambda i: te.select(i == 2, 1.0, te.exp(t[i])), name="Y")
    (dx,) = vjp(y, [x], te.placeholder((6,), "float64", name="H"))
    dt = next(op for op in topological_ops([dx]) if op.name == "dT")
    assert body(outputs(dt)[0]) == "select(i >= 3 or i <= 1, H[i]*exp(T[i]), 0.0)"
    assert work(dx).iterations == 30 + 6 + 5 * 5, "T, its adjoint, and five rows of it"


def test_one_long_element_is_written_into_the_scan_that_needs_it() -> None:
    x = te.placeholder((9,), "float64", name="X")
    sums = topi.cumsum(x)
    deep = sums[4]
    for _ in range(5):
        deep = te.tanh(deep * deep + 1.0)
    y = te.compute((), lambda: deep, name="y")
    (dx,) = vjp(y, [x])
    assert work(dx).iterations == 9 + 9, "the sums, and their adjoint from the one element"


def test_unreachable_tensor_is_zero_or_an_error() -> None:
    x, z = matrix("X", 3), matrix("Z", 2)
    y = te.compute((3,), lambda i: x[i] * 2, name="Y")
    assert body(vjp(y, [z], 1.0)[0]) == "0.0"
    with pytest.raises(GradError) as error:
        vjp(y, [z], 1.0, strict=True)
    assert str(error.value) == (
        "Y does not depend on Z.\n"
        "  hint: remove it from wrt, or leave out strict=True to get zeros."
    )


@pytest.mark.parametrize("reducer", [te.sum, te.prod, te.max])
def test_reductions_behind_a_guard_are_not_computed_elsewhere(
    reducer: Callable[..., Expr],
) -> None:
    m = te.placeholder((3, 4), name="M", dtype="float64")
    n = te.placeholder((5,), name="N", dtype="int64")
    q, r = te.reduce_axis(4, "q"), te.reduce_axis(4, "r")
    by_index = te.compute(
        (4,), lambda i: te.select(i > 0, reducer(m[i - 1, q], axis=q) ** 2, 0.0), name="Y"
    )
    by_data = te.compute(
        (5,), lambda i: te.select(n[i] >= 0, reducer(m[n[i], r], axis=r) ** 2, 0.0), name="Y"
    )
    values = np.random.default_rng(0).uniform(1, 2, (3, 4))
    given = {m: values, n: np.array([0, -1, 2, 1, -1])}
    assert gradcheck(by_index, [m], order=2)
    assert gradcheck(by_data, [m], arrays=given)


def test_an_identity_that_wins_has_no_gradient() -> None:
    m = te.placeholder((3, 4), name="M", dtype="float64")
    k = te.reduce_axis(4, "k")
    from_zero = te.comm_reducer(lambda a, b: te.maximum(a, b), lambda t: te.const(0, t), "max0")
    y = te.compute((3,), lambda i: from_zero(m[i, k], axis=k), name="Y")
    values = np.array([[-1.0, -2, -3, -4], [1, -1, 2, 0], [-1, 0, 0, -1]])
    found = interpret(vjp(y, [m], 1.0)[0], {m: values})
    assert found.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]


def test_the_maximum_of_all_minus_infinity_is_the_first() -> None:
    m = te.placeholder((4,), name="M", dtype="float64")
    k = te.reduce_axis(4, "k")
    y = te.compute((), lambda: te.max(m[k], axis=k), name="y")
    found = interpret(vjp(y, [m])[0], {m: np.full(4, -np.inf)})
    assert found.tolist() == [1, 0, 0, 0]


def test_a_read_placed_by_data_where_no_index_allows_it_receives_nothing() -> None:
    x = te.placeholder((3,), "float64", name="X")
    where = te.placeholder((2,), "int64", name="I")
    y = te.compute((2, 4), lambda i, j: te.select(i + j >= 5, x[where[i]] * 2.0, 1.0))
    (dx,) = vjp(y, [x], te.placeholder((2, 4), "float64", name="H"))
    assert not isinstance(dx.op, Scatter)
    assert work(dx).iterations == 3
