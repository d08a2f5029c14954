"""Bad programs, first part: functions, arrays inside of them, branches."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import (
    BindError,
    BoundsError,
    DefinitionError,
    DTypeError,
    ShapeError,
)
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
X = np.ones((2, 3))
LONG = np.ones(17)
ORDER = np.arange(20)
kept: list[Any] = []


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


# functions and their arguments


@CASES.refused(
    DefinitionError,
    "tensor gt has no truth value while a program is traced: its elements are not known yet.",
    "  in: gt : bool () at HERE",
    "  hint: branch with ta.cond and repeat with ta.while_loop (reduce by .all() or .any() "
    "first); choose elements with ta.select(c, a, b); an argument that Python decides by is "
    "static (static_argnames of ta.function).",
)
def python_if() -> None:
    run(lambda x: x if x.sum() > 0 else -x, V)


@CASES.refused(
    DefinitionError,
    "float() or a function of the math module needs a number, but tensor sum is a formula.",
    "  in: sum : float64 () at HERE",
    "  hint: use the functions of tensorad (ta.exp, topi.round, .astype), or compute it with "
    "evaluate.",
)
def python_float() -> None:
    run(lambda x: float(x.sum()), V)


@CASES.refused(
    DefinitionError,
    "the format '.3f' needs a number, but tensor sum is a formula: it has no value yet.",
    "  in: sum : float64 () at HERE",
    "  hint: return it and print what the call gives; without a format its formula is written.",
)
def a_format() -> None:
    run(lambda x: f"{x.sum():.3f}", V)


@CASES.refused(
    DefinitionError,
    "tensor x has no elements for NumPy: it is a formula, not an array.",
    "  in: x : float64 (3,)",
    "  hint: use tensorad's functions of tensors (topi.stack, ta.select); an array that meets "
    "one is a tensor, too: ta.const(array). For its elements, evaluate it.",
)
def numpy_function() -> None:
    run(lambda x: np.asarray(x), V)


@CASES.refused(
    DefinitionError,
    "`in` needs elements, but tensor x is a formula: they are not known yet.",
    "  in: x : float64 (3,)",
    "  hint: compare and reduce: topi.equal(x, value).any().",
)
def membership() -> None:
    run(lambda x: 1.0 in x, V)


@CASES.refused(
    DefinitionError,
    "== of a tensor is about the object, not its elements.",
    "  in: x_item",
    "  hint: compare elements by topi.equal(X, Y), or in a formula, X[i, j] == Y[i, j]; objects "
    "by `is`.",
)
def equality() -> None:
    run(lambda x: ta.cond(x[0] == 1.0, lambda: x, lambda: -x), V)


@CASES.refused(
    BindError,
    "the arguments do not fit <lambda>: too many positional arguments.",
    "  in: <lambda>(x, scale=1.0)",
    "  hint: call it as it is defined.",
)
def an_unfit_call() -> None:
    run(lambda x, scale=1.0: x * scale, V, 2.0, 3.0)


@CASES.refused(
    DefinitionError,
    "<lambda>['all'] is of class set, which is neither an array nor a tree of arrays.",
    "  hint: pass arrays, numbers, tensors, and dicts, lists, tuples or dataclasses of them; "
    "tell how another class is taken apart with ta.register_tree.",
)
def a_result_that_is_no_tree() -> None:
    run(lambda x: {"all": {x}}, V)


@CASES.refused(
    DefinitionError,
    "p['next'][0] is a dict that contains itself.",
    "  hint: a tree ends in arrays and numbers: copy what is meant, or leave it out.",
)
def an_argument_that_contains_itself() -> None:
    tree: dict[str, Any] = {"w": V}
    tree["next"] = [tree]
    run(lambda p: p["w"], tree)


@CASES.refused(
    DTypeError,
    "x = 1e+300 does not fit into float32.",
    "  hint: pass an array of a dtype that holds it.",
)
def a_number_beyond_float32() -> None:
    run(lambda x: x * 1e-300, 1e300)


@CASES.refused(
    DTypeError,
    "p['w'] has dtype float16, which tensors cannot have.",
    "  hint: convert it to bool, an integer, float32 or float64; a string or a function is "
    "passed as it is.",
)
def a_dtype_without_tensors() -> None:
    run(lambda p: p["w"], {"w": V.astype("float16")})


@CASES.refused(
    BindError,
    "argument x must be an array, got MaskedArray.",
    "  in: x : float64 (3,)",
    "  hint: its mask would be lost: pass x.filled(value).",
)
def a_masked_array() -> None:
    run(lambda x: x, np.ma.masked_array(V, V > 1))


@CASES.refused(
    DefinitionError,
    "the flatten of Net must return (children, what else it has), got [array([0., 1., 2.])].",
    "  in: net",
    "  hint: children are a tuple or a list; return ((x.a, x.b), None) where there is nothing "
    "else.",
)
def a_flatten_of_another_form() -> None:
    class Net:
        pass

    ta.register_tree(Net, lambda net: [V], lambda meta, children: Net())
    run(lambda net: 1.0, Net())


@CASES.refused(
    DefinitionError,
    "<lambda> uses x outside of <lambda>, where it has no value.",
    "  in: x : float64 (3,)",
    "  hint: return what is needed from the function it belongs to.",
)
def a_tensor_of_another_trace() -> None:
    kept.clear()
    run(lambda x: (kept.append(x * 2.0), x)[1], V)
    run(lambda y: y + kept[0], V)


# arrays inside of them


@CASES.refused(
    DefinitionError,
    "tensor x cannot be assigned to: tensors are defined once.",
    "  hint: make a new tensor: x = x.at[...].set(value).",
)
def an_assignment() -> None:
    def first_is_one(x: Any) -> Any:
        x[0] = 1.0
        return x

    run(first_is_one, V)


@CASES.refused(
    DefinitionError,
    "<lambda> names places of x, but not what is put there.",
    "  in: x.at[...]",
    "  hint: write x.at[i].set(value), or add, mul, min, max.",
)
def places_without_values() -> None:
    run(lambda x: x.at[0], V)


@CASES.refused(
    ShapeError,
    "x.at[...].set: values of shape (3,) do not broadcast to the selected (2,).",
    "  in: x with shape (3,)",
    "  hint: trailing axes must be equal or 1; reshape the values first.",
)
def values_of_another_shape() -> None:
    run(lambda x: x.at[0:2].set(np.ones(3)), V)


@CASES.refused(
    DTypeError,
    "n.at[...].set: values of float32 do not fit into n of int64.",
    "  hint: convert one of them: value.astype('int64'), or the tensor.",
)
def values_of_another_dtype() -> None:
    run(lambda n: n.at[0].set(1.5), np.arange(3))


@CASES.refused(
    BoundsError,
    "index 7 is outside of axis 0 of x, whose extent is 3.",
    "  in: x with shape (3,)",
    "  hint: use an index from -3 to 2.",
)
def a_place_outside() -> None:
    run(lambda x: x.at[7].set(1.0), V)


@CASES.refused(
    DefinitionError,
    "index 0 of x is a boolean mask: how many elements it selects depends on its values.",
    "  in: x with shape (3,)",
    "  hint: choose elements with ta.select(mask, x, other), which keeps the shape, or give the "
    "positions: np.nonzero(mask) of an array.",
)
def a_mask() -> None:
    run(lambda x: x[x > 0].sum(), V)


@CASES.refused(
    DefinitionError,
    "a bound of the slice at index 0 of x depends on data.",
    "  in: x with shape (3,)",
    "  hint: bounds are integers and sizes, counters included; from a place that is data, a "
    "fixed number of elements is x[place + topi.arange(count)].",
)
def a_bound_that_is_data() -> None:
    run(lambda x, n: x[:n].sum(), V, 2)


@CASES.refused(
    ShapeError,
    "add: shapes (2, 3) and (2,) do not broadcast.",
    "  in: x (2, 3), b (2,)",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def operands_that_do_not_broadcast() -> None:
    run(lambda x, b: x + b, X, np.ones(2))


@CASES.refused(
    ShapeError,
    "@ contracts axes of different extents 3 and 2.",
    "  in: x (2, 3) @ w (2, 3)",
    "  hint: transpose one operand.",
)
def a_product_of_wrong_extents() -> None:
    run(lambda x, w: x @ w, X, X)


# branches


@CASES.refused(
    DefinitionError,
    "the branches of cond at HERE return different structures: they differ at cond['n'].",
    "  in:            true_fn       false_fn",
    "      cond['a']  float64 (3,)  float64 (3,)",
    "      cond['n']  number 1      -",
    "      cond['m']  -             number 1",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def branches_of_other_keys() -> None:
    run(lambda x: ta.cond(x.sum() > 0, lambda: {"a": x, "n": 1}, lambda: {"a": x, "m": 1}), V)


@CASES.refused(
    DefinitionError,
    "the branches of cond at HERE return different structures: they differ at cond.",
    "  in:       true_fn       false_fn",
    "      cond  float64 (3,)  None",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def a_branch_that_returns_nothing() -> None:
    run(lambda x: ta.cond(x.sum() > 0, lambda: x, lambda: print(end="")), V)


@CASES.refused(
    DTypeError,
    "the branches of cond at HERE return different dtypes at cond[0].",
    "  in: true_fn: float32 (3,), false_fn: float64 (3,)",
    "  hint: convert one with .astype(dtype).",
)
def branches_of_other_dtypes() -> None:
    run(lambda x: ta.cond(x.sum() > 0, lambda: [x], lambda: [V]), V.astype("float32"))


@CASES.refused(
    DefinitionError,
    "true_fn of cond at HERE is called as f(operand_0): missing a required argument: 'b'.",
    "  in: <lambda>(a, b)",
    "  hint: write a function of these arguments; several values are one argument, as a tuple "
    "or another tree.",
)
def a_branch_of_other_parameters() -> None:
    run(lambda x: ta.cond(x.sum() > 0, lambda a, b: a, lambda a: a, x), V)


@CASES.refused(
    DefinitionError,
    "true_fn of cond at HERE must be a function, got Tensor.",
    "  hint: pass a function, or a lambda.",
)
def values_in_the_place_of_branches() -> None:
    run(lambda x: ta.cond(x.sum() > 0, x, -x), V)


@CASES.refused(
    DefinitionError,
    "the branches of switch at HERE must be a list of functions, got a dict.",
    "  hint: pass one function for each value of the index, from 0 on.",
)
def branches_by_key() -> None:
    run(lambda x, n: ta.switch(n, {0: lambda: x, 1: lambda: -x}), V, 1)
