"""Bad programs, third part: what has no derivative, and what does not fit one."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import (
    BindError,
    DefinitionError,
    DTypeError,
    GradError,
    LimitError,
    ShapeError,
)
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
N = np.arange(3)


def squares(x: Any) -> Any:
    return (x * x).sum()


def double(x: Any) -> Any:
    return x * 2.0


def product(x: Any, y: Any) -> Any:
    return (x * y).sum()


def pair(p: Any) -> Any:
    return {"loss": p["w"].sum(), "all": p["w"] * p["b"]}


POINT = {"w": V, "b": 2.0}


@ta.function(static_argnames="times")
def powers(x: Any, times: int) -> Any:
    return sum((x**k).sum() for k in range(times))


@CASES.refused(
    ShapeError,
    "value_and_grad needs a function whose result is one float without axes, but double returns "
    "double: float64 (3,).",
    "  in: value_and_grad of double",
    "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes results "
    "of any structure, ta.jacobian of any shape.",
)
def a_target_with_axes() -> None:
    ta.value_and_grad(double)(V)


@CASES.refused(
    ShapeError,
    "grad needs a function whose result is one float without axes, but pair returns "
    "pair['all']: float64 (3,), pair['loss']: float64 ().",
    "  in: grad of pair",
    "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes results "
    "of any structure, ta.jacobian of any shape.",
)
def a_target_of_several() -> None:
    ta.grad(pair)(POINT)


@CASES.refused(
    ShapeError,
    "grad needs a function whose result is one float without axes, but <lambda> returns "
    "<lambda>: int64 ().",
    "  in: grad of <lambda>",
    "  hint: integers and booleans have no derivative: convert with .astype('float32').",
)
def a_target_that_is_an_integer() -> None:
    ta.grad(lambda x: x.sum().astype("int64"))(V)


@CASES.refused(
    ShapeError,
    "hessian needs a function whose result is one float without axes, but <lambda> returns no "
    "array.",
    "  in: hessian of <lambda>",
    "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes results "
    "of any structure, ta.jacobian of any shape.",
)
def a_target_that_is_nothing() -> None:
    ta.hessian(lambda x: None)(V)


@CASES.refused(
    DTypeError,
    "grad cannot differentiate <lambda> by p['n'] of dtype int64: integers and booleans have no "
    "derivative.",
    "  in: p['n'] : int64 ()",
    "  hint: pass it as a float, or as an argument that argnums leaves out.",
)
def an_integer_leaf() -> None:
    ta.grad(lambda p: p["w"].sum() * p["n"])({"w": V, "n": 3})


@CASES.refused(
    GradError,
    "grad has nothing to differentiate squares by.",
    "  in: x, an argument without arrays",
    "  hint: choose another argument with argnums.",
)
def nothing_to_differentiate_by() -> None:
    ta.grad(squares)(None)


@CASES.refused(
    BindError,
    "grad differentiates product by argument 2, but the call has 2 positional ones.",
    "  in: grad of product, argnums=(0, 2)",
    "  hint: arguments to differentiate by are passed by position.",
)
def a_position_that_is_not_there() -> None:
    ta.grad(product, argnums=(0, 2))(V, V)


@CASES.refused(
    GradError,
    "argnums of grad must be positions of arguments, got 'y'.",
    "  in: grad",
    "  hint: pass 0 for the first argument, or a tuple of different ones.",
)
def a_name_for_a_position() -> None:
    ta.grad(product, "y")


@CASES.refused(
    GradError,
    "grad cannot differentiate powers by times, which is static.",
    "  in: grad of powers, argnums=(1,)",
    "  hint: a static argument is a part of the program: leave it out of static_argnames, or of "
    "argnums.",
)
def a_static_argument() -> None:
    ta.grad(powers, argnums=1)(V, 3)


@CASES.refused(
    DefinitionError,
    "the static argument primals[1] of powers_jvp cannot be hashed: it is a list.",
    "  in: primals[1] = [3]",
    "  hint: calls are told apart by the values of static arguments: pass a tuple, a string, a "
    "number or a frozen dataclass.",
)
def an_unhashable_static_argument() -> None:
    ta.jvp(powers, (V, [3]), (V, None))


@CASES.refused(
    BindError,
    "the arguments do not fit product: missing a required argument: 'y'.",
    "  in: product(x, y)",
    "  hint: call it as it is defined.",
)
def a_missing_primal() -> None:
    ta.jvp(product, (V,), (V,))


@CASES.refused(
    BindError,
    "the arguments do not fit value_and_grad: got an unexpected keyword argument 'aux'.",
    "  in: value_and_grad(f, argnums=0, has_aux=False)",
    "  hint: call it as it is defined.",
)
def an_unknown_option() -> None:
    ta.value_and_grad(squares, aux=True)  # type: ignore[call-overload]  # the mistake


@CASES.refused(
    DefinitionError,
    "the first argument of linearize must be a function, got float.",
    "  hint: pass a function, or a lambda.",
)
def a_point_instead_of_a_function() -> None:
    ta.linearize(3.0, V)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "the cotangent of vjp of pair has another structure at cotangent['all'].",
    "  in:                    wanted        given",
    "      cotangent['all']   float64 (3,)  -",
    "      cotangent['loss']  float64 ()    float64 ()",
    "  hint: a cotangent is a tree like the one it belongs to; None stands for integers.",
)
def a_cotangent_of_another_structure() -> None:
    ta.vjp(pair, POINT)[1]({"loss": 1.0})


@CASES.refused(
    ShapeError,
    "the cotangent of vjp of double has shape (4,), but what it belongs to has shape (3,).",
    "  in: cotangent : float64 (4,)",
    "  hint: a cotangent has the shape of its array.",
)
def a_cotangent_of_another_shape() -> None:
    ta.vjp(double, V)[1](np.ones(4))


@CASES.refused(
    DTypeError,
    "the cotangent cotangent['all'] of vjp of pair has dtype bool; it must be a float.",
    "  in: cotangent['all'] : bool (3,)",
    "  hint: convert it to float32 or float64.",
)
def a_cotangent_that_is_bool() -> None:
    ta.vjp(pair, POINT)[1]({"loss": 1.0, "all": V > 0})


@CASES.refused(
    GradError,
    "vjp of double has nothing to differentiate: no argument is a float.",
    "  in: x : int64 (3,)",
    "  hint: integers and booleans have no derivative: convert with .astype('float32').",
)
def a_pullback_of_integers() -> None:
    ta.vjp(double, N)[1](np.ones(3))


@CASES.refused(
    GradError,
    "the primals of jvp must be a tuple with one for each argument, got ndarray.",
    "  in: jvp",
    "  hint: write jvp(f, (x,), (v,)).",
)
def tangents_without_a_tuple() -> None:
    ta.jvp(double, V, V)


@CASES.refused(
    DefinitionError,
    "the tangent of linearize of product has another structure at tangents[1].",
    "  in:              wanted        given",
    "      tangents[0]  float64 (3,)  float64 (3,)",
    "      tangents[1]  float64 (3,)  -",
    "  hint: a tangent is a tree like the one it belongs to; None stands for integers.",
)
def a_tangent_too_few() -> None:
    ta.linearize(product, V, V)[1](V)


@CASES.refused(
    DefinitionError,
    "the tangent of jvp of pair has another structure at tangents[0]['b'].",
    "  in:                   wanted        given",
    "      tangents[0]['b']  float64 ()    -",
    "      tangents[0]['w']  float64 (3,)  float64 (3,)",
    "      tangents[0]['c']  -             float64 ()",
    "  hint: a tangent is a tree like the one it belongs to; None stands for integers.",
)
def a_tangent_of_another_key() -> None:
    ta.jvp(pair, (POINT,), ({"w": V, "c": 1.0},))


@CASES.refused(
    ShapeError,
    "the vector vectors[1] of hvp of product has shape (2,), but what it belongs to has shape "
    "(3,).",
    "  in: vectors[1] : float64 (2,)",
    "  hint: a vector has the shape of its array.",
)
def a_vector_of_another_shape() -> None:
    ta.hvp(product, (V, V), (V, np.ones(2)))


@CASES.refused(
    BindError,
    "the arguments do not fit hvp: missing a required argument: 'vectors'.",
    "  in: hvp(f, primals, vectors, *, fw_mode=None)",
    "  hint: call it as it is defined.",
)
def vectors_that_are_missing() -> None:
    ta.hvp(squares, (V,))  # type: ignore[call-overload]  # the mistake


@CASES.refused(
    DTypeError,
    "jacfwd cannot differentiate double by x of dtype int64: integers and booleans have no "
    "derivative.",
    "  in: x : int64 (3,)",
    "  hint: pass it as a float, or as an argument that argnums leaves out.",
)
def a_jacobian_by_integers() -> None:
    ta.jacfwd(double)(N)


@CASES.refused(
    LimitError,
    "the Jacobian of mul of shape (20000, 20000) has 400,000,000 elements, more than the "
    "134,217,728 of TENSORAD_DENSE_JACOBIAN_ELEMENTS.",
    "  in: dx : float64 (20000, 20000)",
    "  hint: ta.sparse_jacobian stores its nonzeros only; vjp and jvp multiply by it without "
    "storing it.",
)
def a_jacobian_beyond_the_limit() -> None:
    ta.jacobian(lambda x: x * x.sum())(np.ones(20000))


@CASES.refused(
    GradError,
    "'sideways' is no mode.",
    '  hint: use mode="reverse", "forward" or None.',
)
def a_mode_that_is_none() -> None:
    ta.jacobian(double, mode="sideways")(V)


@CASES.refused(
    DTypeError,
    "sparse_jacobian cannot differentiate double by x of dtype int64: integers and booleans "
    "have no derivative.",
    "  in: x : int64 (3,)",
    "  hint: pass it as a float, or as an argument that argnums leaves out.",
)
def a_sparse_jacobian_by_integers() -> None:
    ta.sparse_jacobian(double)(N)


@CASES.refused(
    DTypeError,
    "gradcheck of squares has nothing to differentiate by: no argument is a float.",
    "  in: x : int64",
    "  hint: pass floats, 1.0 for 1.",
)
def a_check_by_integers() -> None:
    ta.gradcheck(squares, N)


@CASES.refused(
    GradError,
    "gradcheck of <lambda> has nothing to check: no result is a float.",
    "  in: astype : int64 (3,)",
    "  hint: integers and booleans have no derivative: convert with .astype('float32').",
)
def a_check_of_integers() -> None:
    ta.gradcheck(lambda x: x.astype("int64"), V)


@CASES.refused(
    DefinitionError,
    "grad_<lambda> uses x outside of grad_<lambda>, where it has no value.",
    "  in: x : float64 (3,)",
    "  hint: return what is needed from the function it belongs to.",
)
def a_derivative_that_uses_another_trace() -> None:
    kept: list[Any] = []
    ta.grad(lambda x: (kept.append(x), squares(x))[1])(V)
    ta.grad(lambda y: product(y, kept[0]))(V)


@CASES.refused(
    DTypeError,
    "grad cannot differentiate <lambda> by n of dtype int64: integers and booleans have no "
    "derivative.",
    "  in: n : int64 ()",
    "  hint: pass it as a float, or as an argument that argnums leaves out.",
)
def a_loop_of_integers() -> None:
    ta.grad(lambda n: ta.for_loop(0, n, lambda i, s: s * 2, 1))(3)
