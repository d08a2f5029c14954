"""Formulas at points: each has its steps listed once, and done at every point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorad.errors import BindError, BoundsError
from tensorad.ir.combiner import arg_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT64, INT8, INT64, DType
from tensorad.ir.expr import (
    Expr,
    axis,
    call,
    cast,
    const,
    int_const,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.reference.formulas import Formulas, evaluate_call
from tensorad.ir.tensor import Placeholder, Tensor, outputs

INF, NAN = math.inf, math.nan


def tensor(name: str, n: int, dtype: DType = FLOAT64) -> Tensor:
    return outputs(Placeholder(name, (n,), dtype))[0]


def test_a_side_that_is_not_taken_is_not_evaluated() -> None:
    x, i = tensor("X", 3), axis("i", 0, 5)
    outside, unknown = x[i], cast(size_var("nowhere"), FLOAT64)
    e = select(
        i < 3,
        select(i < 2, outside + outside, outside),
        select(i < 4, const(7.0, FLOAT64), unknown),
    )
    formulas, arrays = Formulas(), {x: np.array([1.0, 2.0, 3.0])}
    assert [formulas.values((e,), arrays, {i: n})[0] for n in range(4)] == [2.0, 4.0, 3.0, 7.0]
    with pytest.raises(BindError, match="nowhere"):
        formulas.values((e,), arrays, {i: 4})
    with pytest.raises(BoundsError, match="X is read outside"):
        formulas.values((outside,), arrays, {i: 3})


def test_a_value_is_computed_once_wherever_it_is_needed() -> None:
    """Both sides and what is around share a chain that would have 2^40 paths."""
    x = tensor("X", 1)
    shared: Expr = x[int_const(0)]
    for n in range(40):
        shared = select(shared > float(n), shared + shared * 0.5, shared - shared * 0.5)
    first, second = Formulas().values((shared, shared + 1.0), {x: np.array([8.0])}, {})
    expected = 8.0
    for n in range(40):
        expected += expected * (0.5 if expected > n else -0.5)
    assert (first, second) == (expected, expected + 1.0)


def test_selects_may_be_nested_as_deeply_as_formulas() -> None:
    i = axis("i", 0, 5_000)
    e: Expr = const(-1.0, FLOAT64)
    for n in range(5_000):
        e = select(i < n, e, cast(i, FLOAT64))
    formulas = Formulas()
    assert formulas.values((e,), {}, {i: 5})[0] == 5.0
    assert formulas.values((e,), {}, {i: 5_000 - 1})[0] == 5_000 - 1.0


def test_components_of_a_reduction_in_different_sides() -> None:
    x, i, j = tensor("X", 4), axis("i", 0, 2), axis("j", 0, 4)
    combiner = arg_combiner("lt", FLOAT64)
    best, where = (reduce_expr(combiner, (x[j], j), (j,), index=n) for n in range(2))
    e = select(i < 1, best, cast(where, FLOAT64))
    arrays = {x: np.array([3.0, 1.0, -2.0, 5.0])}
    formulas = Formulas()
    assert [formulas.values((e,), arrays, {i: n})[0] for n in range(2)] == [-2.0, 2.0]


def test_bounds_of_an_axis_may_use_the_axes_around_it() -> None:
    n = size_var("n")
    i = axis("i", 0, n)
    j = axis("j", i, n)
    total = reduce_expr(sum_combiner(INT64), (i * 10 + j,), (i, j))
    assert Formulas().values((total,), {}, {n: 3})[0] == 0 + 1 + 2 + 11 + 12 + 22
    seen = [
        (scope[i], scope[j]) for scope in [{n: 2}] for _ in Formulas().points((i, j), {}, scope)
    ]
    assert seen == [(0, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "neg", "abs", "minimum", "maximum"])
def test_floats_of_python_give_what_numpy_gives(op: str) -> None:
    """The bits, but those of NaN; divisions by zero and overflows say nothing."""
    numbers = [0.0, -0.0, 1.0, -3.7, 5e-324, -1e308, 1.7e308, INF, -INF, NAN]
    by_numpy = {"div": np.divide, "minimum": np.minimum, "maximum": np.maximum}
    by_numpy |= {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    by_numpy |= {"neg": np.negative, "abs": np.absolute}
    a, b = (tensor(name, 1)[int_const(0)] for name in "AB")
    unary = op in ("neg", "abs")
    e = call(op, a) if unary else call(op, a, b)
    steps = Formulas().of((e,))
    for x in numbers:
        for y in numbers[:1] if unary else numbers:
            args = [np.float64(x)] if unary else [np.float64(x), np.float64(y)]
            with np.errstate(all="ignore"):
                expected = float(by_numpy[op](*args))
            if op in ("minimum", "maximum") and x == y:
                expected = x  # of equal ones the first
            arrays = {a.tensor: np.array([x]), b.tensor: np.array([y])}  # type: ignore[attr-defined]
            for found in (steps(arrays, {})[0], evaluate_call(op, FLOAT64, args)):
                assert type(found) is float
                assert np.array_equal(found, expected, equal_nan=True)
                assert math.copysign(1.0, found) == math.copysign(1.0, expected) or found != found


def test_integers_wrap_at_their_dtype() -> None:
    x = tensor("X", 2, INT8)
    a, b = x[int_const(0)], x[int_const(1)]
    found = Formulas().values((a + b, a * b, -b), {x: np.array([100, -128])}, {})
    assert found == [-28, 0, -128]
