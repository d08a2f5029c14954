"""The language: what computes, reducers, scalar functions and constants mean."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from weakref import ReferenceType, ref

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.ir.expr import Axis, Const, Expr, Reduce
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Placeholder, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import postorder, topological_ops

rng = np.random.default_rng(3)
Array = np.ndarray


def value(t: Tensor, **named: Array) -> Array:
    """The tensor's value; placeholders are found by name."""
    inputs = [op for op in topological_ops([t]) if isinstance(op, Placeholder)]
    return interpret(t, {outputs(op)[0]: named[op.name] for op in inputs})


def axis_names(t: Tensor) -> list[str]:
    assert isinstance(t.op, Compute)
    return [a.name for a in t.op.axes]


X = ta.placeholder((3, 4), "float64", name="X")
x = rng.standard_normal((3, 4))


def test_a_compute_follows_its_formula() -> None:
    y = ta.compute((4, 3), lambda i, j: X[j, i] * 2 + i, name="Y")
    assert y.shape == (4, 3)
    assert y.dtype == "float64"
    assert y.name == "Y"
    np.testing.assert_allclose(value(y, X=x), x.T * 2 + np.arange(4)[:, None])


def test_calling_a_tensor_reads_it() -> None:
    y = ta.compute((3,), lambda i: X(i, 1))
    np.testing.assert_array_equal(value(y, X=x), x[:, 1])


def test_axes_are_called_as_the_parameters() -> None:
    def rows(row: Expr, column: Expr) -> Expr:
        return X[row, column]

    class Formula:
        def __call__(self, a: Expr, b: Expr) -> Expr:
            return X[a, b]

        def method(self, c: Expr, *rest: Expr) -> Expr:
            return X[(c, *rest)]

    assert axis_names(ta.compute((3, 4), rows)) == ["row", "column"]
    assert axis_names(ta.compute((3, 4), lambda *i: X[i])) == ["i0", "i1"]
    assert axis_names(ta.compute((3, 4), lambda r, *i: X[(r, *i)])) == ["r", "i1"]
    assert axis_names(ta.compute((3, 4), Formula())) == ["a", "b"]
    assert axis_names(ta.compute((3, 4), Formula().method)) == ["c", "i1"]
    assert axis_names(ta.compute((4,), partial(rows, 0))) == ["column"]


def test_parameters_with_defaults_are_left_alone() -> None:
    shifts = [ta.compute((3,), lambda i, s=s: X[i, s]) for s in range(4)]
    for s, t in enumerate(shifts):
        np.testing.assert_array_equal(value(t, X=x), x[:, s])


def test_numbers_and_scalars_are_bodies() -> None:
    s = ta.placeholder((), name="s")
    assert interpret(ta.compute((2,), lambda i: 3), {}).tolist() == [3.0, 3.0]
    assert ta.compute((2,), lambda i: 3).dtype == "float32"
    assert ta.compute((2,), lambda i: True).dtype == "bool"
    assert ta.compute((2,), lambda i: np.float64(1)).dtype == "float32"
    assert ta.compute((2,), lambda i: i).dtype == "int64"
    assert interpret(ta.compute((2,), lambda i: s), {s: np.array(4.0)}).tolist() == [4.0, 4.0]
    assert interpret(ta.compute((2,), lambda i: i * s), {s: np.array(4.0)}).tolist() == [0.0, 4.0]


def test_scalars_and_empty_tensors() -> None:
    k, m = ta.reduce_axis(3), ta.reduce_axis(4)
    total = ta.compute((), lambda: ta.sum(X[k, m], axis=[k, m]))
    assert total.shape == ()
    np.testing.assert_allclose(value(total, X=x), x.sum())
    empty = ta.compute((0, 4), lambda i, j: X[i, j])
    assert value(empty, X=x).shape == (0, 4)
    none = ta.reduce_axis((2, 2))
    top = ta.compute((3,), lambda i: ta.max(X[i, none], axis=none))
    assert value(top, X=x).tolist() == [-np.inf] * 3


def test_a_single_extent_is_a_shape() -> None:
    n = ta.size("n")
    assert ta.placeholder(5).shape == (5,)
    assert ta.placeholder(n).shape == (n,)
    assert ta.placeholder([np.int64(2), 3]).shape == (2, 3)
    assert ta.compute(4, lambda i: i).shape == (4,)


