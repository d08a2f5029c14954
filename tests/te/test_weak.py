"""Python numbers are weak, and so are formulas of nothing else: they take what they meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DTypeError
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor

wide = ta.placeholder((4,), "float64", name="W")
narrow = ta.placeholder((4,), "float32", name="S")
small = ta.placeholder((4,), "int8", name="N")
k = ta.reduce_axis(3, name="k")
VALUES = {
    wide: np.zeros(4),
    narrow: np.zeros(4, "float32"),
    small: np.arange(4, dtype="int8"),
}


def root(x: Any) -> Any:
    return ta.sqrt(x) * 1


own_root = ta.scalar_function(root, partials=lambda y, x: 0.5 / y, name="own_root")
shifted = ta.scalar_function(
    lambda x: x + ta.const(0.5), partials=lambda y, x: ta.select(x > 0, 1, 1), name="shifted"
)

tenth = ta.scalar_function(lambda x: 0.1 * x, partials=lambda y, x: 0.1, name="tenth")

FORMULAS: dict[str, tuple[Callable[[Axis], Any], Callable[[int], float]]] = {
    "sqrt": (lambda i: ta.sqrt(2.0), lambda i: math.sqrt(2)),
    "of an int": (lambda i: ta.exp(1), lambda i: math.e),
    "nested": (lambda i: -ta.sin(ta.log(3)) / 7 + 0.1, lambda i: -math.sin(math.log(3)) / 7 + 0.1),
    "select": (lambda i: ta.select(i > 1, 0.1, 0.3), lambda i: 0.1 if i > 1 else 0.3),
    "minimum": (lambda i: ta.minimum(0.1, 0.2), lambda i: 0.1),
    "pow": (lambda i: ta.pow(2, 0.5), lambda i: math.sqrt(2)),
    "negative power": (lambda i: ta.pow(3, -1), lambda i: 1 / 3),
    "atan2": (lambda i: ta.atan2(1, 3), lambda i: math.atan2(1, 3)),
    "abs": (lambda i: ta.abs(-0.1), lambda i: 0.1),
    "round": (lambda i: ta.round(2.5) + ta.floor(0.5), lambda i: 2),
    "sum": (lambda i: ta.sum(0.1, axis=k), lambda i: 0.1 + 0.1 + 0.1),
    "largest": (lambda i: ta.max(ta.sqrt(2.0), axis=k), lambda i: math.sqrt(2)),
    "index": (lambda i: i * 0.1, lambda i: i * 0.1),
    "integer data": (lambda i: ta.sin(small[i] * 0.1), lambda i: math.sin(i * 0.1)),
    "condition": (lambda i: (i > 1) * 0.1, lambda i: 0.1 * (i > 1)),
    "scalar function": (lambda i: own_root(2.0), lambda i: math.sqrt(2)),
    "scalar function of an index": (lambda i: tenth(i) + tenth(small[i]), lambda i: i * 0.1 * 2),
    "stopped": (lambda i: ta.stop_gradient(ta.sqrt(2)), lambda i: math.sqrt(2)),
    "quotient": (lambda i: ta.select(i > 1, 7, 5) // 2 * 0.1, lambda i: (2 + (i > 1)) * 0.1),
}  # fmt: skip


def made(body: Callable[[Any], Any]) -> Tensor:
    result = ta.compute((4,), body, name="Y")
    assert isinstance(result, Tensor)
    return result


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_numbers_are_as_precise_as_what_they_meet(name: str) -> None:
    formula, true = FORMULAS[name]
    expected = np.array([true(i) for i in range(4)])
    for y in (made(lambda i: wide[i] + formula(i)), made(lambda i: formula(i) + wide[i])):
        assert y.dtype == "float64"
        for run in (ta.evaluate, ta.interpret):
            np.testing.assert_allclose(run(y, VALUES), expected, rtol=2e-15)
    for y in (made(lambda i: narrow[i] + formula(i)), made(formula)):
        assert y.dtype == "float32"
        found = ta.evaluate(y, VALUES)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=3e-7)
    exact = made(lambda i: formula(i) * wide[i])
    for slope in (ta.vjp(exact, [wide], np.ones(4))[0], ta.jvp(exact, {wide: np.ones(4)})):
        np.testing.assert_allclose(ta.evaluate(slope, VALUES), expected, rtol=2e-15)


def test_integers_stay_integers_beside_integers() -> None:
    assert made(lambda i: small[i] * ta.select(i > 1, 1, 0)).dtype == "int8"
    assert made(lambda i: small[i] + ta.minimum(2, 3)).dtype == "int8"
    assert made(lambda i: i + ta.abs(-2)).dtype == "int64"
    at = made(lambda i: wide[ta.minimum(i, ta.select(i > 1, 2, 1))])
    values = {wide: np.arange(4.0)}
    np.testing.assert_array_equal(ta.evaluate(at, values), [0, 1, 2, 2])
    with pytest.raises(DTypeError) as caught:
        made(lambda i: small[i] + ta.minimum(300, ta.select(i > 1, 2, 1)))
    assert str(caught.value) == (
        "the number 300 does not fit into int8.\n"
        "  hint: convert the other operand first, e.g. x.astype('int64')."
    )


def test_counts_do_not_wrap_in_a_narrow_integer() -> None:
    many = ta.reduce_axis(1000, name="many")
    y = made(lambda i: small[i] + ta.sum(1, axis=many))
    np.testing.assert_array_equal(ta.evaluate(y, VALUES), 1000.0 + np.arange(4))


def test_alone_they_are_float32() -> None:
    for body in (lambda i: 1, lambda i: 0.5, lambda i: ta.select(i > 1, 1, 0), lambda i: ta.exp(1)):
        assert made(body).dtype == "float32"
    mask = ta.placeholder((4,), "bool", name="M")
    assert ta.select(mask, 1.0, 0.0).dtype == "float32"
    assert ta.compute((), lambda: ta.sum(1.0, axis=k)).dtype == "float32"
    kept = made(lambda i: ta.select(ta.select(i > 1, 2, 1) == 2, 1.5, ta.isfinite(1.0) * 0.5))
    np.testing.assert_array_equal(ta.evaluate(kept, {}), np.float32([0.5, 0.5, 1.5, 1.5]))


def test_constants_and_conversions_have_a_dtype_of_their_own() -> None:
    assert made(lambda i: wide[i] + ta.const(0.1)).dtype == "float64"
    y = made(lambda i: wide[i] + ta.const(0.1))
    np.testing.assert_array_equal(ta.evaluate(y, VALUES), np.full(4, float(np.float32(0.1))))
    y = made(lambda i: ta.sqrt(2).astype("float64"))
    np.testing.assert_array_equal(ta.evaluate(y, VALUES), np.full(4, math.sqrt(2)))
    assert made(lambda i: ta.sqrt(2).astype("float32") * narrow[i]).dtype == "float32"
    assert made(lambda i: ta.select(i > 1, 1.5, 0.5).astype("int64")).dtype == "int64"
    assert ta.placeholder((3,), ta.exp(1).dtype).dtype == "float32"
    y = made(lambda i: wide[i] + shifted(0.1))  # its formula has a float32 constant
    np.testing.assert_allclose(ta.evaluate(y, VALUES), 0.6, rtol=1e-7)


def test_combiners_and_scalar_functions_may_give_numbers() -> None:
    larger = ta.comm_reducer(lambda x, y: ta.select(y > 1, 0.1, x), lambda dtype: 0, name="larger")
    j = ta.reduce_axis(4, name="j")
    y = ta.compute((), lambda: larger(wide[j], axis=j))
    assert ta.evaluate(y, {wide: np.array([0.0, 2.0, 0.0, 1.0])}) == 0.1
    step = ta.comm_reducer(lambda x, y: ta.select(y > 1, 0.1, 0.2), lambda dtype: 0, name="step")
    y = ta.compute((), lambda: step(wide[j], axis=j))
    assert ta.evaluate(y, {wide: np.array([0.0, 2.0, 0.0, 1.0])}) == 0.2
    slope = ta.scalar_function(
        lambda x: ta.abs(x), partials=lambda y, x: ta.select(x > 0, 0.1, -0.1), name="slope"
    )
    (dx,) = ta.vjp(made(lambda i: slope(wide[i])), [wide], np.ones(4))
    np.testing.assert_array_equal(ta.evaluate(dx, VALUES), np.full(4, -0.1))


def test_deep_formulas_of_numbers() -> None:
    def body(i: Expr) -> Expr:
        e = ta.sqrt(2.0)
        for _ in range(5000):
            e = e + 1e-9
        return e * wide[i] + e

    np.testing.assert_allclose(ta.evaluate(made(body), VALUES), math.sqrt(2) + 5000e-9, rtol=1e-12)


def test_integer_tensors_beside_python_floats_are_float32() -> None:
    n = ta.placeholder((3,), "int64", name="n")
    half = n * 0.5
    assert half.dtype == "float32" and not half.dtype.is_weak
    x = ta.placeholder((3,), "float64", name="x")
    assert ta.interpret(half + x, {n: [1, 2, 3], x: [0.0, 0.0, 1.0]}).tolist() == [0.5, 1.0, 2.5]
