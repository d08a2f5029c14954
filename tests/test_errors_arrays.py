"""Arrays and lists where a formula cannot take them: each refused with one whole text."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.refusals import Case, Refusals, check

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
    "  hint: an array that is read there is a tensor, A = ta.const(array), A[i + 1]; use the "
    "functions of tensorad (ta.exp) on expressions.",
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
    "  hint: an array that is read there is a tensor, A = ta.const(array), A[V[0]]; use the "
    "functions of tensorad (ta.exp) on expressions.",
)
def an_array_of_an_expression() -> None:
    np.asarray(V[0])


@CASES.refused(
    DefinitionError,
    "tensor V has no elements for NumPy: it is a formula, not an array.",
    "  hint: compute it with evaluate, or make a tensor of the array: ta.const(array).",
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
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def an_array_of_another_shape() -> None:
    np.ones(5) * X


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