def test_a_tuple_of_bodies_shares_one_operation() -> None:
    low, high = ta.compute((3,), lambda i: (X[i, 0], X[i, 1] * 2), name="P")
    assert low.op is high.op
    assert (low.name, high.name) == ("P.0", "P.1")
    np.testing.assert_array_equal(value(high, X=x), x[:, 1] * 2)
    (only,) = ta.compute((3,), lambda i: (X[i, 0],))
    assert isinstance(only, Tensor)


def test_a_reduction_stands_anywhere() -> None:
    k = ta.reduce_axis(4)
    y = ta.compute((3,), lambda i: X[i, 0] / ta.sum(ta.exp(X[i, k]), axis=k) + 1)
    np.testing.assert_allclose(value(y, X=x), x[:, 0] / np.exp(x).sum(1) + 1)


def test_nested_reductions() -> None:
    k, m = ta.reduce_axis(4, "k"), ta.reduce_axis(4, "m")
    y = ta.compute((3,), lambda i: ta.sum(X[i, k] * ta.max(X[i, m], axis=m, where=m <= k), axis=k))
    np.testing.assert_allclose(value(y, X=x), (x * np.maximum.accumulate(x, 1)).sum(1), atol=1e-12)


def test_reduce_axes_may_depend_on_the_axes_of_the_body() -> None:
    def triangle(i: Expr) -> Expr:
        k = ta.reduce_axis((0, i + 1))
        return ta.sum(X[i, k], axis=k)

    np.testing.assert_allclose(value(ta.compute((3,), triangle), X=x), np.tril(x).sum(1))


def test_a_reduce_axis_of_another_compute_is_copied() -> None:
    k = ta.reduce_axis(4)
    part = ta.sum(X[0, k], axis=k)
    first = ta.compute((2,), lambda i: part + i)
    second = ta.compute((2,), lambda i: part * i + part)
    axes = [
        {a for e in postorder(*t.op.bodies) if isinstance(e, Reduce) for a in e.axes}
        for t in (first, second)
    ]
    assert len(axes[0]) == len(axes[1]) == 1
    assert not axes[0] & axes[1]
    assert next(iter(axes[1])).name == "k"
    np.testing.assert_allclose(value(second, X=x), x[0].sum() * np.array([1, 2]))


def test_a_copied_tuple_reduction_stays_one_fold() -> None:
    k = ta.reduce_axis(4)
    both = ta.comm_reducer(
        lambda a, b: (a[0] + b[0], ta.maximum(a[1], b[1])), lambda s, t: (0, float("-inf"))
    )
    ta.compute((3,), lambda i: both((X[i, k], X[i, k]), axis=k))
    total, top = ta.compute((3,), lambda i: both((X[i, k], X[i, k]), axis=k))
    parts = [e for e in total.op.bodies if isinstance(e, Reduce)]
    assert parts[0].axes == parts[1].axes
    np.testing.assert_allclose(value(total, X=x), x.sum(1))
    np.testing.assert_allclose(value(top, X=x), x.max(1))


REDUCTIONS: list[tuple[Callable[..., Expr], Callable[..., Array]]] = [
    (ta.sum, np.sum),
    (ta.prod, np.prod),
    (ta.max, np.max),
    (ta.min, np.min),
]


@pytest.mark.parametrize(("reducer", "oracle"), REDUCTIONS, ids=["sum", "prod", "max", "min"])
def test_built_in_reducers(reducer: Callable[..., Expr], oracle: Callable[..., Array]) -> None:
    k, m = ta.reduce_axis((1, 3), "k"), ta.reduce_axis((1, 4), "m")
    y = ta.compute((), lambda: reducer(X[k, m], axis=[k, m]))
    np.testing.assert_allclose(value(y, X=x), oracle(x[1:3, 1:4]))
    z = ta.compute((3,), lambda i: reducer(X[i, m], m, where=m != 2))
    np.testing.assert_allclose(value(z, X=x), oracle(x[:, [1, 3]], axis=1))


