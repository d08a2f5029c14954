"""Bad programs: derivatives by values of data types, values that hold functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tests.support.bad.kinds import XS, List, V, half, run
from tests.support.refusals import Refusals

CASES = Refusals()
Hue: Any = ta.variant("Hue", Red={}, Gray={"level": "int64"})
Dot: Any = ta.variant("Dot", At={"x": "float64", "hue": Hue}, Not={})
DOT = Dot.At(2.0, Hue.Red())


def head_of(xs: Any) -> Any:
    return ta.match(xs, lambda: 0.0, lambda head, tail: head)


def place(dot: Any) -> Any:
    return ta.match(dot, lambda x, hue: x, lambda: 0.0)


@CASES.refused(
    DTypeError,
    "grad cannot differentiate <lambda> by hue of the data type Hue, whose values have no floats.",
    "  in: hue : Hue",
    "  hint: choose another argument with argnums.",
)
def by_a_value_without_floats() -> None:
    ta.grad(lambda hue: 1.0)(Hue.Gray(3))


@CASES.refused(
    ShapeError,
    "grad needs a function whose result is one float without axes, but <lambda> returns "
    "<lambda>: List.",
    "  in: grad of <lambda>",
    "  hint: sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes results of "
    "any structure, ta.jacobian of any shape.",
)
def the_gradient_of_a_value() -> None:
    ta.grad(lambda xs: xs)(XS)


@CASES.refused(
    DefinitionError,
    "the tangent of jvp of head_of has Nil where the value that it belongs to has Cons.",
    "  in: tangents[0].tail",
    "  hint: a tangent of a value of List is of the same alternatives, with numbers for "
    "directions.",
)
def a_tangent_of_another_alternative() -> None:
    ta.jvp(head_of, (List.Cons(1.0, XS),), (XS,))


@CASES.refused(
    DefinitionError,
    "the tangent of linearize of head_of has Cons where the value that it belongs to has Nil.",
    "  in: tangents[0]['a'].tail",
    "  hint: a tangent of a value of List is of the same alternatives, with numbers for "
    "directions.",
)
def a_longer_tangent() -> None:
    def head_of(given: Any) -> Any:
        return ta.match(given["a"], lambda: 0.0, lambda head, tail: head)

    ta.linearize(head_of, {"a": XS})[1]({"a": List.Cons(1.0, XS)})


@CASES.refused(
    DefinitionError,
    "the cotangent of vjp of <lambda> has Nil where the value that it belongs to has Cons.",
    "  in: cotangent[1]",
    "  hint: a cotangent of a value of List is of the same alternatives, with numbers for "
    "directions.",
)
def a_cotangent_of_another_alternative() -> None:
    ta.vjp(lambda xs: (1.0, xs), XS)[1]((0.0, List.Nil()))


@CASES.refused(
    DefinitionError,
    "the vector of hvp of head_of has Nil where the value that it belongs to has Cons.",
    "  in: vectors[0]",
    "  hint: a vector of a value of List is of the same alternatives, with numbers for directions.",
)
def a_vector_of_another_alternative() -> None:
    ta.hvp(head_of, (XS,), (List.Nil(),))


@CASES.refused(
    DTypeError,
    "the tangent tangents[0] of jvp of head_of is of float64, but what it belongs to is of the data"
    " type List.",
    "  in: tangents[0]",
    "  hint: pass a value of List: of the same alternatives, with numbers for directions.",
)
def an_array_as_tangent_of_a_value() -> None:
    ta.jvp(head_of, (XS,), (np.ones(2),))


@CASES.refused(
    DTypeError,
    "the cotangent of vjp of <lambda> is of Dot, but what it belongs to is of the data type List.",
    "  in: cotangent",
    "  hint: pass a value of List: of the same alternatives, with numbers for directions.",
)
def a_cotangent_of_another_type() -> None:
    ta.vjp(lambda xs: xs, XS)[1](DOT)


@CASES.refused(
    GradError,
    "vjp of place has nothing to differentiate: no argument is a float.",
    "  in: hue : Hue",
    "  hint: integers and booleans have no derivative: convert with .astype('float32').",
)
def no_argument_with_floats() -> None:
    def place(hue: Any) -> Any:
        return 1.0

    ta.vjp(place, Hue.Red())[1](1.0)


@CASES.refused(
    GradError,
    "jacfwd of head_of has no direction for each float of xs, a value of the data type List: data "
    "say how many it has.",
    "  in: xs : List",
    "  hint: ta.jvp and ta.hvp take a value as one direction; ta.jacrev has a row for each element "
    "of the result.",
)
def a_forward_jacobian_by_a_value_that_data_choose() -> None:
    ta.function(lambda xs: ta.jacfwd(head_of)(xs))(XS)


@CASES.refused(
    GradError,
    "jacrev of <lambda> by xs, a value of the data type List, has fields of the shape of <lambda>, "
    "(n,), which is not known where it is written down.",
    "  in: <lambda> : float64 (n,)",
    "  hint: extents of fields are numbers: give the arguments shapes in numbers, or use ta.vjp "
    "with one cotangent.",
)
def a_jacobian_by_a_value_of_an_array_of_unknown_extent() -> None:
    x = ta.placeholder((ta.size("n"),), "float64", name="x")
    ta.function(lambda xs, x: ta.jacrev(lambda xs: x * head_of(xs))(xs)).trace(XS, x)


@CASES.refused(
    GradError,
    "jacrev of <lambda> has no array for <lambda>, a value of the data type List.rows[3].",
    "  in: <lambda> : List.rows[3]",
    "  hint: ta.grad and ta.vjp return values like it; ta.jvp and ta.hvp take one as a direction.",
)
def a_jacobian_of_a_jacobian_by_a_value() -> None:
    def rows(xs: Any) -> Any:
        return ta.jacrev(lambda xs: head_of(xs) * np.ones(3))(xs)

    ta.function(lambda xs: ta.jacrev(lambda xs: rows(xs))(xs))(XS)


@CASES.refused(
    GradError,
    "sparse_jacobian of head_of has no array for xs, a value of the data type List.",
    "  in: xs : List",
    "  hint: ta.grad and ta.vjp return values like it; ta.jvp and ta.hvp take one as a direction.",
)
def a_sparse_jacobian_by_a_value() -> None:
    ta.sparse_jacobian(head_of)(XS)


@CASES.refused(
    GradError,
    "hessian of place has no direction for each float of dot, a value of the data type Dot: data "
    "say how many it has.",
    "  in: dot : Dot",
    "  hint: ta.jvp and ta.hvp take a value as one direction; ta.jacrev has a row for each element "
    "of the result.",
)
def a_hessian_by_a_value_that_data_choose() -> None:
    ta.function(lambda dot: ta.hessian(place)(dot))(DOT)


@CASES.refused(
    GradError,
    "jacfwd of listed has no array for listed, a value of the data type List.",
    "  in: listed : List",
    "  hint: ta.grad and ta.vjp return values like it; ta.jvp and ta.hvp take one as a direction.",
)
def a_jacobian_of_a_value() -> None:
    def listed(x: Any) -> Any:
        return List.Cons(x, List.Nil())

    ta.jacfwd(listed)(V)


@CASES.refused(
    DTypeError,
    "the field dot of Box.Full must be a Dot, got Dot.gradient.",
    "  hint: make a value of Dot.",
)
def a_gradient_as_a_field() -> None:
    ta.variant("Box", Full={"dot": Dot}).Full(ta.grad(place)(DOT))


@CASES.refused(
    DTypeError,
    "the adjoint of xs by a rule is of float64, but what it belongs to is of the data type List.",
    "  in: first(xs)",
    "  hint: pass a value of List: of the same alternatives, with numbers for directions.",
)
def a_rule_that_returns_an_array_for_a_value() -> None:
    @ta.custom_rule(vjp=lambda out, c, xs: [c])
    def first(xs: Any) -> Any:
        return head_of(xs)

    ta.grad(lambda xs: first(xs))(XS)


# functions in fields

Step: Any = ta.variant("Step", Act={"f": ta.Fn}, Add={"b": "float64"}, Stop={"n": "int64"})


@CASES.refused(
    DTypeError,
    "the field f of Step.Act must be a function, got number 3.0.",
    "  hint: pass a function, or a lambda.",
)
def a_number_in_the_place_of_a_function() -> None:
    Step.Act(3.0)


@CASES.refused(
    DefinitionError,
    "the branches of cond at HERE return different structures: they differ at cond.f.",
    "  in:         true_fn        false_fn",
    "      cond.f  function half  -",
    "      cond    -              function half",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def data_choose_between_a_value_and_a_function() -> None:
    run(lambda x: ta.cond(x > 0, lambda: Step.Act(half), lambda: half), V)


@CASES.refused(
    DefinitionError,
    "<lambda> is a value of Step that data choose, with functions in it, which no call returns.",
    "  in: the result of <lambda>",
    "  hint: take it apart inside with ta.match, and return what is computed of it.",
)
def a_value_with_functions_that_data_choose_is_returned() -> None:
    run(lambda x: ta.cond(x > 0, lambda: Step.Act(half), lambda: Step.Add(x)), V)


@CASES.refused(
    GradError,
    "grad has nothing to differentiate <lambda> by.",
    "  in: step, an argument without floats",
    "  hint: choose another argument with argnums.",
)
def a_value_with_functions_and_no_floats() -> None:
    ta.grad(lambda step: 1.0)(Step.Stop(3))
