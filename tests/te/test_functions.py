"""Scalar functions with given partials, and stop_gradient: values, texts and every derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError
from tensorad.ir.functions import inline_functions, without_functions
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Compute, Tensor
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((4,), name="X", dtype="float64")
K = ta.reduce_axis(4, name="k")
x = np.array([-1.3, 0.4, 2.0, 0.7])
swish = ta.scalar_function(
    lambda x: x * ta.sigmoid(x),
    partials=lambda y, x: y + ta.sigmoid(x) * (1 - y),
    name="swish",
)
sine: Any = ta.scalar_function(lambda x: ta.sin(x), partials=lambda y, x: cosine(x), name="sine")
cosine: Any = ta.scalar_function(lambda x: ta.cos(x), partials=lambda y, x: -sine(x), name="cosine")


def value(t: Tensor) -> Any:
    found = ta.evaluate(t, {X: x})
    np.testing.assert_allclose(found, ta.interpret(t, {X: x}), rtol=1e-12, atol=1e-14)
    return found


def each(f: Any, name: str = "Y") -> Tensor:
    made: Tensor = ta.compute((4,), lambda i: f(X[i]), name=name)
    return made


# Values and texts


def test_the_formula_is_computed_and_the_name_is_printed() -> None:
    y = each(lambda a: swish(a) * 2.0)
    assert str(y) == (
        "tensor Y : float64 [4]\n"
        "axes (i : [0, 3])\n"
        "    swish(x) = x*sigmoid(x)\n"
        "    swish(X[i])*2.0"
    )
    np.testing.assert_allclose(value(y), 2 * x / (1 + np.exp(-x)))
    assert "swish" in y._repr_html_()
    assert "sigmoid" in y._repr_latex_()
    assert "swish" not in str(ta.lower([y], [X])) and "sigmoid" in str(ta.lower([y], [X]))
    assert ta.work(y).multiplications == 4 * 3
    verify([y])


def test_a_function_of_whole_tensors_broadcasts() -> None:
    times = ta.scalar_function(lambda a, b: a * b, partials=lambda y, a, b: (b, a), name="times")
    column = ta.placeholder((3, 1), name="C", dtype="float64")
    y = times(column, X)
    assert y.shape == (3, 4) and y.name == "times"
    assert times(2.0, ta.const(3.0)).dtype == "float32"
    c = np.array([[1.0], [2.0], [3.0]])
    (dc,) = ta.vjp(y, column, 1.0)
    np.testing.assert_allclose(ta.evaluate(dc, {column: c, X: x}), np.full((3, 1), x.sum()))


def test_a_decorator_names_the_function_after_itself() -> None:
    @ta.scalar_function(partials=lambda y, a: 3 * a * a)
    def cube(a: Any) -> Any:
        """a to the third."""
        return a * a * a

    y = each(cube)
    assert "cube(a) = a*a*a" in str(y)
    np.testing.assert_allclose(value(ta.vjp(y, X, 1.0)[0]), 3 * x**2)


def test_integers_are_constants_of_the_derivative() -> None:
    power = ta.scalar_function(
        lambda a, n: a * n, partials=lambda y, a, n: (ta.const(1.0) * n, None), name="scaled"
    )
    y = ta.compute((4,), lambda i: power(X[i], i + 1), name="Y")
    np.testing.assert_allclose(value(ta.vjp(y, X, 1.0)[0]), [1, 2, 3, 4])


def test_inlining_leaves_no_function() -> None:
    y = each(lambda a: swish(swish(a)))
    op = without_functions(y.op)
    assert isinstance(op, Compute) and "swish" not in str(op.bodies[0])
    assert without_functions(op) is op and without_functions(X.op) is X.op
    assert inline_functions(op.bodies[0]) is op.bodies[0]


# Derivatives follow the partials, not the formula


def test_the_partials_are_the_derivative_in_both_modes() -> None:
    odd = ta.scalar_function(lambda a: a * a, partials=lambda y, a: a + 10.0 * y, name="odd")
    y = each(odd)
    np.testing.assert_allclose(value(ta.vjp(y, X, 1.0)[0]), x + 10 * x**2)
    np.testing.assert_allclose(value(ta.jvp(y, {X: 1.0})), x + 10 * x**2)
    (g,) = ta.vjp(y, X, 1.0)
    np.testing.assert_allclose(value(ta.vjp(g, X, 1.0)[0]), 1 + 10 * (x + 10 * x**2))


def test_derivatives_of_any_order_follow_the_partials() -> None:
    y, plain = each(swish), each(lambda a: a * ta.sigmoid(a))
    for _ in range(4):
        np.testing.assert_allclose(value(y), value(plain), rtol=1e-10)
        (y,), (plain,) = ta.vjp(y, X, 1.0), ta.vjp(plain, X, 1.0)
    wave = each(sine)
    for expected in (np.sin(x), np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)):
        np.testing.assert_allclose(value(wave), expected)
        wave = ta.jvp(wave, {X: 1.0})


def test_a_function_inside_a_combiner_of_a_fold_and_a_scan() -> None:
    mix = ta.scalar_function(
        lambda a, b: ta.tanh(a) + b,
        partials=lambda y, a, b: (1 - (y - b) * (y - b), ta.const(1.0)),
        name="mix",
    )
    fold = ta.comm_reducer(lambda a, b: mix(a, b), lambda d: 0, name="mixed")
    plain = ta.comm_reducer(lambda a, b: ta.tanh(a) + b, lambda d: 0, name="plain")
    pairs = [
        (ta.compute((), lambda: fold(X[K], axis=K), name="F"),
         ta.compute((), lambda: plain(X[K], axis=K), name="P")),
        (ta.scan(X, 0, fold, name="F"), ta.scan(X, 0, plain, name="P")),
    ]  # fmt: skip
    for f, p in pairs:
        np.testing.assert_allclose(value(f), value(p))
        head = np.arange(1.0, 5.0) if f.shape else None
        (df,), (dp,) = ta.vjp(f, X, head), ta.vjp(p, X, head)
        np.testing.assert_allclose(value(df), value(dp))
        np.testing.assert_allclose(value(ta.jvp(f, {X: 1.0})), value(ta.jvp(p, {X: 1.0})))
        assert "mix(a, b) = tanh(a) + b" in str(f)


def test_a_function_in_an_update_of_a_scatter() -> None:
    y = ta.scatter(2, 4, lambda p: (p % 2, swish(X[p])), name="Y")
    assert "swish(x) = x*sigmoid(x)" in str(y)
    s = x / (1 + np.exp(-x))
    np.testing.assert_allclose(value(y), [s[0] + s[2], s[1] + s[3]])
    assert ta.gradcheck(y, X, order=2)


def test_gradients_are_checked_and_symbolic() -> None:
    n = ta.size("n")
    a = ta.placeholder((n,), name="A")
    k = ta.reduce_axis((0, n), name="k")
    y = ta.compute((n,), lambda i: ta.sum(swish(a[k]) * a[i], axis=k), name="Y")
    assert ta.gradcheck(y, a, order=2, sizes={"n": 3})


# stop_gradient


def test_a_stopped_value_is_a_constant_in_every_mode_and_order() -> None:
    y = each(lambda a: ta.stop_gradient(a) * a * a)
    np.testing.assert_allclose(value(y), x**3)
    assert "stop_gradient(X[i])*X[i]*X[i]" in str(y)
    (g,) = ta.vjp(y, X, 1.0)
    np.testing.assert_allclose(value(g), 2 * x * x)
    np.testing.assert_allclose(value(ta.jvp(y, {X: 1.0})), 2 * x * x)
    np.testing.assert_allclose(value(ta.jacobian(y, X)), np.diag(2 * x * x))
    np.testing.assert_allclose(value(ta.vjp(g, X, 1.0)[0]), 2 * x)
    assert "stop_gradient" not in str(ta.lower([y], [X]))


def test_a_stopped_tensor_lets_nothing_through() -> None:
    s = ta.stop_gradient(X)
    np.testing.assert_allclose(value(s), x)
    y = ta.compute((4,), lambda i: s[i] * X[i], name="Y")
    np.testing.assert_allclose(value(ta.vjp(y, X, 1.0)[0]), x)
    assert value(ta.vjp(s, X, 1.0)[0]).tolist() == [0.0] * 4
    with pytest.raises(GradError, match="does not depend on X"):
        ta.vjp(s, X, 1.0, strict=True)
    table = ta.placeholder((3,), "int64", name="T")
    assert ta.stop_gradient(table) is table


def test_stopping_folds_where_nothing_flows() -> None:
    i = ta.compute((4,), lambda i: ta.stop_gradient(i) * X[i], name="Y").op
    assert isinstance(i, Compute) and "stop_gradient" not in str(i.bodies[0])
    assert str(ta.stop_gradient(2.0)) == "2.0"
    twice = ta.stop_gradient(ta.stop_gradient(X[0]))
    assert str(twice) == "stop_gradient(X[0])"


def test_zeros_of_a_stopped_value_are_eliminated() -> None:
    a = ta.placeholder((50, 50), name="A")
    b = ta.placeholder((50,), name="B")
    k = ta.reduce_axis(50, name="k")

    def entry(i: Any) -> Any:
        return ta.stop_gradient(ta.select(k <= i, a[i, k], 0.0)) * b[k]

    y = ta.compute((50,), lambda i: ta.sum(entry(i), axis=k), name="Y")
    (db,) = ta.vjp(y, b, ta.placeholder((50,), name="H"))
    assert ta.work(db).iterations == 50 * 51 // 2


# What is refused

CASES = Refusals()
Y = each(lambda a: a * 2.0)


@CASES.refused(
    GradError,
    "the partials of f are 2, but it takes 1 argument.",
    "  hint: return one partial per argument, None where it is zero.",
)
def too_many_partials() -> None:
    f = ta.scalar_function(lambda a: a, partials=lambda y, a: (1.0, 2.0), name="f")
    ta.vjp(each(f), X, 1.0)


@CASES.refused(
    GradError,
    "the partials of f cannot be called with the value and 1 argument.",
    "  hint: write partials=lambda y, a, b: (dy_da, dy_db): y is the function's value.",
)
def partials_without_the_value() -> None:
    f = ta.scalar_function(lambda a: a, partials=lambda a: 1.0, name="f")
    ta.vjp(each(f), X, 1.0)


@CASES.refused(
    DefinitionError,
    "f cannot be called with 2 arguments.",
    "  hint: give it as many arguments as its formula has parameters.",
)
def too_many_arguments() -> None:
    f = ta.scalar_function(lambda a: a, partials=lambda y, a: 1.0, name="f")
    f(X[0], X[1])


@CASES.refused(
    DefinitionError,
    "the formula of f uses X[0], which is none of its arguments.",
    "  in: a*X[0]",
    "  hint: a scalar function sees only its arguments; pass other values as arguments.",
)
def a_formula_that_reads() -> None:
    f = ta.scalar_function(lambda a: a * X[0], partials=lambda y, a: 1.0, name="f")
    f(X[1])


@CASES.refused(
    DefinitionError,
    "partial 0 of f uses X[0], which is none of its arguments.",
    "  in: X[0]",
    "  hint: a scalar function sees only its arguments; pass other values as arguments.",
)
def a_partial_that_reads() -> None:
    f = ta.scalar_function(lambda a: a, partials=lambda y, a: X[0], name="f")
    ta.jvp(each(f), {X: 1.0})


@CASES.refused(
    DTypeError,
    "f gives bool: only a float has derivatives.",
    "  in: a > 0.0",
    "  hint: convert the result: .astype('float32'), or use a plain Python function.",
)
def a_formula_that_compares() -> None:
    f = ta.scalar_function(lambda a: a > 0, partials=lambda y, a: None, name="f")
    f(X[0])


@CASES.refused(
    GradError,
    "partial 0 of f is of dtype bool; it must be a float.",
    "  in: a > 0.0",
    "  hint: convert it: .astype('float32'); a zero partial is None.",
)
def a_partial_that_compares() -> None:
    f = ta.scalar_function(lambda a: a, partials=lambda y, a: a > 0, name="f")
    ta.vjp(each(f), X, 1.0)


@CASES.refused(
    DefinitionError,
    "the partials of a scalar function must be a function, got 2.0.",
    "  hint: scalar_function(lambda x: x * x, partials=lambda y, x: 2 * x).",
)
def a_number_as_partials() -> None:
    ta.scalar_function(lambda a: a, partials=2.0)  # type: ignore[call-overload]


@CASES.refused(
    DefinitionError,
    "the formula of a scalar function must be a function, got 'x*x'.",
    "  hint: scalar_function(lambda x: x * x, partials=lambda y, x: 2 * x).",
)
def a_text_as_formula() -> None:
    ta.scalar_function("x*x", partials=lambda y, a: a)  # type: ignore[call-overload]


@CASES.refused(
    DefinitionError,
    "the operand of stop_gradient must be an expression, got ndarray.",
    "  hint: make a tensor of it, A = ta.const(array), and read A[i].",
)
def a_stopped_array() -> None:
    ta.stop_gradient(np.ones(3))  # type: ignore[call-overload]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Case) -> None:
    check(case)
