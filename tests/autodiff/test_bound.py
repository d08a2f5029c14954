"""The yardstick of a gradient's work, against counts made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.errors import UserError
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.combiner import (
    Combiner,
    arg_combiner,
    make_combiner,
    max_combiner,
    prod_combiner,
    sum_combiner,
)
from tensorad.ir.dtypes import FLOAT32, INT64, DType
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    axis,
    call,
    cast,
    const,
    logical_and,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.tensor import Compute, Dim, Placeholder, Scatter, Tensor, Update, outputs
from tensorad.workloads import WORKLOADS
from tests.support.yardstick.brute import brute_bound

SUM, MAX, PROD = (make(FLOAT32) for make in (sum_combiner, max_combiner, prod_combiner))
ZERO = const(0.0, FLOAT32)


def tensor(name: str, *shape: Dim, dtype: DType = FLOAT32) -> Tensor:
    return outputs(Placeholder(name, shape, dtype))[0]


def compute(axes: tuple[Axis, ...], *bodies: Expr) -> Tensor:
    return outputs(Compute("Y", axes, bodies, ""))[0]


def fold(combiner: Combiner, source: Expr, *axes: Axis, where: Expr = TRUE) -> Expr:
    return reduce_expr(combiner, (source,), axes, where)


def total(source: Tensor) -> Tensor:
    axes = tuple(axis("r", 0, n) for n in source.shape if isinstance(n, int))
    return compute((), fold(SUM, source[axes], *axes))


X = tensor("X", 6, 8)
W = tensor("W", 5, 8)
V = tensor("V", 10)


def test_a_contraction_costs_its_points_for_each_factor() -> None:
    i, j, k = axis("i", 0, 6), axis("j", 0, 5), axis("k", 0, 8)
    y = compute((i, j), fold(SUM, X[i, k] * W[j, k], k))
    assert bound(y, [X]) == 6 * 5 * 8
    assert bound(y, [X, W]) == 2 * 6 * 5 * 8
    # the same chain once more through a sum: |Y'| = 30 is between them
    assert bound(total(y), [X]) == 30 + 6 * 5 * 8


def test_an_adjoint_is_stored_even_where_nothing_is_read() -> None:
    i = axis("i", 0, 3)
    y = compute((i,), V[i * 2])
    assert bound(y, [V]) == 10
    assert bound(y, [X]) == 48


def test_guards_and_bounds_limit_the_reads_that_are_alive() -> None:
    i, k = axis("i", 0, 10), axis("k", 0, 10)
    triangle = compute((i,), fold(SUM, V[i] * V[k], k, where=k <= i))
    assert bound(triangle, [V]) == 2 * 55
    low = axis("k", 0, i + 1)
    assert bound(compute((i,), fold(SUM, V[i] * V[low], low)), [V]) == 2 * 55
    j, m = axis("j", 0, 6), axis("m", 0, 3)
    inside = logical_and(j + m >= 1, j + m < 7)
    padded = compute((j,), fold(SUM, select(inside, V[j + m - 1], ZERO), m))
    alive = sum(1 for j in range(6) for m in range(3) if 1 <= j + m < 7)
    assert alive == 16 and bound(padded, [V]) == alive


def test_conditions_on_data_count_as_true() -> None:
    i = axis("i", 0, 10)
    relu = compute((i,), select(V[i] > 0.0, V[i] * 3.0, V[9 - i]))
    assert bound(relu, [V]) == 20  # V[i] and V[9 - i] are two reads


def test_equal_reads_are_one_read() -> None:
    i = axis("i", 0, 10)
    assert bound(compute((i,), V[i] * V[i] + call("exp", V[i])), [V]) == 10
    assert bound(compute((i,), V[i] * V[9 - i]), [V]) == 20


def test_a_read_inside_a_reduction_covers_the_same_read_outside() -> None:
    i, k = axis("i", 0, 6), axis("k", 0, 8)
    y = compute((i,), V[i] + fold(SUM, V[i] * X[i, k], k))
    assert bound(y, [V]) == 48


def test_a_read_outside_a_reduction_counts_where_it_reads_elements_again() -> None:
    i = axis("i", 0, 5)
    x = tensor("X", 3)

    def y(extent: int) -> Tensor:
        k = axis("k", 0, extent)
        return compute((i,), x[i // 2] + fold(SUM, x[i // 2], k))

    assert bound(y(0), [x]) == 5
    assert bound(y(3), [x]) == 5 + 15  # no loop over (i, k) adds what comes once for each i


def test_a_read_in_short_loops_beside_each_other_counts_in_each() -> None:
    i, k, m = axis("i", 0, 5), axis("k", 0, 2), axis("m", 0, 2)
    x, u, v = tensor("X", 5), tensor("U", 5, 2), tensor("V", 5, 2)
    inner = [
        fold(SUM, select(i < 2, x[i] * w[i, a], const(0, x.dtype)), a) for w, a in ((u, k), (v, m))
    ]
    assert bound(compute((i,), x[i] + inner[0] + inner[1]), [x]) == 8
    assert bound(compute((i,), x[i] + inner[0]), [x]) == 5


def test_nonlinear_formulas_need_forward_values() -> None:
    i, j, k = axis("i", 0, 6), axis("j", 0, 5), axis("k", 0, 8)
    dense = compute((i, j), fold(SUM, X[i, k] * W[j, k], k))
    a, b = axis("a", 0, 6), axis("b", 0, 5)
    # dense' 30, X' 240; exp' needs dense: its 240 points
    assert bound(compute((a, b), call("exp", dense[a, b])), [X]) == 30 + 240 + 240
    # a linear formula needs nothing
    assert bound(compute((a, b), dense[a, b] * 2.0 + 1.0), [X]) == 30 + 240
    # every forward tensor behind a needed one counts, once
    c, d = axis("a", 0, 6), axis("b", 0, 5)
    tanh = compute((a, b), call("tanh", dense[a, b]))
    square = compute((c, d), tanh[c, d] * tanh[c, d])
    assert bound(square, [X]) == (30 + 30 + 240) + (30 + 240)


def test_a_reduction_inside_a_needed_value_is_computed_once() -> None:
    i, k = axis("i", 0, 6), axis("k", 0, 8)
    y = compute((i,), call("log", fold(SUM, X[i, k], k)))
    assert bound(y, [X]) == 48 + 48  # X', the sum; a reduction in a formula is no tensor
    j, m = axis("j", 0, 8), axis("m", 0, 8)
    norm = compute((i, j), X[i, j] / fold(SUM, X[i, m], m))
    # reads X[i, j] at (i, j), X[i, m] at (i, j, m); the sum as written, at (i, j, m)
    assert bound(norm, [X]) == (48 + 384) + 384


def test_a_formula_whose_value_and_reduction_are_needed_counts_once() -> None:
    i, j, k = axis("i", 0, 6), axis("j", 0, 6), axis("k", 0, 8)
    first = compute((i,), call("log", fold(SUM, X[i, k], k)))
    y = compute((j,), first[j] * first[j])
    assert bound(y, [X]) == 6 + 48 + 48  # first', X', first with its sum


def test_a_reduction_inside_a_formula_counts_as_written() -> None:
    i, j, k, m = axis("i", 0, 6), axis("j", 0, 5), axis("k", 0, 8), axis("m", 0, 3)
    # W is read at the 30 points of (i, j) and has 40 elements, X at the 240 of (i, j, k); the
    # reduction has 240 points, once for its value, once more for a winner, twice for a sweep
    for combiner, walks, v in ((SUM, 0, 10), (MAX, 1, 10), (PROD, 2, 240)):
        source = X[i, k] if combiner is not PROD else X[i, k] * V[k]  # V has 10 elements
        inside = compute((i, j), call("tanh", fold(combiner, source, k)) * W[j, i])
        assert bound(inside, [X, V, W]) == (240 + v + 40) + 240 + walks * 240
    # nested: a reduction over k for each i and m, squared and summed over m: 6 * 3 * 8 points
    # for X', for V' and for the value
    inner = fold(SUM, X[i, k] * V[7 - k + m], k)
    inside = compute((i,), fold(SUM, inner * inner, m))
    assert bound(inside, [X, V]) == 144 + 144 + 144
    # written as a tensor of its own, its adjoint is one of those between
    own = compute((i, m), inner)
    outside = compute((i,), fold(SUM, own[i, m] * own[i, m], m))
    assert bound(outside, [X, V]) == 144 + 144 + 144 + 18


@pytest.mark.parametrize("reducer", [te.sum, te.max, te.prod])
def test_a_gradient_visits_no_more_for_a_reduction_inside_a_formula(reducer: Any) -> None:
    x = te.placeholder((6, 8), name="X", dtype="float64")
    w = te.placeholder((5, 6), name="W", dtype="float64")
    h = te.placeholder((6, 5), name="H", dtype="float64")
    k, r = te.reduce_axis(8, "k"), te.reduce_axis(8, "r")
    inside = te.compute((6, 5), lambda i, j: te.tanh(reducer(x[i, k], axis=k)) * w[j, i])
    own = te.compute((6,), lambda i: reducer(x[i, r], axis=r))
    outside = te.compute((6, 5), lambda i, j: te.tanh(own[i]) * w[j, i])
    found = work(vjp(inside, [x, w], h)).iterations
    assert found <= bound(outside, [x, w]) < bound(inside, [x, w])
    assert found <= work(vjp(outside, [x, w], h)).iterations


def test_a_read_counts_in_each_of_several_loops() -> None:
    i, k, m = axis("i", 0, 6), axis("k", 0, 3), axis("m", 0, 2)
    x, u, v = tensor("X", 6), tensor("U", 6, 3), tensor("V", 6, 3, 2)
    deep = fold(SUM, x[i] * v[i, k, m], m)
    y = compute((i,), fold(SUM, call("exp", x[i]) * u[i, k] + deep, k))
    assert bound(y, [x]) == 18 + 36, "at (i, k) and at (i, k, m)"


def test_a_reduction_inside_a_formula_needs_no_adjoint_of_its_own() -> None:
    i, k = axis("i", 0, 6), axis("k", 0, 8)
    mean = compute((i,), fold(SUM, X[i, k], k) * const(0.125, FLOAT32))
    assert bound(mean, [X]) == 48
    some = compute((i,), select(i < 3, fold(SUM, X[i, k], k), ZERO) + V[i])
    assert bound(some, [X]) == 48
    assert bound(compute((i,), fold(SUM, X[i, k], k) * V[i]), [X]) == 48


def test_selections_are_walked_once_and_other_folds_twice() -> None:
    i, k = axis("i", 0, 6), axis("k", 0, 8)
    assert bound(compute((i,), fold(MAX, X[i, k], k)), [X]) == 48 + 48
    assert bound(compute((i,), fold(PROD, X[i, k], k)), [X]) == 48 + 2 * 48
    best = reduce_expr(arg_combiner("maximum", FLOAT32), (X[i, k], k), (k,))
    assert bound(compute((i,), best), [X]) == 48 + 48
    both = make_combiner(
        "both", lambda x, y: (x[0] + y[0], x[1] + y[1]), (ZERO, ZERO), associative=True
    )
    pair = [reduce_expr(both, (X[i, k], X[i, 7 - k]), (k,), index=n) for n in (0, 1)]
    first, second = outputs(Compute("Y", (i,), tuple(pair), ""))
    assert bound(first, [X]) == 48  # the second component gets no derivative
    j = axis("j", 0, 6)
    assert bound(compute((j,), first[j] + second[j]), [X]) == 6 + 6 + 96


def test_components_of_a_fold_are_walked_together() -> None:
    i, j, k = axis("i", 0, 6), axis("j", 0, 6), axis("k", 0, 8)
    sine = make_combiner("sine", lambda x, y: (call("sin", x[0]) + y[0], x[1] + y[1]), (ZERO, ZERO))
    pair = [reduce_expr(sine, (X[i, k], X[i, 7 - k]), (k,), index=n) for n in (0, 1)]
    first, second = outputs(Compute("Y", (i,), tuple(pair), ""))
    assert bound(first, [X]) == 48 + 2 * 48
    y = compute((j,), first[j] + second[j])
    assert bound(y, [X]) == (6 + 6 + 96) + 2 * 48
    assert brute_bound(y, [X]) == (6 + 6 + 96, 0, 2 * 48)


def test_the_slope_of_a_remainder_by_its_dividend_needs_no_values() -> None:
    i, j = axis("i", 0, 10), axis("i", 0, 10)
    square = compute((i,), V[i] * V[i])
    assert bound(compute((j,), call("fmod", square[j], const(3.0, FLOAT32))), [V]) == 20


def test_reads_at_computed_indices_scatter() -> None:
    idx = tensor("I", 7, dtype=INT64)
    i = axis("i", 0, 7)
    assert bound(compute((i,), V[idx[i]]), [V]) == 10 + 7
    position = compute((axis("i", 0, 7),), cast(cast(i, FLOAT32), INT64) * 0)
    taken = compute((i,), V[position[i]])
    assert bound(taken, [V]) == 10 + 7 + 7  # the positions are a forward compute


def test_zero_derivatives_do_not_flow() -> None:
    i = axis("i", 0, 10)
    flat = compute((i,), call("floor", V[i]) + call("sign", V[9 - i]))
    assert bound(flat, [V]) == 10
    counted = compute((i,), cast(cast(V[i], INT64), FLOAT32) * V[9 - i])
    assert bound(counted, [V]) == 10


def test_scatters_and_scans() -> None:
    i, k = axis("i", 0, 6), axis("k", 0, 8)
    op = Scatter("S", (10,), FLOAT32, (i, k), (Update(((i + k) % 10,), X[i, k], k < i),), SUM)
    assert bound(outputs(op)[0], [X]) == 48
    wide = Scatter("S", (10,), FLOAT32, (i, k), (Update((i,), V[k] * X[i, k]),), SUM, V)
    assert bound(outputs(wide)[0], [V]) == 10 + 48
    start = compute((i,), V[i] * V[i])
    walked = Scatter("S", (6,), FLOAT32, (i, k), (Update((i,), X[i, k]),), PROD, start)
    assert bound(outputs(walked)[0], [X]) == 48 + 2 * (6 + 48) + 6  # the walk starts from `start`
    assert bound(outputs(prefix_scan("C", (X,), 1, SUM, False, False))[0], [X]) == 48
    assert bound(outputs(prefix_scan("C", (X,), 1, PROD, True, False))[0], [X]) == 48 + 96


def test_wrt_may_be_intermediate_or_several_levels() -> None:
    i, j = axis("i", 0, 10), axis("j", 0, 10)
    middle = compute((i,), V[i] * 2.0)
    y = compute((j,), middle[j] * 3.0)
    assert bound(y, [middle]) == 10
    assert bound(y, [middle, V]) == 20
    assert bound(y, [y]) == 0  # the head itself


def test_sizes_are_numbers() -> None:
    n = size_var("n")
    x = tensor("X", n, n)
    i, k = axis("i", 0, n), axis("k", 0, n)
    y = compute((i,), fold(SUM, x[i, k], k, where=k <= i))
    assert bound(y, [x], {"n": 4}) == 16
    with pytest.raises(UserError, match="the size n"):
        bound(y, [x])


WORKLOAD_BOUNDS = {
    "dense W, B": 32 * 3000 * 10000 + 2 * 32 * 3000,
    "dense X, W, B": 2 * 32 * 1000 * 1000 + 2 * 32 * 1000,
    "conv2d": 2 * 32 * 19 * 26 * 26 * 17 * 9,
    "average pool": 32 * 17 * 280 * 280,
    "softmax by hand": 3 * 60 * 1000 * 1000 + 6 * 60 * 1000,
    "flatten": 32 * 5000,
    "max pool": 2 * 2 * 100 * 100,
    "topi softmax": 10 * 60 * 200 + 2 * 60,
}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: str(getattr(w, "__name__", w)))
def test_full_size_workloads(workload: object) -> None:
    made = workload() if callable(workload) else workload
    assert bound(made.output, made.wrt) == WORKLOAD_BOUNDS[made.name]  # type: ignore[attr-defined]
