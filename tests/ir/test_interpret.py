"""The reference interpreter against NumPy and the written semantics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorad.errors import BindError, BoundsError, DTypeError, ShapeError
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.combiner import (
    arg_combiner,
    make_combiner,
    max_combiner,
    prod_combiner,
    sum_combiner,
)
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT64, UINT8, DType
from tensorad.ir.expr import (
    Axis,
    Expr,
    axis,
    call,
    cast,
    const,
    int_const,
    logical_and,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Dim,
    Placeholder,
    Scatter,
    Tensor,
    Update,
    outputs,
)
from tests.random.generators import random_program, random_symbolic_program

RNG = np.random.default_rng(7)


def tensor(name: str, *shape: Dim, dtype: DType = FLOAT64) -> Tensor:
    return outputs(Placeholder(name, shape, dtype))[0]


def compute(axes: tuple[Axis, ...], *bodies: Expr) -> Tensor:
    return outputs(Compute("Y", axes, bodies, ""))[0]


def unary(op: str, values: list[float], dtype: DType = FLOAT64) -> np.ndarray:
    x, i = tensor("X", len(values), dtype=dtype), axis("i", 0, len(values))
    return interpret(compute((i,), call(op, x[i])), {x: np.array(values, dtype)})


def binary(op: str, a: list[float], b: list[float], dtype: DType = FLOAT64) -> np.ndarray:
    x, y = tensor("X", len(a), dtype=dtype), tensor("Z", len(a), dtype=dtype)
    i = axis("i", 0, len(a))
    return interpret(
        compute((i,), call(op, x[i], y[i])), {x: np.array(a, dtype), y: np.array(b, dtype)}
    )


def test_matmul_agrees_with_numpy() -> None:
    x, w = tensor("X", 3, 4), tensor("W", 5, 4)
    i, j, k = axis("i", 0, 3), axis("j", 0, 5), axis("k", 0, 4)
    y = compute((i, j), reduce_expr(sum_combiner(FLOAT64), (x[i, k] * w[j, k],), (k,)))
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4))
    np.testing.assert_allclose(interpret(y, {x: a, w: b}), a @ b.T)


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("exp", math.exp), ("log", math.log), ("log1p", math.log1p), ("expm1", math.expm1),
        ("sqrt", math.sqrt), ("rsqrt", lambda v: 1 / math.sqrt(v)), ("tanh", math.tanh),
        ("sigmoid", lambda v: 1 / (1 + math.exp(-v))), ("erf", math.erf), ("sin", math.sin),
        ("cos", math.cos), ("tan", math.tan), ("asin", math.asin), ("acos", math.acos),
        ("atan", math.atan), ("sinh", math.sinh), ("cosh", math.cosh), ("floor", math.floor),
        ("ceil", math.ceil), ("round", round), ("trunc", math.trunc), ("abs", abs),
        ("neg", lambda v: -v), ("sign", lambda v: math.copysign(1, v)),
    ],
)  # fmt: skip
def test_math_functions(op: str, reference: object) -> None:
    values = [0.25, 0.5, 0.75]
    assert callable(reference)
    np.testing.assert_allclose(unary(op, values), [reference(v) for v in values], rtol=1e-14)


def test_poles_give_what_numpy_gives() -> None:
    assert unary("log", [0.0, -1.0])[0] == -np.inf
    assert unary("rsqrt", [0.0])[0] == np.inf
    np.testing.assert_array_equal(binary("div", [1.0, 0.0], [0.0, 0.0]), [np.inf, np.nan])
    np.testing.assert_array_equal(unary("sigmoid", [-1e9, 1e9]), [0.0, 1.0])
    np.testing.assert_array_equal(unary("round", [0.5, 1.5, 2.5]), [0.0, 2.0, 2.0])


def test_extrema_propagate_nan_and_keep_the_first_of_equals() -> None:
    nan = math.nan
    top = binary("maximum", [1.0, nan, 1.0, 0.0, -0.0], [2.0, 1.0, nan, -0.0, 0.0])
    np.testing.assert_array_equal(top, [2.0, nan, nan, 0.0, -0.0])
    assert not np.signbit(top[3]) and np.signbit(top[4])
    low = binary("minimum", [1.0, nan, 1.0], [2.0, 1.0, nan])
    np.testing.assert_array_equal(low, [1.0, nan, nan])


def test_integers_wrap_and_divide_down() -> None:
    np.testing.assert_array_equal(binary("add", [120, -128], [10, -1], INT8), [-126, 127])
    np.testing.assert_array_equal(binary("mul", [200], [2], UINT8), [144])
    np.testing.assert_array_equal(binary("floordiv", [-7, 7, 5], [2, -2, 0], INT64), [-4, -4, 0])
    np.testing.assert_array_equal(binary("mod", [-7, 7, 5], [2, -2, 0], INT64), [1, -1, 0])
    np.testing.assert_array_equal(unary("neg", [-128], INT8), [-128])


def test_casts_saturate_truncate_and_wrap() -> None:
    x, i = tensor("X", 5), axis("i", 0, 5)
    values = np.array([300.0, -300.0, 1.9, -1.9, np.nan])
    result = interpret(compute((i,), cast(x[i], INT8)), {x: values})
    np.testing.assert_array_equal(result, [127, -128, 1, -1, 0])
    n = tensor("N", 2, dtype=INT64)
    j = axis("j", 0, 2)
    np.testing.assert_array_equal(
        interpret(compute((j,), cast(n[j], UINT8)), {n: np.array([257, -1])}), [1, 255]
    )


def test_an_untaken_branch_is_not_read() -> None:
    x, i = tensor("X", 3), axis("i", 0, 5)
    inside = logical_and(i >= 1, i < 4)
    y = compute((i,), select(inside, x[i - 1], const(0.0, FLOAT64)))
    np.testing.assert_array_equal(interpret(y, {x: np.array([1.0, 2.0, 3.0])}), [0, 1, 2, 3, 0])


def test_a_read_outside_names_tensor_and_index() -> None:
    x, i = tensor("X", 3), axis("i", 0, 3)
    with pytest.raises(BoundsError) as caught:
        interpret(compute((i,), x[i + 1]), {x: np.zeros(3)})
    assert str(caught.value) == (
        "X is read outside its shape (3,).\n  in: X[3]\n"
        "  hint: guard the index with select(...) or where=."
    )
    with pytest.raises(BoundsError, match=r"X\[-1\]"):
        interpret(compute((i,), x[i - 1]), {x: np.zeros(3)})


def test_sources_are_evaluated_only_where_the_condition_holds() -> None:
    x, i, k = tensor("X", 3), axis("i", 0, 3), axis("k", 0, 9)
    y = compute((i,), reduce_expr(sum_combiner(FLOAT64), (x[k],), (k,), k <= i))
    np.testing.assert_array_equal(interpret(y, {x: np.array([1.0, 2.0, 4.0])}), [1, 3, 7])


def test_dependent_bounds_and_steps() -> None:
    i = axis("i", 0, 6)
    low, high = call("maximum", i - 2, int_const(0)), call("minimum", i + 1, int_const(5))
    k = axis("k", low, high)
    m = axis("m", k, 9, i + 1)
    y = compute((i,), reduce_expr(sum_combiner(INT64), (k * 10 + m,), (k, m)))
    expected = [
        sum(k * 10 + m for k in range(max(i - 2, 0), min(i + 1, 5)) for m in range(k, 9, i + 1))
        for i in range(6)
    ]
    np.testing.assert_array_equal(interpret(y, {}), expected)


def test_empty_reductions_give_the_identity() -> None:
    k = axis("k", 0, 0)
    top = reduce_expr(max_combiner(FLOAT32), (cast(k, FLOAT32),), (k,))
    assert interpret(compute((), top), {})[()] == -np.inf
    i = axis("i", 0, 0)
    assert interpret(compute((i,), cast(i, FLOAT32)), {}).shape == (0,)


def test_tuple_components_are_computed_together() -> None:
    fold = make_combiner(
        "swap", lambda x, y: (x[1] + y[0], x[0] + y[1]), (const(0, INT64), const(0, INT64))
    )
    k = axis("k", 0, 5)
    parts = [reduce_expr(fold, (k, k * k), (k,), index=n) for n in (0, 1)]
    a, b = outputs(Compute("Y", (), tuple(parts), ""))
    state = (0, 0)
    for n in range(5):
        state = (state[1] + n, state[0] + n * n)
    assert [int(v) for v in interpret([a, b], {})] == list(state)


def test_argmax_takes_the_first_and_nan() -> None:
    x, i, k = tensor("X", 3, 4), axis("i", 0, 3), axis("k", 0, 4)
    y = compute((i,), reduce_expr(arg_combiner("maximum", FLOAT64), (x[i, k], k), (k,), index=1))
    rows = np.array([[1.0, 3, 3, 2], [-np.inf] * 4, [1.0, np.nan, 9, np.nan]])
    np.testing.assert_array_equal(interpret(y, {x: rows}), [1, 0, 1])


def test_reductions_inside_reductions_and_expressions() -> None:
    x = tensor("X", 3, 4)
    i, k, m = axis("i", 0, 3), axis("k", 0, 3), axis("m", 0, 4)
    row = reduce_expr(prod_combiner(FLOAT64), (x[k, m] + cast(i, FLOAT64),), (m,))
    y = compute((i,), call("tanh", reduce_expr(sum_combiner(FLOAT64), (row,), (k,))) * 2.0)
    a = RNG.normal(size=(3, 4))
    expected = [2 * np.tanh(np.prod(a + i, axis=1).sum()) for i in range(3)]
    np.testing.assert_allclose(interpret(y, {x: a}), expected)


def test_scatter_accumulates_in_order_onto_init() -> None:
    x, start = tensor("X", 6), tensor("S", 3)
    i = axis("i", 0, 6)
    op = Scatter(
        "S", (3,), FLOAT64, (i,), (Update((i % 3,), x[i], i != 4),), sum_combiner(FLOAT64), start
    )
    a, s = np.arange(6.0), np.array([10.0, 20.0, 30.0])
    np.testing.assert_array_equal(interpret(outputs(op)[0], {x: a, start: s}), [13, 21, 37])
    bare = Scatter("S", (3,), FLOAT64, (i,), (Update((i,), x[i]),), max_combiner(FLOAT64))
    with pytest.raises(BoundsError, match=r"S is written outside its shape \(3,\)."):
        interpret(outputs(bare)[0], {x: a})


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_the_prefix_fold(exclusive: bool, reverse: bool) -> None:
    x = tensor("X", 2, 4)
    op = prefix_scan("C", (x,), 1, sum_combiner(FLOAT64), exclusive, reverse)
    a = RNG.normal(size=(2, 4))
    turned = a[:, ::-1] if reverse else a
    expected = np.cumsum(turned, axis=1)
    if exclusive:
        expected -= turned
    expected = expected[:, ::-1] if reverse else expected
    np.testing.assert_allclose(interpret(outputs(op)[0], {x: a}), expected, atol=1e-15)


def test_constants_intermediates_and_lists() -> None:
    table = outputs(Constant("T", np.array([1, 2, 3], np.float32), FLOAT32))[0]
    x = tensor("X", 3)
    i, j = axis("i", 0, 3), axis("j", 0, 3)
    middle = compute((i,), x[i] + cast(table[i], FLOAT64))
    y = compute((j,), middle[j] * 2.0)
    given = np.array([5.0, 6.0, 7.0])
    np.testing.assert_array_equal(interpret(y, {middle: given}), given * 2)
    results = interpret([y, table, middle], {x: np.zeros(3)})
    assert [r.tolist() for r in results] == [[2, 4, 6], [1, 2, 3], [1, 2, 3]]


def test_sizes_come_from_shapes_and_names() -> None:
    n, m = size_var("n"), size_var("m")
    x = tensor("X", n, n * 2)
    i, k = axis("i", 0, m), axis("k", 0, n)
    total = reduce_expr(sum_combiner(FLOAT64), (x[k, k + n],), (k,))
    y = compute((i,), total + cast(i, FLOAT64))
    result = interpret(y, {x: np.ones((2, 4))}, {"m": 3})
    np.testing.assert_array_equal(result, [2, 3, 4])
    with pytest.raises(BindError, match="the size m has no value"):
        interpret(y, {x: np.ones((2, 4))})
    with pytest.raises(ShapeError, match=r"X was given an array of shape \(2, 5\)"):
        interpret(y, {x: np.ones((2, 5))}, {"m": 3})


def test_wrong_bindings_are_refused() -> None:
    x, i = tensor("X", 2, dtype=INT64), axis("i", 0, 2)
    y = compute((i,), x[i])
    with pytest.raises(BindError) as caught:
        interpret(y, {})
    assert str(caught.value) == (
        "the placeholder X has no value.\n  in: X : int64 (2,)\n"
        "  hint: add it to the bindings: {X: array}."
    )
    with pytest.raises(DTypeError, match="X of dtype int64 was given float64 elements"):
        interpret(y, {x: np.array([0.5, 1.0])})
    with pytest.raises(ShapeError):
        interpret(y, {x: np.zeros((2, 1), int)})


def test_booleans_are_stored_as_booleans() -> None:
    x, i = tensor("X", 3, dtype=BOOL), axis("i", 0, 3)
    result = interpret(compute((i,), call("not", x[i])), {x: np.array([True, False, True])})
    assert result.dtype == bool and result.tolist() == [False, True, False]


@pytest.mark.slow
def test_deep_expressions_evaluate() -> None:
    x = tensor("X", 1)
    i = axis("i", 0, 1)
    e: Expr = x[i]
    for _ in range(20_000):
        e = e + 1.0
    assert interpret(compute((i,), e), {x: np.zeros(1)})[0] == 20_000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(25))
def test_random_programs_agree_with_their_loops(seed: int) -> None:
    from tensorad.codegen.loops.interpret import interpret_loops
    from tensorad.codegen.lower import lower_program

    sizes = {"n": 3, "m": 2}
    make = random_symbolic_program if seed % 5 == 4 else random_program
    program = make(seed)
    arrays = program.arrays(sizes)
    loops = lower_program(program.outputs, program.inputs, schedule=False)
    expected, _ = interpret_loops(loops, arrays, sizes)
    for a, b in zip(interpret(program.outputs, arrays, sizes), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