def test_sums_of_booleans_count() -> None:
    k = ta.reduce_axis(4)
    count = ta.compute((3,), lambda i: ta.sum(X[i, k] > 0, axis=k))
    assert count.dtype == "int64"
    np.testing.assert_array_equal(value(count, X=x), (x > 0).sum(1))


def test_any_and_all() -> None:
    k = ta.reduce_axis(4)
    some = ta.compute((3,), lambda i: ta.any_of(X[i, k] > 1, axis=k))
    every = ta.compute((3,), lambda i: ta.all_of(X[i, k] > -1, k, where=k > 0))
    np.testing.assert_array_equal(value(some, X=x), (x > 1).any(1))
    np.testing.assert_array_equal(value(every, X=x), (x[:, 1:] > -1).all(1))
    joined = ta.compute((3,), lambda i: ta.any_of(i < 1, ta.all_of(X[i, 0] > 0, i > 1)))
    np.testing.assert_array_equal(value(joined, X=x), [True, False, bool(x[2, 0] > 0)])
    assert ta.all_of() is te.const(True)
    assert ta.any_of() is te.const(False)


def test_argmax_counts_rows_first_from_the_axes_start() -> None:
    k, m = ta.reduce_axis((1, 3), "k"), ta.reduce_axis((1, 4), "m")
    for reducer, oracle in ((ta.argmax, np.argmax), (ta.argmin, np.argmin)):
        t = ta.compute((), lambda r=reducer: r(X[k, m], axis=[k, m]))
        assert t.dtype == "int64"
        assert int(value(t, X=x)) == int(oracle(x[1:3, 1:4]))
    ties = np.array([[1.0, 2, 2, 0]] * 3)
    first = ta.compute((3,), lambda i: ta.argmax(X[i, m], axis=m, where=i > 0))
    assert value(first, X=ties).tolist() == [-1, 0, 0]


def test_custom_scalar_reducer_folds_from_the_left() -> None:
    digits = ta.comm_reducer(lambda a, b: a * 10 + b, lambda t: 0, name="digits")
    k, m = ta.reduce_axis(2, "k"), ta.reduce_axis(3, "m")
    y = ta.compute((), lambda: digits(k * 3 + m + 1, axis=[k, m]))
    assert y.dtype == "int64"
    assert int(interpret(y, {})) == 123456


def test_custom_tuple_reducer_finds_value_and_place() -> None:
    best = ta.comm_reducer(
        lambda a, b: (ta.select(b[0] > a[0], b[0], a[0]), ta.select(b[0] > a[0], b[1], a[1])),
        lambda v, p: (float("-inf"), -1),
        name="best",
    )
    k = ta.reduce_axis(4)
    top, place = ta.compute((3,), lambda i: best((X[i, k], k), axis=k))
    np.testing.assert_array_equal(value(top, X=x), x.max(1))
    np.testing.assert_array_equal(value(place, X=x), x.argmax(1))
    only = ta.compute((3,), lambda i: best((X[i, k], k), axis=k)[1] + 1)
    np.testing.assert_array_equal(value(only, X=x), x.argmax(1) + 1)


def test_one_combiner_for_each_dtype() -> None:
    r = ta.comm_reducer(lambda a, b: a + b, lambda t: 0)
    k = ta.reduce_axis(4)
    one, two = r(X[0, k], axis=k), r(X[1, k], axis=k)
    assert one.combiner is two.combiner
    assert r(k, axis=k).combiner is not one.combiner


UNARY = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt,
    "rsqrt": lambda v: 1 / np.sqrt(v), "tanh": np.tanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc,
    "isnan": np.isnan, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_scalar_functions_of_elements_and_tensors(name: str) -> None:
    inside = rng.random((3, 4)) * 0.9 + 0.05
    function = getattr(ta, name)
    element = ta.compute((3, 4), lambda i, j: function(X[i, j]))
    np.testing.assert_allclose(value(element, X=inside), UNARY[name](inside), rtol=1e-12)
    np.testing.assert_allclose(value(function(X), X=inside), UNARY[name](inside), rtol=1e-12)


