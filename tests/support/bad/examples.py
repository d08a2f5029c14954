"""Bad programs, fifth part: what cannot be mapped over examples."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
X = np.arange(6.0).reshape(3, 2)
POINT = {"w": X, "b": np.ones(2)}
A = ta.placeholder((2,), "float64", name="A")
B = ta.placeholder((), "float64", name="B")


def product(x: Any, y: Any) -> Any:
    return (x * y).sum()


def weighed(p: Any) -> Any:
    return p["w"] * p["b"]


@CASES.refused(
    ShapeError,
    "vmap of product has 3 examples in x along axis 0, but 2 in y along axis 0.",
    "  in: x : float64 (3, 2), y : float64 (2, 3)",
    "  hint: all mapped arguments have as many examples; None in in_axes is for what they share.",
)
def different_numbers_of_examples() -> None:
    ta.vmap(product)(X, X.T)


@CASES.refused(
    ShapeError,
    "axis 1 of y is out of range: it has shape (3,).",
    "  in: vmap of product",
    "  hint: None in in_axes is for what all examples share.",
)
def an_axis_that_is_not_there() -> None:
    ta.vmap(product, (0, 1))(X, np.ones(3))


@CASES.refused(
    ShapeError,
    "axis 0 of y is out of range: it has shape ().",
    "  in: vmap of product",
    "  hint: None in in_axes is for what all examples share.",
)
def a_number_as_examples() -> None:
    ta.vmap(product)(X, 2.0)


@CASES.refused(
    DefinitionError,
    "in_axes[0] of vmap of weighed is {'w': 0, 'c': None}, but p is a dict with ['b'], ['w'].",
    "  hint: axes are numbers and None in a tree like that of what they belong to; a number "
    "stands for all that is below it.",
)
def axes_of_another_structure() -> None:
    ta.vmap(weighed, ({"w": 0, "c": None},))(POINT)


@CASES.refused(
    DefinitionError,
    "in_axes[1] of vmap of product is (0, None), but y is one array.",
    "  hint: axes are numbers and None in a tree like that of what they belong to; a number "
    "stands for all that is below it.",
)
def a_tree_of_axes_for_an_array() -> None:
    ta.vmap(product, (0, (0, None)))(X, X)


@CASES.refused(
    DefinitionError,
    "in_axes of vmap of product is a tuple of 1, but the call has 2 positional arguments.",
    "  in: in_axes=(0,)",
    "  hint: a tuple has an entry for each positional argument: in_axes=(0, None).",
)
def axes_for_another_number_of_arguments() -> None:
    ta.vmap(product, (0,))(X, X)


@CASES.refused(
    DefinitionError,
    "in_axes of vmap of product must be a number, None or a tuple, got 'first'.",
    "  hint: a tuple has an entry for each positional argument: in_axes=(0, None).",
)
def axes_that_are_no_numbers() -> None:
    ta.vmap(product, "first")(X, X)


@CASES.refused(
    DefinitionError,
    "vmap of product maps nothing: no argument goes over examples.",
    "  in: in_axes=None",
    "  hint: give an axis to one argument at least, or call the function itself.",
)
def nothing_to_map() -> None:
    ta.vmap(product, None)(X, X)


@CASES.refused(
    DefinitionError,
    "out_axes of vmap of product is None for product, which differs from example to example.",
    "  in: product : float64 (3,)",
    "  hint: give the number of the axis that the examples are along.",
)
def examples_that_differ_in_a_result_that_should_not() -> None:
    ta.vmap(product, out_axes=None)(X, X)


@CASES.refused(
    ShapeError,
    "axis 1 of out_axes of vmap of product is out of range for product, which has shape (3,) "
    "with all examples.",
    "  hint: use an axis from -1 to 0.",
)
def a_result_without_the_axis() -> None:
    ta.vmap(product, out_axes=1)(X, X)


@CASES.refused(
    DefinitionError,
    "out_axes of vmap of product is (0, 0), but product is one array.",
    "  hint: axes are numbers and None in a tree like that of what they belong to; a number "
    "stands for all that is below it.",
)
def results_of_another_structure() -> None:
    ta.vmap(product, out_axes=(0, 0))(X, X)


@CASES.refused(
    DefinitionError,
    "the first argument of vmap must be a function, got ndarray.",
    "  hint: pass a function, or a lambda.",
)
def no_function_to_map() -> None:
    ta.vmap(X)


@CASES.refused(
    DefinitionError,
    "<lambda> uses x outside of vmap of keeping, where it has no value.",
    "  in: x : float64 (2,)",
    "  hint: return what is needed from the function it belongs to.",
)
def an_example_that_is_used_afterwards() -> None:
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.append(x)
        return x * 2.0

    ta.function(lambda x: (ta.vmap(keeping)(x), kept[-1] + 1.0))(X)


@CASES.refused(
    DefinitionError,
    "batched needs a dict from tensors to tensors with their rows, got an empty one.",
    "  hint: write batched(Y, {X: Xb}) with Xb of shape (rows, *X.shape).",
)
def rows_of_no_tensor() -> None:
    ta.batched(A + B, {})


@CASES.refused(
    DefinitionError,
    "batched maps tensors to tensors, got Tensor and ndarray.",
    "  hint: make a tensor of an array with ta.const(array).",
)
def rows_that_are_arrays() -> None:
    ta.batched(A + B, {B: np.ones(3)})  # type: ignore[dict-item]  # that is the mistake


@CASES.refused(
    ShapeError,
    "the rows of B have shape (3, 2).",
    "  in: B : float64 ()",
    "  hint: their shape is that of the tensor behind one more axis.",
)
def rows_of_another_shape() -> None:
    ta.batched(A + B, {B: ta.placeholder((3, 2), "float64", name="Bs")})


@CASES.refused(
    DTypeError,
    "the rows of B have dtype float32.",
    "  in: B : float64 ()",
    "  hint: convert them: .astype('float64').",
)
def rows_of_another_dtype() -> None:
    ta.batched(A + B, {B: ta.placeholder((3,), "float32", name="Bs")})


@CASES.refused(
    ShapeError,
    "B has 3 rows and A has 4.",
    "  in: (3,) and (4, 2)",
    "  hint: all tensors are mapped together: give them as many rows.",
)
def different_numbers_of_rows() -> None:
    rows = ta.placeholder((4, 2), "float64", name="As")
    ta.batched(A + B, {B: ta.placeholder((3,), "float64", name="Bs"), A: rows})
