"""What NumPy's functions of whole arrays say where tensors have no such thing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.topi.as_numpy import arguments
from tests.support.refusals import Refusals, check

X: Final = ta.placeholder((3, 4), "float64", name="X")
S: Final = ta.placeholder((1, 3, 1), "float64", name="S")
B: Final = ta.placeholder((3, 4), "bool", name="B")
N: Final = ta.placeholder((2, 2), "int64", name="N")
REFUSED: Final = Refusals()
refused = REFUSED.refused


@refused(
    DefinitionError,
    "np.sort is no function of tensors.",
    "  in: X",
    "  hint: write it with topi or as a formula (ta.compute), or let a program call NumPy: "
    "ta.foreign(np.sort, shapes).",
)
def no_counterpart() -> None:
    np.sort(X)


@refused(
    DefinitionError,
    "np.linalg.norm is no function of tensors.",
    "  in: X",
    "  hint: write topi.sqrt(topi.sum(X * X)).",
)
def of_a_module() -> None:
    np.linalg.norm(X)


@refused(
    DefinitionError,
    "np.sum of a formula takes no initial.",
    "  in: X",
    "  hint: put it in afterwards: np.sum(X) + initial.",
)
def an_argument_without_meaning() -> None:
    np.sum(X, initial=1.0)


@refused(
    DefinitionError,
    "np.where of a formula: missing a required argument: 'x'.",
    "  in: B",
    "  hint: it takes condition, x, y here.",
)
def places_that_data_choose() -> None:
    np.where(B)


@refused(
    DefinitionError,
    "np.cumsum of a formula has no out: a formula is written into no array.",
    "  in: X",
    "  hint: use what is returned: y = np.cumsum(...).",
)
def written_into_an_array() -> None:
    np.cumsum(X, axis=1, out=np.empty((3, 4)))


@refused(
    DefinitionError,
    "np.sum works on arrays, but this is an element of a formula.",
    "  in: X[i, j]",
    "  hint: fold it over a reduce axis: ta.sum(x, axis=k).",
)
def a_fold_of_one_element() -> None:
    ta.compute((3, 4), lambda i, j: np.sum(X[i, j]))


@refused(
    DefinitionError,
    "np.sort works on arrays, but this is an element of a formula.",
    "  in: X[i, j]",
    "  hint: write it with the functions of tensorad, e.g. ta.exp, ta.select.",
)
def another_function_of_one_element() -> None:
    ta.compute((3, 4), lambda i, j: np.sort(X[i, j]))


@refused(
    DefinitionError,
    "sum: axis 2 is out of range for a tensor with 2 axes.",
    "  hint: use an axis from -2 to 1.",
)
def an_axis_that_there_is_not() -> None:
    np.sum(X, axis=2)


@refused(
    DefinitionError,
    "np.var and np.std of a tensor have no ddof, got 1.",
    "  in: X",
    "  hint: scale it: topi.variance(X, axis) * (n / (n - ddof)).",
)
def degrees_of_freedom() -> None:
    np.std(X, ddof=1)


@refused(
    DefinitionError,
    "np.round of a formula rounds to whole numbers, got decimals=2.",
    "  hint: scale it: ta.round(x * 100.0) / 100.0.",
)
def decimals() -> None:
    np.round(X, 2)


@refused(
    DefinitionError,
    "np.take of a tensor has no mode 'wrap': indices are checked.",
    "  hint: make them fit before: np.clip(indices, 0, n - 1), or indices % n.",
)
def indices_that_wrap() -> None:
    np.take(X, N, mode="wrap")


@refused(
    DefinitionError,
    "np.reshape of a tensor: order 'F': elements are in row-major order.",
    "  hint: X.T.reshape(...) has them in column-major order.",
)
def another_order() -> None:
    np.reshape(X, (4, 3), order="F")


@refused(
    DefinitionError,
    "moveaxis: (0, 0) and (1, 2) are not as many axes, each named once.",
    "  in: S",
    "  hint: name the axes and their places, e.g. np.moveaxis(X, (0, 1), (-1, -2)).",
)
def an_axis_that_moves_twice() -> None:
    np.moveaxis(S, (0, 0), (1, 2))


@refused(
    DefinitionError,
    "np.concatenate takes a list of tensors and arrays, got str.",
    "  hint: e.g. np.concatenate([X, Y]).",
)
def no_list() -> None:
    arguments.listed("concatenate", "XY")


@refused(
    DefinitionError,
    "tensor X has no elements for NumPy: it is a formula, not an array.",
    "  in: X : float64 (3, 4)",
    "  hint: use tensorad's functions of tensors (topi.stack, ta.select); an array that meets one "
    "is a tensor, too: ta.const(array). For its elements, evaluate it.",
)
def an_array_of_a_tensor() -> None:
    np.asarray(X)


@refused(
    DefinitionError,
    "NumPy works on arrays, but this is an expression of the formula.",
    "  in: X[i, j]",
    "  hint: an array that is read there is a tensor, A = ta.const(array), A[X[i, j]].",
)
def an_array_of_an_expression() -> None:
    ta.compute((3, 4), lambda i, j: np.asarray(X[i, j]))


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Any) -> None:
    check(case)