BINARY = {"minimum": np.minimum, "maximum": np.maximum, "atan2": np.arctan2, "pow": np.power}


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_broadcast_over_tensors(name: str) -> None:
    b = ta.placeholder((4,), "float64", name="B")
    v, w = rng.random((3, 4)) + 0.1, rng.random(4) + 0.1
    function, oracle = getattr(ta, name), BINARY[name]
    np.testing.assert_allclose(value(function(X, b), X=v, B=w), oracle(v, w))
    np.testing.assert_allclose(value(function(X, 0.5), X=v), oracle(v, 0.5))
    np.testing.assert_allclose(value(function(0.5, X), X=v), oracle(0.5, v))
    element = ta.compute((3,), lambda i: function(X[i, 0], 2))
    np.testing.assert_allclose(value(element, X=v), oracle(v[:, 0], 2))


def test_select_of_elements_and_tensors() -> None:
    y = ta.compute((3,), lambda i: ta.select(i > 0, X[ta.maximum(i - 1, 0), 0], 7))
    np.testing.assert_array_equal(value(y, X=x), [7, x[0, 0], x[1, 0]])
    z = ta.select(X > 0, X, 0)
    np.testing.assert_array_equal(value(z, X=x), np.where(x > 0, x, 0))
    row = ta.placeholder((4,), "bool", name="M")
    mask = np.array([True, False, True, False])
    w = ta.select(row, 1, X)
    assert w.dtype == "float64"
    np.testing.assert_array_equal(value(w, X=x, M=mask), np.where(mask, 1, x))


def test_numbers_take_the_other_branchs_dtype() -> None:
    k = ta.reduce_axis(4)
    assert ta.select(k > 0, k, 0).dtype == "int64"
    assert ta.select(k > 0, 1, 0).dtype == "float32"
    assert ta.select(k > 0, X[0, 0], 0).dtype == "float64"
    assert ta.maximum(k, 0).dtype == "int64"


def test_constants() -> None:
    assert ta.const(3).dtype == "float32"
    assert ta.const(3, "int64").dtype == "int64"
    assert ta.const(True).dtype == "bool"
    assert ta.const(np.float64(2)).dtype == "float64"
    assert isinstance(ta.const(2.5, "float64"), Const)
    table = np.arange(6.0).reshape(2, 3)[:, ::-1]
    t = ta.const(table)
    assert (t.shape, t.dtype) == ((2, 3), "float64")
    before = table.copy()
    table[:] = 0
    np.testing.assert_array_equal(interpret(t, {}), before)
    assert ta.const([[1, 2]]).dtype == "int64"
    assert ta.const([0.5, 1.5]).dtype == "float32"
    assert ta.const([1, 2], "float64").dtype == "float64"
    assert ta.const(np.array(5.0)).shape == ()
    swapped = ta.const(np.array([1.5], dtype=">f8"))
    assert interpret(swapped, {}).tolist() == [1.5]


def test_sizes_are_known_by_name() -> None:
    n = ta.size("n")
    assert ta.size("n") is n
    v = ta.placeholder((n,), name="V")
    k = ta.reduce_axis(n)
    total = ta.compute((), lambda: ta.sum(v[k], axis=k))
    for length in (0, 1, 5):
        a = rng.random(length)
        np.testing.assert_allclose(interpret(total, {v: a}), a.sum())
    flat = ta.placeholder((2 * n + 1,), name="F")
    assert str(flat.shape[0]) == "2*n + 1"


def test_scatter_accumulates_at_computed_places() -> None:
    t = ta.placeholder((3, 4), "int32", name="T")
    where = rng.integers(0, 5, (3, 4)).astype(np.int32)
    for combine, oracle in (("sum", np.add), ("max", np.maximum), (ta.min, np.minimum)):
        y = ta.scatter((5,), (3, 4), lambda i, j: (t[i, j], X[i, j]), combine, name="A")
        assert isinstance(y.op, Scatter)
        expected = np.full(5, {np.add: 0.0, np.maximum: -np.inf, np.minimum: np.inf}[oracle])
        oracle.at(expected, where.reshape(-1), x.reshape(-1))
        np.testing.assert_allclose(value(y, X=x, T=where), expected)


def test_scatter_starts_from_init() -> None:
    start = ta.placeholder((5, 2), "float64", name="S")
    s = rng.random((5, 2))
    y = ta.scatter((5, 2), ((1, 3),), lambda i: ((2 * i, 1), X[i, 0]), init=start)
    expected = s.copy()
    expected[[2, 4], 1] += x[1:3, 0]
    np.testing.assert_allclose(value(y, X=x, S=s), expected)
    z = ta.scatter((3,), (3,), lambda i: (2 - i, X[i, 0]), init=10)
    np.testing.assert_allclose(value(z, X=x), 10 + x[::-1, 0])


