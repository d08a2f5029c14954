"""Bad programs, fourth part: modules, their gradients and texts, and what the tools refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import (
    BindError,
    BoundsError,
    BuildError,
    DefinitionError,
    DTypeError,
    GradError,
    ProgramTextError,
    ShapeError,
)
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
ROW = ta.placeholder((3,), "float64", name="row")
TABLE = ta.placeholder((3, 3), "float64", name="table")


def apply(x: Any = ROW, w: Any = TABLE) -> Any:
    return w @ x


def loss(x: Any = ROW, w: Any = TABLE, n: Any = 2) -> Any:
    y = w @ x
    return (y * y).sum() * n


def parts(x: Any = ROW) -> Any:
    return x.sum(), x * 2.0, 3


MODULE = ta.module(apply, loss, parts)
TEXT = """\
def f(x : float64[3], n : int64[]) -> float64[]:
  c : float64[] = 0.0
  p : bool[] = n > 0
  s : float64[] = loop t in [0, 3) carry (e = c) scan (r = x):
    a : float64[] = e + r
    yield a
  d : float64[] = branch p (s):
  case 0:
    b : float64[] = s*2.0
    yield b
  case 1:
    g : float64[] = s*3.0
    yield g
  return d
"""


def text(before: str, after: str) -> ta.Module:
    """The program with a mistake."""
    assert TEXT.count(before) == 1, "what is replaced is there once"
    return ta.module(TEXT.replace(before, after))


# modules and gradients


@CASES.refused(
    ProgramTextError,
    "the elements of table are not in the text.",
    "  in: line 1, column 10: constant table : float64[2, 3]",
    '  hint: give them: ta.module(text, constants={"table": array}).',
)
def a_constant_without_elements() -> None:
    ta.module("constant table : float64[2, 3]\n" + TEXT)


@CASES.refused(
    DTypeError,
    "places: an array of float64 does not fit into int64.",
    "  hint: convert it first: array.astype('int64').",
)
def a_constant_that_would_be_cut() -> None:
    ta.module("constant places : int64[2]\n" + TEXT, constants={"places": [0.5, 1.5]})


@CASES.refused(
    DefinitionError,
    "no text has a constant called tables.",
    "  in: ta.module(..., constants=...)",
    "  hint: they are called table.",
)
def a_constant_of_another_name() -> None:
    given = {"table": np.ones((2, 3)), "tables": np.ones((2, 3))}
    ta.module("constant table : float64[2, 3]\n" + TEXT, constants=given)


@CASES.refused(
    DefinitionError,
    "module takes functions, traces, texts and other modules, got int.",
    "  hint: write ta.module(f), with f a ta.function or any callable.",
)
def a_number_for_a_module() -> None:
    ta.module(3)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    ShapeError,
    "argument x has shape (4,), expected (3,).",
    "  in: x : float64 (3,)",
    "  hint: pass an array of this shape; nothing is broadcast.",
)
def an_argument_of_another_shape() -> None:
    MODULE["apply"](np.ones(4), np.ones((3, 3)))


@CASES.refused(
    BindError,
    "apply takes its arguments by position, got x, w by name.",
    "  in: apply(x, w)",
    "  hint: call it with a value for each parameter, by position.",
)
def an_argument_by_name() -> None:
    MODULE["apply"](x=V, w=np.ones((3, 3)))


@CASES.refused(
    DTypeError,
    "argument n has dtype float64, which int64 cannot hold exactly.",
    "  in: n : int64 ()",
    "  hint: convert it first if that is meant: x.astype('int64').",
)
def a_float_for_an_integer() -> None:
    MODULE["loss"](V, np.ones((3, 3)), 2.5)


@CASES.refused(
    DefinitionError,
    "<lambda> uses the placeholder table, which has no value in a call.",
    "  in: table : float64 (3, 3)",
    "  hint: make it an argument of <lambda>, or use an array in its place.",
)
def a_placeholder_from_outside() -> None:
    ta.module(ta.function(lambda x=ROW: x + TABLE[0, 0]))


@CASES.refused(
    DefinitionError,
    "gradient takes a module, got function.",
    "  hint: write ta.gradient(ta.module(f), 'f'); ta.grad(f) takes a function.",
)
def a_gradient_of_a_function() -> None:
    ta.gradient(loss, "loss")  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "the module has no function lost.",
    "  hint: its functions are apply, loss, parts.",
)
def a_function_that_is_not_there() -> None:
    ta.gradient(MODULE, "lost")


@CASES.refused(
    ShapeError,
    "apply returns float64[3], which is no float without axes.",
    "  in: gradient of apply",
    "  hint: give a cotangent: a tree of arrays like it, or the name of a parameter for it; or "
    "let the function return its sum.",
)
def a_target_with_axes() -> None:
    ta.gradient(MODULE, "apply")


@CASES.refused(
    ShapeError,
    "parts returns float64[3], which is no float without axes.",
    "  in: gradient of parts",
    "  hint: give a cotangent: a tree of arrays like it, or the name of a parameter for it; or "
    "let the function return its sum.",
)
def a_field_with_axes() -> None:
    ta.gradient(MODULE, "parts", target_index=1)


@CASES.refused(
    ShapeError,
    "parts returns (float64[], float64[3], int64[]), which is no float without axes.",
    "  in: gradient of parts",
    "  hint: choose a field that is one with target_index, or give a cotangent: a tree of "
    "arrays like it, or the name of a parameter for it; or let the function return its sum.",
)
def a_target_of_several() -> None:
    ta.gradient(MODULE, "parts")


@CASES.refused(
    DTypeError,
    "parts returns int64[]: integers and booleans have no derivative.",
    "  in: gradient of parts",
    "  hint: convert the target to a float.",
)
def a_field_of_integers() -> None:
    ta.gradient(MODULE, "parts", target_index=2)


@CASES.refused(
    GradError,
    "parts returns 3 fields, there is no field 7.",
    "  in: gradient of parts, target_index=7",
    "  hint: fields are counted from 0.",
)
def a_field_that_is_not_there() -> None:
    ta.gradient(MODULE, "parts", target_index=7)


@CASES.refused(
    GradError,
    "loss has no parameter or other value called z.",
    "  in: gradient of loss, require_grads=['x', 'z']",
    "  hint: its parameters are x, w, n; values inside of branches and loops have no adjoints "
    "of their own.",
)
def a_value_that_is_not_there() -> None:
    ta.gradient(MODULE, "loss", require_grads=["x", "z"])


@CASES.refused(
    GradError,
    "require_grads is of class int.",
    "  in: gradient of loss, require_grads=0",
    "  hint: pass a name, or a list of names.",
)
def a_position_for_a_name() -> None:
    ta.gradient(MODULE, "loss", require_grads=0)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DTypeError,
    "cannot differentiate loss by n of type int64[]: integers and booleans have no derivative.",
    "  in: gradient of loss, require_grads='n'",
    "  hint: leave it out of require_grads.",
)
def an_integer_by_name() -> None:
    ta.gradient(MODULE, "loss", require_grads="n")


@CASES.refused(
    ShapeError,
    "the cotangent of gradient of apply has shape (4,), but what it belongs to has shape (3,).",
    "  in: cotangent : float64 (4,)",
    "  hint: a cotangent has the shape of its array.",
)
def a_cotangent_of_another_shape() -> None:
    ta.gradient(MODULE, "apply", cotangent=np.ones(4))


@CASES.refused(
    GradError,
    "a cotangent has arrays and numbers, no tensors.",
    "  in: gradient of apply",
    '  hint: name a parameter for it, cotangent="head".',
)
def a_tensor_for_a_cotangent() -> None:
    ta.gradient(MODULE, "apply", cotangent=ROW)


@CASES.refused(
    DefinitionError,
    "the module has a function loss_adjoint already.",
    "  in: gradient of loss",
    "  hint: take the gradient of a module without it; the derivative of loss_adjoint is called "
    "loss_adjoint_adjoint.",
)
def the_same_gradient_twice() -> None:
    ta.gradient(ta.gradient(MODULE, "loss"), "loss")


# texts


@CASES.refused(
    ProgramTextError,
    "undefined name q.",
    "  in: line 5, column 25: a : float64[] = e + q",
    "  hint: names here are e, r.",
)
def an_undefined_name() -> None:
    text("e + r", "e + q")


@CASES.refused(
    ProgramTextError,
    "undefined name b.",
    "  in: line 12, column 21: g : float64[] = b*3.0",
    "  hint: names here are s.",
)
def a_name_of_another_block() -> None:
    text("s*3.0", "b*3.0")


@CASES.refused(
    ProgramTextError,
    "expected 'def', 'define', 'type', 'constant', 'combiner' or 'function', found 'y'.",
    "  in: line 1, column 1: y = f(x)",
    "  hint: the grammar of programs is in tensorad/ir/text/README.md.",
)
def no_program() -> None:
    ta.module("y = f(x)")


@CASES.refused(
    BoundsError,
    "x is read at index 3 of axis 0, which has extent 3.",
    "  in: x[3] in y at line 2",
    "  hint: the index comes from sizes and counters of this call: correct it, or clamp it in "
    "the formula with minimum and maximum.",
)
def a_read_outside_that_a_call_finds() -> None:
    ta.module("def f(x : float64[3]) -> float64[]:\n  y : float64[] = x[3]\n  return y\n")["f"](V)


# tools


@CASES.refused(
    BindError,
    "an example of a call of parts has a tensor in it: x.",
    "  hint: pass arrays and numbers; or call the function with tensors and pass the tensors "
    "that it returns.",
)
def work_of_tensors() -> None:
    ta.work(parts, ROW)


@CASES.refused(
    BindError,
    "the arguments do not fit <lambda>: missing a required argument: 'w'.",
    "  in: <lambda>(x, w)",
    "  hint: call it as it is defined.",
)
def an_example_that_is_missing() -> None:
    ta.lower(lambda x, w: x @ w, V)


@CASES.refused(
    GradError,
    "explain tells how a gradient was made and how sums of products were ordered, but no result "
    "of <lambda> is one or has any.",
    "  in: mul : float64 (3,)",
    "  hint: pass ta.grad(f) or another derivative in place of f.",
)
def an_explanation_of_values() -> None:
    ta.explain(lambda x: x * 2.0, V)


@CASES.refused(
    BuildError,
    "output 0 is not a tensor but function.",
    "  hint: ta.function(f) compiles functions of arrays; or call f with placeholders.",
)
def a_build_of_a_function() -> None:
    ta.build(parts, [ROW])  # type: ignore[call-overload]  # the mistake


@CASES.refused(
    DefinitionError,
    "Net is registered as a tree already.",
    "  hint: register a class once.",
)
def a_class_registered_twice() -> None:
    class Net:
        pass

    for _ in range(2):
        ta.register_tree(Net, lambda net: ((), None), lambda meta, children: Net())


@CASES.refused(
    DefinitionError,
    "<lambda> has no parameter mode.",
    "  in: static_argnames=('mode',)",
    "  hint: its parameters are x.",
)
def an_unknown_static_argument() -> None:
    ta.function(lambda x: x, static_argnames=["mode"])
