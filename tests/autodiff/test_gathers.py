"""What gradients gather: no more points than the forward program has, at any size."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.adjoints.adjoint import Contribution, Target
from tensorad.autodiff.adjoints.inlining import Uses
from tensorad.bound import bound
from tensorad.codegen.loops.ir import For
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Expr, axis, call, int_const, logical_and, logical_or
from tensorad.ir.tensor import Compute, Scatter, Tensor
from tensorad.ir.visit import topological_ops
from tests.support.machines import described

SIZES = [{"n": n, "m": m} for n in (0, 1, 2, 3, 5, 16) for m in (1, 2, 3, 16)]


def gradient(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(the derivative by x for a head, the head)."""
    h = te.placeholder(y.shape, "float64", "H")
    return ta.vjp(y, [x], h)[0], h


def check_bound(made: Tensor, y: Tensor, x: Tensor) -> None:
    for sizes in SIZES:
        assert ta.work(made, sizes).iterations <= bound(y, [x], sizes), sizes


def body(t: Tensor) -> str:
    assert isinstance(t.op, Compute)
    return str(t.op.bodies[t.index])


def test_what_a_selection_reads_once_is_asked_for_once() -> None:
    n, m = te.size("n"), te.size("m")
    x, b = te.placeholder((n, m), "float64", "X"), te.placeholder((n,), "float64", "B")
    k = te.reduce_axis(m, name="k")
    y = te.compute((n,), lambda i: ta.max(x[i, k] + b[i], axis=k), name="Y")
    db, h = gradient(y, b)
    assert body(db) == "select(Y.winner[i] >= 0, H[i], 0.0)"
    check_bound(db, y, b)
    arrays = {x: np.arange(6.0).reshape(2, 3), b: np.zeros(2), h: np.array([2.0, 3.0])}
    np.testing.assert_array_equal(ta.evaluate(db, arrays), [2.0, 3.0])


@pytest.mark.parametrize("extent", [0, 1, 2, 5])
def test_reads_at_own_indices_of_fewer_elements_keep_their_bounds(extent: int) -> None:
    x = te.placeholder((5, 3), "float64", "X")
    t = te.compute((5, 3), lambda i, j: x[i, j] * x[i, j], name="T")
    y = te.compute((extent, 3), lambda i, j: ta.tanh(t[i, j]) + x[i, j], name="Y")
    dx, h = gradient(y, x)
    at, head = np.arange(15.0).reshape(5, 3) / 9, np.ones((extent, 3))
    want = np.zeros((5, 3))
    want[:extent] = 1 + 2 * at[:extent] / np.cosh(at[:extent] ** 2) ** 2
    np.testing.assert_allclose(ta.evaluate(dx, {x: at, h: head}), want, atol=1e-12)


def test_one_selected_element_of_many_is_found_by_comparing() -> None:
    n, m = te.size("n"), te.size("m")
    x = te.placeholder((m,), "float64", "X")

    def smallest() -> Expr:
        k, j = te.reduce_axis(n, name="k"), te.reduce_axis(3, name="j")
        return ta.min(ta.select(j + 1 < m, x[j + 1] + k * 1.0, 9.0), axis=[k, j])

    y = te.compute((), smallest, name="Y")
    dx, h = gradient(y, x)
    assert not any(isinstance(op, Scatter) for op in topological_ops([dx]))
    check_bound(dx, y, x)
    f = ta.build([dx], [x, h, te.placeholder((n,), "float64", "N")])
    arrays = np.array([1.0, 5.0, -3.0, 4.0, -8.0]), np.array(2.0), np.zeros(2)
    np.testing.assert_array_equal(f(*arrays), [0.0, 0.0, 2.0, 0.0, 0.0])


