"""Derivatives of functions of trees, and of tensors under the same names."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import (
    BindError,
    DefinitionError,
    DTypeError,
    GradError,
    ShapeError,
    UserError,
)
from tensorad.ir.tensor import Tensor

PARAMS = {"w": np.arange(20.0).reshape(4, 5), "b": np.ones(5)}
X = np.arange(12.0).reshape(3, 4)


def loss(params: Any, x: Any) -> Any:
    return ta.topi.sum((ta.topi.matmul(x, params["w"]) + params["b"]) ** 2)


def cube(x: Any) -> Any:
    return x * x * x


def slope(f: Any) -> Any:
    return lambda x: ta.jvp(f, (x,), (1.0,))[1]


def inside(mode: Any, f: Any) -> Any:
    """The derivative at a variable of its own."""
    return lambda x: mode(lambda a: f(a))(x)


def wanted(params: Any, x: Any) -> tuple[Any, Any]:
    head = 2 * (x @ params["w"] + params["b"])
    return {"w": x.T @ head, "b": head.sum(0)}, head @ params["w"].T


def check_equal(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for k in expected:
            check_equal(found[k], expected[k])
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            check_equal(f, e)
    else:
        assert np.allclose(found, expected, rtol=1e-12)


def test_gradients_are_trees_like_the_arguments() -> None:
    d_params, d_x = wanted(PARAMS, X)
    check_equal(ta.grad(loss)(PARAMS, X), d_params)
    check_equal(ta.grad(loss, argnums=1)(PARAMS, X), d_x)
    value, grads = ta.value_and_grad(loss, argnums=(1, 0))(PARAMS, X)
    check_equal(grads, (d_x, d_params))
    assert np.isclose(value, ((X @ PARAMS["w"] + PARAMS["b"]) ** 2).sum())


def test_other_results_are_passed_on() -> None:
    def f(x: Any) -> Any:
        return x * x, {"double": x * 2, "name": "f"}

    gradient, aux = ta.grad(f, has_aux=True)(3.0)
    assert gradient == 6 and aux["double"] == 6 and aux["name"] == "f"
    (value, aux), gradient = ta.value_and_grad(f, has_aux=True)(3.0)
    assert value == 9 and gradient == 6 and aux["double"] == 6
    value, pullback, aux = ta.vjp(f, 3.0, has_aux=True)
    assert value == 9 and pullback(1.0) == (6.0,) and aux["double"] == 6


def test_vjp_of_trees() -> None:
    def f(x: Any, n: Any) -> Any:
        return {"s": x * x, "n": n + 1}

    value, pullback = ta.vjp(f, X, 3)
    check_equal(value, {"n": np.asarray(4), "s": X * X})
    head = np.ones_like(X)
    check_equal(pullback({"s": head, "n": None})[0], 2 * X)
    assert pullback({"s": head, "n": 0})[1] is None


def test_a_result_that_is_returned_twice() -> None:
    value, pullback = ta.vjp(lambda x: (x, x, x * x), 3.0)
    assert value == (3.0, 3.0, 9.0)
    assert pullback((1.0, 10.0, 100.0)) == (611.0,)


def test_jvp_and_linearize() -> None:
    tangent = {"w": np.ones((4, 5)), "b": np.zeros(5)}
    d_params, _ = wanted(PARAMS, X)
    value, dy = ta.jvp(loss, (PARAMS, X), (tangent, np.zeros_like(X)))
    assert np.isclose(value, ((X @ PARAMS["w"] + PARAMS["b"]) ** 2).sum())
    assert np.isclose(dy, d_params["w"].sum())
    value, linear = ta.linearize(cube, X)
    check_equal(value, X**3)
    for scale in (1.0, 2.0):
        check_equal(linear(np.full_like(X, scale)), 3 * X**2 * scale)
    value, dy = ta.jvp(lambda x, n: (x * n, n), (2.0, 3), (1.0, None))
    assert value == (6, 3) and dy == (3, None)


@pytest.mark.parametrize("jacobian", [ta.jacobian, ta.jacfwd, ta.jacrev])
def test_jacobians(jacobian: Any) -> None:
    v = np.arange(1.0, 4.0)
    check_equal(jacobian(cube)(v), np.diag(3 * v**2))
    found = jacobian(lambda p, x: (p["a"] * x, x), argnums=(0, 1))({"a": v}, v)
    check_equal(found, (({"a": np.diag(v)}, np.diag(v)), ({"a": np.zeros((3, 3))}, np.eye(3))))


def test_hessians() -> None:
    v = np.arange(1.0, 4.0)
    check_equal(ta.hessian(lambda x: ta.topi.sum(cube(x)))(v), np.diag(6 * v))
    blocks = ta.hessian(lambda p: ta.topi.sum(p["a"] * p["b"]))({"a": v, "b": v})
    zero, one = np.zeros((3, 3)), np.eye(3)
    check_equal(blocks, {"a": {"a": zero, "b": one}, "b": {"a": one, "b": zero}})
    check_equal(ta.hvp(lambda x: ta.topi.sum(cube(x)), (v,), (v,)), (6 * v * v,))


def test_derivatives_of_derivatives() -> None:
    assert ta.grad(ta.grad(cube))(2.0) == 12
    assert ta.grad(ta.grad(ta.grad(cube)))(2.0) == 6
    assert ta.jvp(ta.grad(cube), (2.0,), (1.0,))[1] == 12
    assert ta.grad(lambda x: ta.jvp(cube, (x,), (1.0,))[1])(2.0) == 12
    assert ta.grad(lambda x: ta.vjp(cube, x)[1](1.0)[0])(2.0) == 12
    assert ta.grad(lambda x: ta.linearize(cube, x)[1](1.0))(2.0) == 12


@pytest.mark.parametrize("modes", list(itertools.product((ta.grad, slope), repeat=3)))
def test_three_modes_through_a_reduction_inside_of_a_formula(modes: Any) -> None:
    """Each is made at variables of the one around it, which tidying must leave in place."""

    def of_sixth_degree(a: Any) -> Any:
        return ta.topi.sum(np.array([0.5, -1.0, 2.0]) * a * a) ** 3

    f = of_sixth_degree
    for mode in modes:
        f = inside(mode, f)
    trace = ta.function(f).trace(0.75)
    (found,) = ta.interpret(list(trace.results), dict(zip(trace.parameters, [0.75], strict=True)))
    assert found == pytest.approx(120 * 1.5**3 * 0.75**3)


def test_derivatives_are_by_arguments_alone() -> None:
    assert ta.grad(lambda x: x * ta.grad(lambda y: x + y)(1.0))(3.0) == 1
    assert ta.grad(lambda x: ta.grad(lambda y: x * y)(1.0))(3.0) == 1
    assert ta.grad(lambda x: ta.grad(lambda y: x * y)(x))(3.0) == 1
    assert ta.grad(lambda x: ta.jvp(lambda y: x * y, (x,), (x,))[1])(3.0) == 6
    x = ta.placeholder((), "float64", name="x")
    assert ta.interpret(ta.grad(lambda y: x * y)(x), {x: 5.0}) == 5
    assert ta.interpret(ta.grad(lambda a, b: a * a * b)(x, x), {x: 5.0}) == 50


def test_tensors_have_the_same_names() -> None:
    x = ta.placeholder((3,), "float64", name="x")
    y = ta.topi.sum(cube(x))
    v = np.arange(3.0)
    for found in (
        ta.grad(y, x), ta.grad(y, [x])[0], ta.value_and_grad(y, x)[1], ta.vjp(y, [x])[0],
        ta.jacobian(y, x), ta.jacfwd(y, x), ta.jacrev(y, x),
    ):  # fmt: skip
        assert isinstance(found, Tensor)
        assert np.allclose(ta.evaluate(found, {x: v}), 3 * v**2)
    assert ta.value_and_grad(y, x)[0] is y


def test_derivatives_of_a_function_are_made_once() -> None:
    f = ta.function(loss)
    assert ta.grad(f) is ta.grad(f) and ta.grad(f) is not ta.grad(f, 1)
    check_equal(ta.grad(f)(PARAMS, X), wanted(PARAMS, X)[0])
    assert ta.grad(f).name == "grad_loss"


def test_static_arguments_stay_static() -> None:
    f = ta.function(lambda x, n: x**n, static_argnames="n")
    assert ta.grad(f)(3.0, 2) == 6
    y, pullback = ta.vjp(f, 3.0, 2)
    assert y == 9 and pullback(1.0) == (6, None)
    assert ta.jvp(f, (3.0, 2), (2.0, None)) == (9, 12)
    assert ta.linearize(f, 3.0, 2)[1](2.0, None) == 12
    assert ta.hvp(f, (3.0, 3), (1.0, None)) == (18, None)
    g = ta.function(lambda n, x: x**n, static_argnames="n")
    y, pullback = ta.vjp(g, 3, 2.0)
    assert pullback(1.0) == (None, 12) and ta.jvp(g, (3, 2.0), (None, 1.0))[1] == 12


def test_pullbacks_are_at_the_arguments_that_were_given() -> None:
    x = np.array([1.0, 2.0])
    _, pullback = ta.vjp(lambda x: (x * x).sum(), x)
    _, linear = ta.linearize(lambda x: (x * x).sum(), x)
    x[:] = 7
    assert pullback(1.0)[0].tolist() == [2, 4] and linear(np.ones(2)) == 6


def test_the_mode_that_is_asked_for_is_taken() -> None:
    f = ta.function(cube)
    assert ta.jacobian(f, mode="forward") is not ta.jacobian(f, mode="reverse")
    with pytest.raises(UserError):
        ta.jacobian(f, mode="sideways")(X)


_, pull = ta.vjp(lambda x: {"s": x * x, "n": 3}, X)
t = ta.placeholder((3,), name="t")
REFUSED = {
    "a target with axes": (
        lambda: ta.grad(cube)(X),
        ShapeError,
        "grad needs a function whose result is one float without axes, but cube returns cube: "
        "float64 (3, 4).\n"
        "  in: grad of cube\n"
        "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes "
        "results of any structure, ta.jacobian of any shape.",
    ),
    "two targets": (
        lambda: ta.hessian(lambda x: (x, x))(1.0),
        ShapeError,
        "hessian needs a function whose result is one float without axes, but <lambda> returns "
        "<lambda>[0]: float32 (), <lambda>[1]: float32 ().\n"
        "  in: hessian of <lambda>\n"
        "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes "
        "results of any structure, ta.jacobian of any shape.",
    ),
    "a tensor with axes": (
        lambda: ta.grad(t * 2.0, t),
        ShapeError,
        "a gradient needs a 0-d tensor, but mul has shape (3,).\n"
        "  in: mul : float32 (3,)\n"
        "  hint: sum it first, or use vjp with a head.",
    ),
    "an integer": (
        lambda: ta.grad(loss)({"w": PARAMS["w"], "b": np.arange(5)}, X),
        DTypeError,
        "grad cannot differentiate loss by params['b'] of dtype int64: integers and booleans have "
        "no derivative.\n"
        "  in: params['b'] : int64 (5,)\n"
        "  hint: pass it as a float, or as an argument that argnums leaves out.",
    ),
    "nothing": (
        lambda: ta.grad(loss)((), X),
        GradError,
        "grad has nothing to differentiate loss by.\n"
        "  in: params, an argument without arrays\n"
        "  hint: choose another argument with argnums.",
    ),
    "no position": (
        lambda: ta.grad(loss, argnums=2)(PARAMS, X),
        BindError,
        "grad differentiates loss by argument 2, but the call has 2 positional ones.\n"
        "  in: grad of loss, argnums=(2,)\n"
        "  hint: arguments to differentiate by are passed by position.",
    ),
    "positions": (
        lambda: ta.value_and_grad(loss, argnums=(0, 0)),
        GradError,
        "argnums of value_and_grad must be positions of arguments, got (0, 0).\n"
        "  in: value_and_grad\n"
        "  hint: pass 0 for the first argument, or a tuple of different ones.",
    ),
    "a cotangent of another structure": (
        lambda: pull((np.ones_like(X), 1)),
        DefinitionError,
        "the cotangent of vjp of <lambda> has another structure at cotangent.\n"
        "  in:                 wanted          given\n"
        "      cotangent       dict            tuple\n"
        "      cotangent['n']  int64 ()        -\n"
        "      cotangent['s']  float64 (3, 4)  -\n"
        "      cotangent[0]    -               float64 (3, 4)\n"
        "      cotangent[1]    -               float64 ()\n"
        "  hint: a cotangent is a tree like the one it belongs to; None stands for integers.",
    ),
    "a cotangent of another shape": (
        lambda: pull({"s": np.ones(3), "n": None}),
        ShapeError,
        "the cotangent cotangent['s'] of vjp of <lambda> has shape (3,), but what it belongs to "
        "has shape (3, 4).\n"
        "  in: cotangent['s'] : float64 (3,)\n"
        "  hint: a cotangent has the shape of its array.",
    ),
    "a cotangent of integers": (
        lambda: pull({"s": np.ones((3, 4), "int64"), "n": None}),
        DTypeError,
        "the cotangent cotangent['s'] of vjp of <lambda> has dtype int64; it must be a float.\n"
        "  in: cotangent['s'] : int64 (3, 4)\n"
        "  hint: convert it to float32 or float64.",
    ),
    "a tangent of another structure": (
        lambda: ta.jvp(cube, (X,), ({"a": X},)),
        DefinitionError,
        "the tangent of jvp of cube has another structure at tangents[0].\n"
        "  in:                   wanted          given\n"
        "      tangents[0]       float64 (3, 4)  -\n"
        "      tangents[0]['a']  -               float64 (3, 4)\n"
        "  hint: a tangent is a tree like the one it belongs to; None stands for integers.",
    ),
    "no tuple": (
        lambda: ta.hvp(loss, X, X),
        GradError,
        "the primals of hvp must be a tuple with one for each argument, got ndarray.\n"
        "  in: hvp\n"
        "  hint: write hvp(f, (x,), (v,)).",
    ),
    "integers alone": (
        lambda: ta.jvp(lambda n: n + 1, (3,), (None,)),
        GradError,
        "jvp of <lambda> has nothing to differentiate: no argument is a float.\n"
        "  in: n : int64 ()\n"
        "  hint: integers and booleans have no derivative: convert with .astype('float32').",
    ),
    "no pair": (
        lambda: ta.grad(cube, has_aux=True)(1.0),
        DefinitionError,
        "cube must return a pair (result, aux), got Tensor.\n"
        "  in: grad of cube with has_aux=True\n"
        "  hint: return both, or leave out has_aux.",
    ),
    "no function": (
        lambda: ta.linearize(3),  # type: ignore[arg-type]
        DefinitionError,
        "the first argument of linearize must be a function, got int.\n"
        "  hint: pass a function, or a lambda.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_derivatives_that_are_refused(case: str) -> None:
    bad, kind, text = REFUSED[case]
    with pytest.raises(UserError) as caught:
        bad()
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_whole_numbers_are_cotangents_and_tangents() -> None:
    value, back = ta.vjp(lambda p: p["x"] * p["x"], {"x": 3.0})
    assert value == 9.0 and back(1)[0]["x"] == 6.0
    assert ta.jvp(lambda x: x * x, (3.0,), (2,))[1] == 12.0
    assert ta.linearize(lambda x: x * x, 3.0)[1](2) == 12.0
    assert ta.hvp(lambda x: x * x, (3.0,), (2,))[0] == 4.0


def test_a_carry_that_is_updated_by_parts_has_a_gradient_by_parts() -> None:
    def chain(x: Any) -> Any:
        def body(t: Any, y: Any) -> Any:
            return y.at[t].set(ta.sin(y[t - 1]) * 0.5 + x[t])

        return ta.for_loop(1, x.shape[0], body, x).sum()

    x = np.linspace(-1.0, 1.0, 7)
    value, found = ta.value_and_grad(chain)(x)
    y, slopes = x.copy(), np.eye(7)
    for t in range(1, 7):
        y[t] = np.sin(y[t - 1]) * 0.5 + x[t]
        slopes[t] += np.cos(y[t - 1]) * 0.5 * slopes[t - 1]
    np.testing.assert_allclose(value, y.sum(), rtol=1e-14)
    np.testing.assert_allclose(found, slopes.sum(0), rtol=1e-14)


def test_rows_of_a_formula_are_read_as_often_as_data_say() -> None:
    def total(x: Any, n: Any) -> Any:
        y = ta.exp(x)
        return ta.for_loop(0, n, lambda t, c: c + y[t], 0.0 * x[0])

    x, n = np.arange(4.0), np.array(3)
    np.testing.assert_allclose(ta.grad(total)(x, n), [*np.exp(x[:3]), 0.0], rtol=1e-12)
