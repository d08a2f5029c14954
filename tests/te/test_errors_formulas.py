"""Bad indices and operators inside a formula: each refused with one whole text."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, NoValueError, ShapeError
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")
T = ta.placeholder((10,), "int32", name="T")
k = ta.reduce_axis(4, name="k")

CASES = Refusals()


@CASES.refused(
    ShapeError,
    "X has 2 axes, but 1 index was given.",
    "  in: X[i] with shape (3, 4)",
    "  hint: give one index per axis, e.g. X[i, j].",
)
def too_few_indices() -> None:
    ta.compute((3,), lambda i: X[i], name="Y")


@CASES.refused(
    DTypeError,
    "index 1 of X must be an integer, got float32.",
    "  in: X[..., 0.5, ...]",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_float_index() -> None:
    ta.compute((3,), lambda i: X[i, 0.5], name="Y")


@CASES.refused(
    DTypeError,
    "index 1 of X must be an integer, got float64.",
    "  in: X[..., float64(i)/2.0, ...]",
    "  hint: use // for integer division, or .astype('int64').",
)
def an_index_by_true_division() -> None:
    ta.compute((3,), lambda i: X[i, i / 2], name="Y")


@CASES.refused(
    DTypeError,
    "index 1 of X must be an integer, got bool.",
    "  in: X[..., i > 0, ...]",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_bool_index() -> None:
    ta.compute((3,), lambda i: X[i, i > 0], name="Y")


@CASES.refused(
    DefinitionError,
    "index 1 of X is a slice; a formula reads one element.",
    "  in: X with shape (3, 4)",
    "  hint: define a new tensor over the slice, e.g. compute((n,), lambda i: X[i + start]).",
)
def a_slice() -> None:
    ta.compute((3,), lambda i: X[i, :], name="Y")


@CASES.refused(
    DTypeError,
    "index 1 of X must be an integer, got float32.",
    "  in: X[..., V[i], ...]",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_float_read_as_index() -> None:
    ta.compute((3,), lambda i: X[i, V[i]], name="Y")


@CASES.refused(
    ShapeError,
    "X has 2 axes, but 3 indices were given.",
    "  in: X[i, 0, 0] with shape (3, 4)",
    "  hint: give one index per axis, e.g. X[i, j].",
)
def too_many_indices() -> None:
    ta.compute((3,), lambda i: X[i, 0, 0], name="Y")


@CASES.refused(
    DTypeError,
    "index 0 of V must be an integer, got str.",
    "  in: V[a]",
    "  hint: use // for integer division, or .astype('int64').",
)
def text_as_index() -> None:
    ta.compute((3,), lambda i: V["a"], name="Y")


@CASES.refused(
    DTypeError,
    "index 0 of V must be an integer, got ndarray.",
    "  in: V[[0 1 2]]",
    "  hint: make a tensor of the indices, A = ta.const(array), and read V[A[i]].",
)
def an_array_as_index() -> None:
    ta.compute((3,), lambda i: V[np.arange(3)], name="Y")


@CASES.refused(
    NoValueError,
    "an expression has no truth value while the formula is being written.",
    "  in: i > 0",
    "  hint: use select(cond, a, b) instead of if, and &, |, ~ instead of and, or, not; "
    "write a chained comparison as (a < b) & (b < c); a program branches with ta.cond.",
)
def python_if() -> None:
    ta.compute((3,), lambda i: X[i, 0] if i > 0 else 0, name="Y")


@CASES.refused(
    NoValueError,
    "an expression has no truth value while the formula is being written.",
    "  in: i > 0",
    "  hint: use select(cond, a, b) instead of if, and &, |, ~ instead of and, or, not; "
    "write a chained comparison as (a < b) & (b < c); a program branches with ta.cond.",
)
def python_and() -> None:
    ta.compute((3,), lambda i: (i > 0) and X[i, 0], name="Y")


@CASES.refused(
    NoValueError,
    "an expression has no truth value while the formula is being written.",
    "  in: i > 0",
    "  hint: use select(cond, a, b) instead of if, and &, |, ~ instead of and, or, not; "
    "write a chained comparison as (a < b) & (b < c); a program branches with ta.cond.",
)
def a_chained_comparison() -> None:
    ta.compute((3,), lambda i: 0 < i < 2, name="Y")


@CASES.refused(
    NoValueError,
    "float() or a function of the math module needs a number, but this is an expression "
    "of the formula.",
    "  in: X[i, 0]",
    "  hint: use the functions of tensorad (ta.exp, ta.round, .astype) inside a formula.",
)
def a_function_of_math() -> None:
    ta.compute((3,), lambda i: math.sin(X[i, 0]), name="Y")


@CASES.refused(
    NoValueError,
    "int() needs a number, but this is an expression of the formula.",
    "  in: X[i, 0]",
    "  hint: use the functions of tensorad (ta.exp, ta.round, .astype) inside a formula.",
)
def python_int() -> None:
    ta.compute((3,), lambda i: int(X[i, 0]), name="Y")


@CASES.refused(
    DefinitionError,
    "tensor V cannot be iterated over: it is a formula, not an array.",
    "  hint: read elements with indices, X[i, j], or sum over a reduce_axis.",
)
def python_sum_of_a_tensor() -> None:
    ta.compute((3,), lambda i: sum(V), name="Y")


@CASES.refused(
    DefinitionError,
    "a Python index or range() needs a number, but this is an expression of the formula.",
    "  in: i",
    "  hint: sum over a reduce_axis instead of a range; a list that is read there is a tensor, "
    "A = ta.const(list), A[i].",
)
def python_range_of_an_axis() -> None:
    ta.compute((3,), lambda i: sum(V[j] for j in range(i)), name="Y")


@CASES.refused(
    DefinitionError,
    "an operand of exp must be an expression, got None.",
    "  hint: return the formula: a def needs a return statement.",
)
def none_as_operand() -> None:
    ta.compute((3,), lambda i: ta.exp(None), name="Y")


@CASES.refused(
    DefinitionError,
    "an operand of exp must be an expression, got ndarray.",
    "  hint: make a tensor of it, A = ta.const(array), and read A[i].",
)
def an_array_as_operand() -> None:
    ta.compute((3,), lambda i: ta.exp(np.ones(3)), name="Y")


@CASES.refused(
    DTypeError,
    "the condition of select must be boolean, got float32.",
    "  in: V[i]",
    "  hint: compare it with something, e.g. x != 0.",
)
def select_on_a_number() -> None:
    ta.compute((3,), lambda i: ta.select(V[i], 1, 0), name="Y")


@CASES.refused(
    DefinitionError,
    "the first branch of select must be an expression, got None.",
    "  hint: return the formula: a def needs a return statement.",
)
def none_as_branch() -> None:
    ta.compute((3,), lambda i: ta.select(i > 0, None, 0), name="Y")


@CASES.refused(
    DefinitionError,
    "select: a whole tensor cannot be combined with an expression of one index.",
    "  in: i > 0",
    "  hint: read the tensor at indices, X[i, j], inside compute.",
)
def a_whole_tensor_as_branch() -> None:
    ta.compute((3,), lambda i: ta.select(i > 0, X, 0), name="Y")


@CASES.refused(
    DTypeError,
    "a condition must be boolean, got float32.",
    "  in: V[i]",
    "  hint: compare it with something, e.g. x != 0.",
)
def conjunction_of_numbers() -> None:
    ta.compute((3,), lambda i: ta.sum(V[i] & V[i], axis=k), name="Y")


@CASES.refused(
    DTypeError,
    "~ works on conditions, not on float32.",
    "  in: V[i]",
    "  hint: compare it with something, e.g. x != 0.",
)
def negation_of_a_number() -> None:
    ta.compute((3,), lambda i: ~V[i], name="Y")


@CASES.refused(
    DTypeError,
    "// works on integers, not on float32.",
    "  in: (V[i] // 2.0)",
    "  hint: write floor(x / y) or x - y*floor(x / y).",
)
def floor_division_of_floats() -> None:
    ta.compute((3,), lambda i: V[i] // 2, name="Y")


@CASES.refused(
    DefinitionError,
    "integer // by the constant 0.",
    "  in: (i // 0)",
    "  hint: divide by a nonzero integer.",
)
def division_by_zero() -> None:
    ta.compute((3,), lambda i: i // 0, name="Y")


@CASES.refused(
    DTypeError,
    "an integer cannot be raised to the negative power -1.",
    "  hint: convert the base to a float first: x.astype('float32').",
)
def a_negative_power_of_an_integer() -> None:
    ta.compute((3,), lambda i: i**-1, name="Y")


@CASES.refused(
    DefinitionError,
    "i*2305843009213693952 leaves the range of int64, and it is divided, compared or used as an "
    "index.",
    "  in: the body of Y\n"
    "  hint: make its numbers smaller; arithmetic that is to wrap needs data as operand.",
)
def arithmetic_of_axes_beyond_int64() -> None:
    ta.compute((5,), lambda i: (i * (1 << 61)) // 3, name="Y")


@CASES.refused(
    DefinitionError,
    "(i//2*1073741824 + 1)*1073741824*30 leaves the range of int64, and it is divided, compared or "
    "used as an index.",
    "  in: the body of Y\n"
    "  hint: make its numbers smaller; arithmetic that is to wrap needs data as operand.",
)
def factors_that_are_large_together() -> None:
    ta.compute((5,), lambda i: ((i // 2 * (1 << 30) + 1) * (1 << 30) * 30) // 7, name="Y")


@CASES.refused(
    DTypeError,
    "the number 300 does not fit into uint8.",
    "  hint: convert the other operand first, e.g. x.astype('int64').",
)
def a_number_too_large_for_the_dtype() -> None:
    ta.compute((3,), lambda i: T[i].astype("uint8") + 300, name="Y")


@CASES.refused(
    DefinitionError,
    "tensor V cannot be assigned to: tensors are defined once.",
    "  hint: define a new tensor with compute, or use scatter.",
)
def assignment_to_a_tensor() -> None:
    V[0] = 3


@CASES.refused(
    DefinitionError,
    "tensor V cannot be iterated over: it is a formula, not an array.",
    "  hint: read elements with indices, X[i, j], or sum over a reduce_axis.",
)
def len_of_a_tensor() -> None:
    len(V)


@CASES.refused(
    DefinitionError,
    "tensor V has no truth value: it is a formula, not an array.",
    "  hint: compare tensors with `is`; build conditions with select, &, | and ~.",
)
def truth_of_a_tensor() -> None:
    bool(V)


@CASES.refused(
    DTypeError,
    "complex cannot stand in a formula: 1j.",
    "  hint: use expressions, Python numbers, or read a tensor at indices: X[i, j].",
)
def a_complex_number() -> None:
    ta.compute((3,), lambda i: V[i] + 1j, name="Y")


@CASES.refused(
    DTypeError,
    "str cannot stand in a formula: 'a'.",
    "  hint: use expressions, Python numbers, or read a tensor at indices: X[i, j].",
)
def text_as_operand() -> None:
    ta.compute((3,), lambda i: V[i] + "a", name="Y")


@CASES.refused(
    DefinitionError,
    "add: a whole tensor cannot be combined with an expression of one index.",
    "  in: V[i]",
    "  hint: read the tensor at indices, X[i, j], inside compute.",
)
def a_tensor_plus_an_element() -> None:
    ta.compute((3,), lambda i: V[i] + X, name="Y")


@CASES.refused(
    ShapeError,
    "add: shapes (3, 4) and (10,) do not broadcast.",
    "  in: X (3, 4), V (10,)",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def shapes_that_do_not_broadcast() -> None:
    X + V


@CASES.refused(
    ShapeError,
    "@ contracts axes of different extents 4 and 10.",
    "  in: X (3, 4) @ V (10,)",
    "  hint: transpose one operand.",
)
def extents_that_do_not_contract() -> None:
    X @ V


@CASES.refused(
    DTypeError,
    "operand 0 of all_of must be a condition, got float32.",
    "  in: V[0]",
    "  hint: compare it with something, e.g. x != 0.",
)
def all_of_numbers() -> None:
    ta.all_of(V[0], k > 0)


@CASES.refused(
    DefinitionError,
    "any_of over axes takes one condition and axis=..., got 2 conditions.",
    "  hint: join conditions first: any_of(any_of(a, b), axis=k).",
)
def two_conditions_over_an_axis() -> None:
    ta.any_of(k > 0, k > 1, axis=k)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