def test_a_value_added_again_is_multiplied() -> None:
    n, m = te.size("n"), te.size("m")
    x = te.placeholder((n, m), "float64", "X")
    k = te.reduce_axis(n, name="k")
    y = te.compute((m,), lambda j: ta.sum(x[ta.minimum(k + 2, n - 1), j], axis=k), name="Y")
    dx, h = gradient(y, x)
    assert "sum" not in body(dx)
    check_bound(dx, y, x)
    for rows in (1, 2, 5):
        expected = np.zeros((rows, 2))
        for r in range(rows):
            expected[min(r + 2, rows - 1)] += [3.0, 4.0]
        found = ta.evaluate(dx, {x: np.zeros((rows, 2)), h: np.array([3.0, 4.0])})
        np.testing.assert_array_equal(found, expected)


def test_indices_in_a_condition_on_data_bound_the_loops() -> None:
    x, t = te.placeholder((2,), "float64", "X"), te.const(np.array([1, 0]))

    def element(i: Expr, j: Expr) -> Expr:
        chosen = (j != 1) & ((i + j < 5) | (x[i % 2] < 0.5))
        return ta.select(chosen, 3.0, x[t[(i + 3 * j) % 2]])

    y = te.compute((7, 7), element, name="Y")
    dx, h = gradient(y, x)
    live = [(i, j) for i in range(7) for j in range(7) if j == 1 or i + j >= 5]
    assert ta.work(dx).iterations == len(live) <= bound(y, [x])
    value, head = np.array([0.25, 0.75]), np.arange(49.0).reshape(7, 7)
    expected = np.zeros(2)
    for i, j in live:
        if j == 1 or value[i % 2] >= 0.5:
            expected[1 - (i + 3 * j) % 2] += head[i, j]
    np.testing.assert_array_equal(ta.evaluate(dx, {x: value, h: head}), expected)


