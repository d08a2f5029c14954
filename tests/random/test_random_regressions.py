"""Programs that random testing found: each once had a wrong or missing derivative."""

from __future__ import annotations

from contextlib import suppress

import islpy
import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.bound import bound
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.nest.access import in_bounds
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    axis,
    cast,
    const,
    logical_and,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Scatter, Update, outputs
from tensorad.simplify.domain.point_tables import tabulate
from tensorad.simplify.formula.zero_test import vanishes
from tensorad.simplify.sets.space import BudgetExceeded, Space, budget
from tensorad.simplify.zeros.reduction_stages import extract_reductions


def test_a_read_behind_several_conditions_on_data_stays_guarded() -> None:
    n = te.size("n")
    x = te.placeholder((), dtype="float64", name="X")
    v = te.placeholder((n,), dtype="float64", name="L")

    def body() -> object:
        inner = ta.select(x() >= 1.1, ta.select(n > 0, v[0], 0.0), ta.select(n > 0, v[0], 1.0))
        other = ta.select(n > 0, v[0], 0.0)
        return ta.minimum(ta.select(x() < 1.1, 2.0, inner), other)

    y = te.compute((), body, name="Y")
    d = te.placeholder((n,), dtype="float64", name="dL")
    f = ta.build([y, ta.jvp(y, {v: d})], [x, v, d])
    assert f(1.5, np.zeros(0), np.zeros(0))[1] == 0.0
    for value in (1.0, 1.5):
        assert f(value, np.array([0.25]), np.array([3.0]))[1] == 3.0


