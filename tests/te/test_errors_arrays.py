"""Arrays and lists where a formula cannot take them: each refused with one whole text."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, NoValueError, ShapeError
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")

CASES = Refusals()


@CASES.refused(
    DTypeError,
    "an array of shape (3, 2) cannot be combined with one element of a formula.",
    "  hint: make a tensor of it, A = ta.const(array), and read A[i, j].",
)
def an_array_beside_an_element() -> None:
    ta.compute((3,), lambda i: np.ones((3, 2)) * V[i], name="Y")


@CASES.refused(
    DefinitionError,
    "NumPy works on arrays, but this is an expression of the formula.",
    "  in: i + 1",
    "  hint: an array that is read there is a tensor, A = ta.const(array), A[i + 1].",
)
def an_array_read_at_an_index_of_the_formula() -> None:
    ta.compute((3,), lambda i: np.arange(5)[i + 1] * V[i], name="Y")


@CASES.refused(
    DefinitionError,
    "a Python index or range() needs a number, but this is an expression of the formula.",
    "  in: i",
    "  hint: sum over a reduce_axis instead of a range; a list that is read there is a tensor, "
    "A = ta.const(list), A[i].",
)
def a_list_read_at_an_index_of_the_formula() -> None:
    ta.compute((3,), lambda i: [1, 2, 3][i] * V[i], name="Y")


@CASES.refused(
    DefinitionError,
    "NumPy works on arrays, but this is an expression of the formula.",
    "  in: V[0]",
    "  hint: an array that is read there is a tensor, A = ta.const(array), A[V[0]].",
)
def an_array_of_an_expression() -> None:
    np.asarray(V[0])


@CASES.refused(
    DefinitionError,
    "tensor V has no elements for NumPy: it is a formula, not an array.",
    "  in: V : float32 (10,)",
    "  hint: use tensorad's functions of tensors (topi.stack, ta.select); an array that meets "
    "one is a tensor, too: ta.const(array). For its elements, evaluate it.",
)
def an_array_of_a_tensor() -> None:
    np.asarray(V)


@CASES.refused(
    DefinitionError,
    "@ needs two tensors, got list on the left.",
    "  hint: make a tensor of a list with ta.const(list).",
)
def a_list_times_a_matrix() -> None:
    [1.0, 2.0, 3.0] @ X


@CASES.refused(
    DTypeError,
    "dtype 'complex128' is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def an_array_of_complex_numbers() -> None:
    V * np.array([1j])


@CASES.refused(
    ShapeError,
    "mul: shapes (5,) and (3, 4) do not broadcast.",
    "  in: const (5,), X (3, 4)",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def an_array_of_another_shape() -> None:
    np.ones(5) * X


@CASES.refused(
    DefinitionError,
    "np.add.reduce works on arrays, but this is a formula.",
    "  in: X",
    "  hint: reduce whole tensors by topi (topi.sum), elements over a reduce_axis (ta.sum).",
)
def a_sum_by_numpy() -> None:
    np.add.reduce(X)


@CASES.refused(
    DefinitionError,
    "np.hypot is no function of formulas.",
    "  in: V[0]",
    "  hint: write ta.sqrt(a * a + b * b).",
)
def a_function_of_numpy_alone() -> None:
    np.hypot(V[0], 1.0)


@CASES.refused(
    DefinitionError,
    "np.add of a formula takes its operands alone, not out.",
    "  in: V",
    "  hint: formulas are not written into arrays: a = a + X, not a += X.",
)
def a_tensor_added_to_an_array_in_place() -> None:
    total = np.zeros(10)
    total += V


@CASES.refused(
    DefinitionError,
    "== of a tensor is about the object, not its elements.",
    "  in: V",
    "  hint: compare elements by topi.equal(X, Y), or in a formula, X[i, j] == Y[i, j].",
)
def a_tensor_compared_with_an_array() -> None:
    bool(np.arange(10) == V)


@CASES.refused(
    DefinitionError,
    "float() or a function of the math module needs a number, but tensor V is a formula.",
    "  in: V : float32 (10,)",
    "  hint: use the functions of tensorad (ta.exp, topi.round, .astype), or compute it with "
    "evaluate.",
)
def a_function_of_the_math_module_on_a_tensor() -> None:
    math.sin(V)


@CASES.refused(
    DefinitionError,
    "int() needs a number, but tensor V is a formula.",
    "  in: V : float32 (10,)",
    "  hint: use the functions of tensorad (ta.exp, topi.round, .astype), or compute it with "
    "evaluate.",
)
def a_tensor_as_integer() -> None:
    int(V)


@CASES.refused(
    NoValueError,
    "round() needs a number, but this is an expression of the formula.",
    "  in: V[0]",
    "  hint: use the functions of tensorad (ta.exp, ta.round, .astype) inside a formula.",
)
def an_element_rounded_by_python() -> None:
    round(V[0])


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