def test_a_choice_inside_a_function_is_no_zero_to_test_for() -> None:
    x = te.placeholder((3, 7, 2), "float64", "X")

    def element(i: Expr, j: Expr) -> Expr:
        k, v = te.reduce_axis((2, 7), name="k"), te.reduce_axis((2, 6), name="v")
        q = (1 - k + j) // 3
        read = x[(3 * i + v - 2) // 6, (j - v) % 4 + 1, q]
        chosen = ta.select(v != i, ta.select((q >= 0) & (q < 2), read, 0.0), 0.5)
        return ta.sum(ta.tanh(chosen), axis=[k, v])

    y = te.compute((5, 5), element, name="Y")
    dx, _ = gradient(y, x)
    assert not any(isinstance(op, Scatter) for op in topological_ops([dx]))
    assert ta.work(dx).iterations <= bound(y, [x])


def test_winners_are_scattered_where_some_operand_is_read() -> None:
    x, at = te.placeholder((4,), "float64", "X"), te.placeholder((4,), "int64", "I")

    def element(i: Expr) -> Expr:
        k = te.reduce_axis(4, name="k")
        return ta.min(ta.select(3 * k + i < 5, x[at[k]], 0.0), axis=k)

    y = te.compute((7,), element, name="Y")
    dx, h = gradient(y, x)
    assert ta.work(dx).iterations == 7 * 4 + 4 + 5 <= bound(y, [x])
    values = {x: np.array([-4.0, -3.0, -2.0, -1.0]), at: np.array([3, 2, 1, 0])}
    found = ta.evaluate(dx, {**values, h: np.arange(7.0)})
    np.testing.assert_array_equal(found, [0.0, 0.0, 0.0 + 1.0, 2.0 + 3.0 + 4.0])


@pytest.mark.parametrize("stride", [0, 1, 2])
def test_symbolic_windows_stay_within_the_bound_at_small_sizes(stride: int) -> None:
    n, m = te.size("n"), te.size("m")
    x, b = te.placeholder((2 * n + m,), "float64", "X"), te.placeholder((n, m), "float64", "B")
    k = te.reduce_axis(m, name="k")
    y = te.compute((n,), lambda i: ta.max(x[stride * i + k] + b[i, k], axis=k), name="Y")
    dx, h = gradient(y, x)
    check_bound(dx, y, x)
    values = np.random.default_rng(0).standard_normal((4, 3))
    expected = np.zeros(11)
    for i, at in enumerate(values.argmax(axis=1)):
        expected[stride * i + at] += i + 1
    arrays = {x: np.zeros(11), b: values, h: np.arange(1.0, 5.0)}
    np.testing.assert_array_equal(ta.evaluate(dx, arrays), expected)


def test_conditions_that_loops_cannot_follow_stay_with_the_data() -> None:
    n, m = te.size("n"), te.size("m")
    x, z = te.placeholder((m,), "float64", "X"), te.placeholder((n,), "float64", "Z")
    h = te.placeholder((n, n), "float64", "H")
    i, j, k = (axis(name, 0, n) for name in "ijk")
    mixed = logical_or(call("eq", j % 2, int_const(0)), logical_and(k + j < 5, z[k] > 0.0))
    where = logical_and(call("ne", j, i), k + i + 1 < m)
    part = Contribution((i, j, k), mixed, (k + 1 + i,), lambda batch: h[i, j], where)
    adjoint = Target(x, (), [part]).finish("dX", True, Uses(0, False))
    assert adjoint is not None and adjoint.tensor is not None
    assert isinstance(adjoint.tensor.op, Compute)


def test_the_adjoint_of_a_narrow_tensor_that_a_wide_formula_reads_is_narrow() -> None:
    x, z = te.placeholder((3, 4), name="X"), te.placeholder((3, 4), dtype="float64", name="Z")
    t = te.compute((3, 4), lambda i, j: te.exp(x[i, j]), name="T")
    y = te.compute((3, 4), lambda i, j: t[i, j] * z[i, j], name="Y")
    dx, _ = gradient(y, x)  # certified here: what is gathered in place equals what is solved
    assert str(dx.dtype) == "float32" and "float32(H[i, j]*Z[i, j])" in body(dx)


def planes(height: int, width: int, channels: int) -> tuple[Tensor, list[Tensor]]:
    """Values of all channels of a point, added where data says."""
    to = te.placeholder((9, 7), "int64", name="N")
    v = te.placeholder((channels, 9, 7), name="V")
    y = te.scatter(
        (channels, height, width),
        (channels, 9, 7),
        lambda c, i, j: ((c, to[i, j], to[i, j] % 7), v[c, i, j]),
        name="Y",
    )
    return y, [to, v]


@described()
@pytest.mark.parametrize(
    ("size", "channels", "lanes"),
    [
        ((32, 32), 64, 8),
        ((16, 32), 64, 16),
        ((48, 32), 40, 8),
        ((16, 16), 64, 32),
        ((16, 16), 32, 32),  # have places enough
        ((32, 32), 31, 31),  # cannot be cut evenly
        ((32, 33), 48, None),  # strips of 64 for threads
        ((28, 28), 48, None),
        ((7, 7), 48, None),
    ],
)
def test_lanes_that_share_places_of_the_first_cache_are_taken_in_strips(
    size: tuple[int, int], channels: int, lanes: int | None
) -> None:
    y, inputs = planes(*size, channels)
    body = lower_program([y], inputs, assume_in_bounds=True).kernels[-1].body
    (lane,) = [s.axis for s in statements(body[1:]) if isinstance(s, For) and s.kind == "vector"]
    assert lane.extent == lanes
    rng = np.random.default_rng(0)
    n, v = rng.integers(0, size[0], (9, 7)), rng.random((channels, 9, 7), "f4")
    expected = np.zeros((channels, *size), "f4")
    for i, j in np.ndindex(9, 7):
        expected[:, n[i, j], n[i, j] % 7] += v[:, i, j]
    assert np.array_equal(ta.build(y, inputs)(n, v), expected)


def test_gradients_of_rows_at_remainders_of_remainders_of_sizes() -> None:
    n, m = ta.size("n"), ta.size("m")
    X = ta.placeholder((n,), "float64", name="X")
    turned = ta.compute((n,), lambda i: X[(i + 1) % n], name="turned")
    y = ta.compute((), lambda: turned[(n // m) % n], name="y")
    f = ta.build(ta.vjp(y, X, 1.0), [X])
    for size, by in ((4, 2), (5, 1), (1, 3)):
        expected = np.eye(size)[((size // by) % size + 1) % size]
        np.testing.assert_array_equal(f(np.ones(size), m=by), expected)