@pytest.mark.parametrize("limit", [1.1, -9.0])
def test_a_scatter_behind_several_conditions_on_data_stays_inside(limit: float) -> None:
    x = te.placeholder((2, 2), dtype="float64", name="X")
    k = te.reduce_axis((2, 6), name="k")

    def body(i: Expr, j: Expr, h: Expr) -> Expr:
        at, other = k % 4 - h, 2 * j + i - 2
        above = ta.select((other >= 0) & (other < 2), x[other, h], 1.0)
        inside = (at >= 0) & (at < 2)
        below = ta.select(inside, x[at, ((h + k * 2 - 1) // 4 + j * 2) // 4], 0.0)
        chosen = ta.select(x[i, (k - h - 2) % 2 % 3 // 3 + 1] > limit, above, below)
        return ta.sum(ta.tanh(chosen), axis=k)

    y = te.compute((2, 2, 2), body, name="Y")
    rng = np.random.default_rng(0)
    head, direction = rng.standard_normal((2, 2, 2)), rng.standard_normal((2, 2))
    d, h = te.placeholder((2, 2), "float64", "dX"), te.placeholder((2, 2, 2), "float64", "H")
    second = ta.vjp(ta.jvp(y, {x: d}), [x], h)
    arrays = {x: rng.uniform(-2, 2, (2, 2)), d: direction, h: head}
    np.testing.assert_allclose(
        ta.build(second, list(arrays))(*arrays.values()), interpret(second, arrays)[0], rtol=1e-12
    )


def test_a_fold_whose_derivative_needs_no_values_compiles() -> None:
    horner = ta.comm_reducer(lambda a, b: a * 0.5 + b, lambda t: 0.0, "horner")
    x = te.placeholder((3,), dtype="float64", name="X")
    k = te.reduce_axis(3, name="k")
    y = te.compute((), lambda: horner(x[k], axis=k), name="Y")
    np.testing.assert_array_equal(ta.evaluate(ta.vjp(y, [x])[0], {}), [0.25, 0.5, 1.0])


@pytest.mark.parametrize("rank", [1, 2])
def test_a_scatter_keeps_loops_inside_those_that_bound_them(rank: int) -> None:
    x = te.placeholder((3, 6), dtype="float64", name="X")
    a = axis("a", 0, 3)
    b, c = axis("b", a, a + 3), axis("c", 0, 2)
    indices = (b, c)[:rank]
    update = Update(indices, x[a, b] + cast(c, x.dtype))
    shape = (5, 2)[:rank]
    op = Scatter("S", shape, x.dtype, (a, b, c), (update,), sum_combiner(x.dtype))
    t, array = outputs(op)[0], np.arange(18.0).reshape(3, 6)
    np.testing.assert_array_equal(ta.build([t], [x])(array), interpret(t, {x: array}))


def test_the_one_point_of_a_table_is_read_without_indices() -> None:
    table, k = te.const(np.array([0, 1, 0])), axis("k", 0, 3)
    solution = tabulate([], [k], [table[k] == 1])
    assert solution is not None
    value = solution.pieces[0].values[k]
    assert isinstance(value, Read)
    assert value.indices == () and value.tensor.shape == ()


def test_a_read_inside_an_empty_loop_is_not_checked() -> None:
    n, at = te.size("n"), te.placeholder((2,), dtype="int64", name="I")
    x, w = te.placeholder((3,), "float64", "X"), te.placeholder((n,), "float64", "W")

    def body(i: Axis) -> Expr:
        k = te.reduce_axis(n, name="k")
        return ta.sum(x[at[i]] * w[k], axis=k)

    f = ta.build([te.compute((2,), body, name="Y")], [x, at, w])
    np.testing.assert_array_equal(f(np.ones(3), np.array([1, 7]), np.ones(0)), [0.0, 0.0])
    with pytest.raises(ta.errors.BoundsError, match="index 7"):
        f(np.ones(3), np.array([1, 7]), np.ones(2))


def test_a_loop_of_one_value_may_bound_another() -> None:
    x = te.placeholder((3, 2), dtype="float64", name="X")
    h = te.placeholder((2, 4), dtype="float64", name="H")

    def body(i: Expr, j: Expr) -> Expr:
        q = ((1 - j + i) // 3 + i * 3) % 2
        return x[(3 * i - 1) % 4 // 3 + 1, ta.minimum(q, 2 - q)] - x[(3 * i - j + 1) // 3 + 1, i]

    head = np.arange(1.0, 9.0).reshape(2, 4)
    expected = np.zeros((3, 2))
    for i, j in np.ndindex(2, 4):
        q = ((1 - j + i) // 3 + i * 3) % 2
        expected[(3 * i - 1) % 4 // 3 + 1, min(q, 2 - q)] += head[i, j]
        expected[(3 * i - j + 1) // 3 + 1, i] -= head[i, j]
    gradient = ta.vjp(te.compute((2, 4), body, name="Y"), [x], h)[0]
    np.testing.assert_array_equal(ta.evaluate(gradient, {h: head}), expected)


def test_reads_beside_one_by_data_are_scattered_with_it() -> None:
    x, at = te.placeholder((7, 7), "float64", "X"), te.placeholder((5,), "int64", "I")
    y = te.compute((2,), lambda i: x[i, 3 * i] * x[at[4 - 2 * i], 5], name="Y")
    h = te.placeholder((2,), "float64", "H")
    gradient = ta.vjp(y, [x], h)[0]
    assert ta.work(gradient).iterations <= bound(y, [x]) == 49 + 4
    arrays = {x: np.arange(49.0).reshape(7, 7), at: np.array([1, 2, 3, 4, 5]), h: np.ones(2)}
    expected = np.zeros((7, 7))
    for i, j in ((0, 5), (1, 3)):
        expected[i, 3 * i] += arrays[x][j, 5]
        expected[j, 5] += arrays[x][i, 3 * i]
    np.testing.assert_array_equal(ta.evaluate(gradient, arrays), expected)


@pytest.mark.parametrize("error", [TypeError("int() argument"), AttributeError("'NoneType'")])
def test_a_spent_budget_shows_whatever_islpy_makes_of_it(error: Exception) -> None:
    k = axis("k", 0, 4)
    with pytest.raises(BudgetExceeded, match="1 operations"), budget(1):
        with suppress(islpy.Error):
            Space((), (k,))  # spends it
        raise error
    with pytest.raises(type(error)), budget():
        raise error


def test_nothing_is_scattered_where_no_point_is() -> None:
    x, at = te.placeholder((3,), "float64", "X"), te.placeholder((2,), "int64", "I")

    def body(i: Expr) -> Expr:
        k = te.reduce_axis(9, name="k")
        return ta.sum(x[at[i]] * k, axis=k, where=ta.const(False, "bool"))

    gradient = ta.vjp(te.compute((2,), body, "Y"), [x], te.placeholder((2,), "float64", "H"))[0]
    assert ta.work(gradient).iterations == 3


def test_forward_mode_is_the_transpose_for_inputs_and_intermediates_together() -> None:
    x = te.placeholder((3,), "float64", "X")
    t = te.compute((3,), lambda i: ta.exp(x[i]), name="T")
    y = te.compute((3,), lambda i: t[i] * x[i], name="Y")
    h, dx, dt = (te.placeholder((3,), "float64", name) for name in ("H", "dX", "dT"))
    along = ta.jvp(y, {x: dx, t: dt})
    a, b, c, head = np.random.default_rng(0).standard_normal((4, 3))
    arrays = {x: a, dx: b, dt: c, h: head}
    expected = np.exp(a) * b + a * (np.exp(a) * b + c)
    np.testing.assert_allclose(ta.evaluate(along, arrays), expected, rtol=1e-14)
    gx, gt = ta.evaluate(ta.vjp(y, [x, t], h), arrays)
    np.testing.assert_allclose((gx * b + gt * c).sum(), (head * expected).sum(), rtol=1e-14)


def test_short_loops_stay_outside_those_they_bound() -> None:
    x = te.placeholder((3,), "float64", "X")

    def point(u: Expr, v: Expr) -> object:
        value = x[((2 - v - 2 * u) // 4 + 3 * v) // 4 % 2] * x[(-2 - v) % 2 % 2]
        return ((3 + 2 * u - v) // 2 // 4 % 2, (2 - u) % 3), value

    y = te.scatter((2, 3), ((1, 4), 4), point)
    h = te.placeholder((2, 3), "float64", "H")
    gradient = ta.vjp(y, [x], h)[0]
    arrays = {x: np.array([0.5, -1.5, 2.0]), h: np.arange(1.0, 7.0).reshape(2, 3)}
    result, expected = ta.evaluate(gradient, arrays), interpret(gradient, arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-14)


def test_an_entry_of_a_table_is_a_number() -> None:
    x, table = te.placeholder((7, 2), "float64", "X"), te.const(np.array([6, 3]))
    y = te.compute((4,), lambda i: x[table[0], i // 2], name="Y")
    h = te.placeholder((4,), "float64", "H")
    gradient = ta.vjp(y, [x], h)[0]
    assert ta.work(gradient).iterations <= 14
    expected = np.zeros((7, 2))
    expected[6] = [3, 7]
    np.testing.assert_array_equal(ta.evaluate(gradient, {h: np.arange(1.0, 5.0)}), expected)


def test_only_live_points_are_scattered() -> None:
    x, at = te.placeholder((4,), "float64", "X"), te.placeholder((9,), "int64", "I")

    def body(i: Expr) -> Expr:
        q = i * i * 7 % 5
        return ta.select((q < 1) | (q == 3), x[at[i]], 0.0)

    y = te.compute((9,), body, name="Y")
    h = te.placeholder((9,), "float64", "H")
    gradient = ta.vjp(y, [x], h)[0]
    live = [i for i in range(9) if i * i * 7 % 5 in (0, 3)]
    assert ta.work(gradient).iterations == bound(y, [x]) == 4 + len(live)
    arrays = {at: np.arange(9) % 4, h: np.arange(9.0)}
    expected = np.bincount([i % 4 for i in live], weights=live, minlength=4)
    np.testing.assert_array_equal(ta.evaluate(gradient, arrays), expected)


def test_an_index_may_lose_its_axes_when_bounds_are_put_in() -> None:
    outer = axis("i", 0, 4)
    inner = axis("j", 0, outer + 1)
    assert not in_bounds(inner - outer, size_var("n"), Ranges((outer, inner)))


def test_a_fold_that_never_counts_is_not_walked() -> None:
    x = te.placeholder((7,), "float64", "X")

    def body(i: Expr) -> Expr:
        k, m = te.reduce_axis(2, name="k"), te.reduce_axis(5, name="m")
        return ta.sum(ta.prod(x[(i + k + m) % 7], axis=m), axis=k, where=ta.const(False, "bool"))

    gradient = ta.vjp(te.compute((7,), body), [x], te.placeholder((7,), "float64", "H"))[0]
    assert ta.work(gradient).iterations == 7


def test_the_scan_of_an_axis_of_one_step_is_stored_once() -> None:
    x, h = (te.placeholder((4, 1), "float64", name) for name in ("X", "H"))
    y = te.scan(x, 1, "sum", exclusive=True, reverse=True)
    gradient = ta.vjp(y, [x], h)[0]
    assert ta.work(gradient).iterations == 4
    assert (ta.evaluate(gradient, {h: np.ones((4, 1))}) == 0).all()


def test_stages_of_several_components_keep_to_their_condition() -> None:
    pair = ta.comm_reducer(
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        lambda s, t: (1.0, 0.0),
        "complex",
    )
    x = te.placeholder((5, 4), "float64", "X")
    k = te.reduce_axis(4, name="k")

    def body(i: Expr) -> object:
        j = te.reduce_axis(6, name="j")
        total = ta.tanh(ta.sum(x[i, k] * j, axis=j))
        return pair((total, ta.const(0.5, "float64")), axis=k, where=i <= 2)

    y = te.compute((5,), body, name="Y")
    assert isinstance(y[0].op, Compute)
    staged = outputs(extract_reductions(y[0].op))
    assert ta.work(staged).iterations == 3 * 4 * 6 + 3 * 4


def test_a_sum_inside_a_loop_with_bounds_of_another_is_solved() -> None:
    x = te.placeholder((6,), dtype="float64", name="X")
    a, c = axis("a", 0, 6), axis("c", 0, 6)
    b = axis("b", 0, a + 1)

    def total(source: Expr, over: Axis) -> Expr:
        return reduce_expr(sum_combiner(FLOAT64), (source,), (over,), TRUE)

    picked = total(select(logical_and(c <= b, c >= b), x[c], const(0.0, FLOAT64)), c)
    assert vanishes((), total(total(picked - x[b], b), a), {})
    assert not vanishes((), total(total(picked - x[a], b), a), {})