def test_scatter_counts_booleans_and_takes_reducers() -> None:
    last = ta.comm_reducer(lambda a, b: b, lambda t: 0, name="last")
    y = ta.scatter((2,), (3, 4), lambda i, j: (j % 2, X[i, j]), last)
    np.testing.assert_allclose(value(y, X=x), [x[2, 2], x[2, 3]])
    count = ta.scatter((2,), (3, 4), lambda i, j: (j % 2, X[i, j] > 0))
    assert count.dtype == "int64"
    np.testing.assert_array_equal(
        value(count, X=x), [(x > 0)[:, 0::2].sum(), (x > 0)[:, 1::2].sum()]
    )


def test_scans_are_prefix_folds() -> None:
    np.testing.assert_allclose(value(ta.scan(X, 1, "sum"), X=x), x.cumsum(1))
    np.testing.assert_allclose(value(ta.scan(X, -2, ta.prod), X=x), x.cumprod(0))
    np.testing.assert_allclose(
        value(ta.scan(X, 1, ta.max, reverse=True), X=x),
        np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1],
    )
    before = value(ta.scan(X, 1, "sum", exclusive=True), X=x)
    np.testing.assert_allclose(before, x.cumsum(1) - x, atol=1e-12)
    after = value(ta.scan(X, 1, "sum", exclusive=True, reverse=True), X=x)
    np.testing.assert_allclose(after, x.sum(1, keepdims=True) - x.cumsum(1), atol=1e-12)
    assert ta.scan(X > 0, 1, "sum").dtype == "int64"


def test_a_scan_carries_a_tuple() -> None:
    affine = ta.comm_reducer(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), lambda s, t: (1, 0), associative=True
    )
    slope = ta.placeholder((3, 4), "float64", name="M")
    m = rng.random((3, 4))
    scale, offset = ta.scan((slope, X), 1, affine, name="A")
    assert isinstance(scale.op, Scan)
    assert scale.op is offset.op
    expected = np.zeros(3)
    for j in range(4):
        expected = expected * m[:, j] + x[:, j]
        np.testing.assert_allclose(value(offset, X=x, M=m)[:, j], expected)
    np.testing.assert_allclose(value(scale, X=x, M=m), m.cumprod(1))


@pytest.mark.slow
def test_long_expressions_need_no_recursion() -> None:
    v = ta.placeholder((8,), name="V")

    def chain(i: Expr) -> Expr:
        e: Expr = v[i]
        for step in range(20_000):
            e = e * 0.5 + v[step % 8]
        return e

    def doubling(i: Expr) -> Expr:
        e: Expr = v[i]
        for _ in range(20_000):
            e = ta.select(i > 3, e + e, e)
        return e

    assert ta.compute((8,), chain).shape == (8,)
    assert ta.compute((8,), doubling).shape == (8,)


def test_nothing_keeps_a_forgotten_reduce_axis_alive() -> None:
    def axis_of_a_compute() -> ReferenceType[Axis]:
        k = ta.reduce_axis(4, "k")
        ta.compute((3,), lambda i: ta.sum(X[i, k], axis=k))
        return ref(k)

    forgotten = axis_of_a_compute()
    gc.collect()
    assert forgotten() is None


def test_arithmetic_of_axes_wraps_as_data_does() -> None:
    wrapped = te.compute((16,), lambda i: i * (1 << 61) + i * i, name="T")
    third = te.compute((16,), lambda i: wrapped[i] // 3, name="Y")
    i = np.arange(16)
    np.testing.assert_array_equal(ta.evaluate(wrapped, {}), i * (1 << 61) + i * i)
    np.testing.assert_array_equal(ta.evaluate(third, {}), (i * (1 << 61) + i * i) // 3)
    near = te.compute((4,), lambda i: (i * (1 << 61) + i) // 3, name="Z")
    np.testing.assert_array_equal(ta.evaluate(near, {}), (i[:4] * (1 << 61) + i[:4]) // 3)
