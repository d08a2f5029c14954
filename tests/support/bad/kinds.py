"""Bad programs, sixth part: data types, functions that data choose."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
List: Any = ta.variant("List", Nil={}, Cons={"head": "float64", "tail": "List"})
Pair: Any = ta.variant("Pair", Both={"a": "float64[2]", "b": {"n": "int64"}})
XS = List.Cons(1.0, List.Nil())
V = np.float64(2.0)
N = np.int64(3)


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


def half(y: Any) -> Any:
    return y / 2


def both(y: Any) -> Any:
    return y, y


def added(y: Any, z: Any) -> Any:
    return y + z


# data types


@CASES.refused(
    DefinitionError,
    "the data type Empty has no alternatives.",
    "  hint: write a class for each inside of it, with annotations of its fields.",
)
def no_alternatives() -> None:
    @ta.variant
    class Empty:
        pass


@CASES.refused(
    BindError,
    "the arguments do not fit List.Cons: too many positional arguments.",
    "  in: List.Cons(head, tail)",
    "  hint: call it as it is defined.",
)
def a_field_too_many() -> None:
    List.Cons(1.0, List.Nil(), 2)


@CASES.refused(
    DTypeError,
    "the field tail of List.Cons must be a List, got number 2.0.",
    "  hint: make a value of List.",
)
def a_field_of_another_type() -> None:
    List.Cons(1.0, 2.0)


@CASES.refused(
    ShapeError,
    "the field head of List.Cons must be float64 (), got float64 (3,).",
    "  hint: convert or reshape it.",
)
def a_field_of_another_shape() -> None:
    List.Cons(np.ones(3), List.Nil())


@CASES.refused(
    DTypeError,
    "the field a of Pair.Both must be float64 (2,), got float32 (2,).",
    "  hint: convert or reshape it.",
)
def a_field_of_another_dtype() -> None:
    Pair.Both(np.ones(2, "float32"), {"n": 1})


@CASES.refused(
    DTypeError,
    "the field head of List.Cons must be float64 (), got a str.",
    "  hint: convert or reshape it.",
)
def a_field_that_is_no_array() -> None:
    List.Cons("one", List.Nil())


@CASES.refused(
    DefinitionError,
    "the field b of Pair.Both has another structure, first at b['n'].",
    "  in:         declared  given",
    "      b['n']  int64 ()  -",
    "      b['m']  -         number 1",
    "  hint: pass a tree like the annotation.",
)
def a_field_of_another_structure() -> None:
    Pair.Both(np.ones(2), {"m": 1})


@CASES.refused(
    DTypeError,
    "Some.One.x is annotated as float, which may be float32 or float64.",
    "  hint: write x: 'float64'.",
)
def an_annotation_of_floats() -> None:
    ta.variant("Some", One={"x": float}).One(1.0)


@CASES.refused(
    DefinitionError,
    "the annotation of Some.One.x says nothing that a field can have: float64[.",
    "  hint: write a dtype with a shape, 'float64[3]', the name of a data type, or a "
    "tuple, list or dict of these.",
)
def an_annotation_of_nothing() -> None:
    ta.variant("Some", One={"x": "float64["}).One(1.0)


@CASES.refused(
    DefinitionError,
    "the annotation of Some.One.x names Other, which is no dtype and is not defined there.",
    "  hint: write a dtype, 'float64[3]', or the name of a data type of the same module.",
)
def an_unknown_name() -> None:
    ta.variant("Some", One={"x": "Other"}).One(1.0)


@CASES.refused(
    DefinitionError,
    "2.5 is no extent of Some.One.x.",
    "  hint: extents of fields are whole numbers, or names of such.",
)
def an_extent_that_is_none() -> None:
    ta.variant("Some", One={"x": "float64[2.5]"}).One(1.0)


@CASES.refused(
    DefinitionError,
    "head of a List.Cons cannot be assigned to: values never change.",
    "  hint: make another one: List.Cons(head, tail).",
)
def an_assignment() -> None:
    XS.head = 2.0


@CASES.refused(
    DTypeError,
    "the value of match at HERE is of no data type: number 2.0.",
    "  hint: ta.match takes what an alternative of a ta.variant makes; ta.cond and "
    "ta.switch choose by conditions and numbers.",
)
def a_match_of_numbers() -> None:
    ta.match(2.0, {})


@CASES.refused(
    DefinitionError,
    "match at HERE has no function for Cons.",
    "  in: List is Nil, Cons",
    "  hint: a value may be any alternative: add one for each.",
)
def a_missing_alternative() -> None:
    ta.match(XS, {List.Nil: lambda: 0.0})


@CASES.refused(
    DefinitionError,
    "match at HERE has two functions for Nil.",
    "  in: List is Nil, Cons",
    "  hint: leave one of them out.",
)
def a_doubled_alternative() -> None:
    ta.match(XS, {List.Nil: lambda: 0.0, "Nil": lambda: 1.0})


@CASES.refused(
    DefinitionError,
    "match at HERE has a function for Both, which is no alternative of List.",
    "  in: List is Nil, Cons",
    "  hint: name the alternatives by their classes.",
)
def an_alternative_of_another_type() -> None:
    ta.match(XS, {List.Nil: lambda: 0.0, Pair.Both: lambda a, b: 1.0})


@CASES.refused(
    DefinitionError,
    "match at HERE has 1 function, but List has 2 alternatives.",
    "  in: List is Nil, Cons",
    "  hint: pass a function for each, in this order, or a dict by alternative.",
)
def too_few_functions() -> None:
    ta.match(XS, lambda: 0.0)


@CASES.refused(
    DefinitionError,
    "Cons of match at HERE is called as f(head, tail): too many positional arguments.",
    "  in: <lambda>(head)",
    "  hint: write a function of these arguments; several values are one argument, as a "
    "tuple or another tree.",
)
def an_arm_of_other_fields() -> None:
    ta.match(XS, lambda: 0.0, lambda head: head)


@CASES.refused(
    DTypeError,
    "the branches of match at HERE return different dtypes at match.",
    "  in: Nil: number 0.0, Cons: List",
    "  hint: return values of one data type.",
)
def arms_of_other_dtypes() -> None:
    run(lambda xs: ta.match(xs, lambda: 0.0, lambda head, tail: tail), XS)


@CASES.refused(
    DTypeError,
    "the branches of match at HERE return different dtypes at match.",
    "  in: Nil: Pair, Cons: List",
    "  hint: return values of one data type.",
)
def arms_of_other_types() -> None:
    pair = Pair.Both(np.ones(2), {"n": 1})
    run(lambda xs, p: ta.match(xs, lambda: p, lambda head, tail: tail), XS, pair)


@CASES.refused(
    DefinitionError,
    "the branches of match at HERE return different structures: they differ at match[0].",
    "  in:           Nil         Cons",
    "      match[0]  number 0.0  -",
    "      match[1]  number 1.0  -",
    "      match     -           float64 ()",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def arms_of_other_structures() -> None:
    run(lambda xs: ta.match(xs, lambda: (0.0, 1.0), lambda head, tail: head), XS)


@CASES.refused(
    DTypeError,
    "xs of the data type List is no number: it has no elements, and formulas cannot use it.",
    "  hint: take it apart with ta.match: its arms are functions of the fields.",
)
def a_value_in_a_formula() -> None:
    run(lambda xs: xs + 1.0, XS)


@CASES.refused(
    DTypeError,
    "the condition of cond at HERE has dtype List.",
    "  hint: a condition is a bool: compare, e.g. x > 0; ta.switch takes an integer.",
)
def a_value_as_a_condition() -> None:
    run(lambda xs: ta.cond(xs, lambda: 1.0, lambda: 2.0), XS)


@CASES.refused(
    DTypeError,
    "xs of the data type List was given Record.",
    "  hint: pass a value of List.",
)
def an_argument_of_another_type() -> None:
    f = ta.function(lambda xs: ta.match(xs, lambda: 0.0, lambda head, tail: head))
    program = f.trace(XS)
    ta.interpret(program.results[0], {program.parameters[0]: Pair.Both(np.ones(2), {"n": 1})})


# functions that data choose


@CASES.refused(
    DTypeError,
    "cond is a function that data choose, no array.",
    "  hint: call it: cond(x).",
)
def a_function_as_an_array() -> None:
    run(lambda x: ta.cond(x > 0, lambda: lambda y: y, lambda: lambda y: y * x) + 1.0, V)


@CASES.refused(
    DefinitionError,
    "the branches of cond at HERE return different structures: they differ at cond.",
    "  in:       true_fn        false_fn",
    "      cond  function half  number 1.0",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def a_function_beside_a_number() -> None:
    run(lambda x: ta.cond(x > 0, lambda: half, lambda: 1.0)(x), V)


@CASES.refused(
    DefinitionError,
    "the branches of the call of cond at HERE return different structures: they differ at"
    " function.",
    "  in:              half        both",
    "      function     float64 ()  -",
    "      function[0]  -           float64 ()",
    "      function[1]  -           float64 ()",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def functions_of_other_results() -> None:
    run(lambda x: ta.cond(x > 0, lambda: half, lambda: both)(x), V)


@CASES.refused(
    BindError,
    "the arguments do not fit added: missing a required argument: 'z'.",
    "  in: added(y, z)",
    "  hint: call it as it is defined.",
)
def functions_of_other_arguments() -> None:
    run(lambda x: ta.cond(x > 0, lambda: half, lambda: added)(x), V)


@CASES.refused(
    DefinitionError,
    "<lambda> is a function that data choose, which no call returns.",
    "  in: the result of <lambda>",
    "  hint: call it inside, and return what it gives.",
)
def a_function_as_a_result() -> None:
    run(lambda x: ta.cond(x > 0, lambda: ta.exp, lambda: ta.sin), V)


@CASES.refused(
    DefinitionError,
    "the carry of for_loop at HERE changes its structure at f.",
    "  in:    before         after",
    "      f  function half  float64 ()",
    "  hint: return a carry like the one that comes in.",
)
def a_carry_that_becomes_a_number() -> None:
    run(lambda x, n: ta.for_loop(0, n, lambda i, f: f(x), half), V, N)


@CASES.refused(
    DefinitionError,
    "the argument of fn must be a function, got float.",
    "  hint: pass a function, or a lambda.",
)
def no_function() -> None:
    ta.fn(3.0)
