"""The whole texts of errors about tensors of a traced program used as arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError, DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.tracing import tracing
from tests.support.refusals import Case, Refusals, check

CASES = Refusals()
X = ta.placeholder((5, 3), name="X")
V = ta.placeholder((4,), name="V")
N = ta.placeholder((4,), "int64", name="N")
S = ta.placeholder((), name="S")
K = ta.placeholder((), "int64", name="K")
C = ta.placeholder((5, 3), "bool", name="C")
Y = ta.placeholder((ta.size("n"), 3), name="Y")
t = ta.size("t_below_5")
ta.assume(t < 5)


@CASES.refused(
    BoundsError,
    "index 7 is outside of axis 0 of X, whose extent is 5.",
    "  in: X with shape (5, 3)",
    "  hint: use an index from -5 to 4.",
)
def a_number_outside() -> None:
    X[7]


@CASES.refused(
    BoundsError,
    "index -4 is outside of axis 1 of X, whose extent is 3.",
    "  in: X with shape (5, 3)",
    "  hint: use an index from -3 to 2.",
)
def a_list_with_a_number_outside() -> None:
    X[:, [0, -4]]


@CASES.refused(
    BoundsError,
    "index 0 is outside of axis 0 of X_part, whose extent is 0.",
    "  in: X_part with shape (0, 3)",
    "  hint: an empty axis has no element.",
)
def an_element_of_nothing() -> None:
    X[5:][0]


@CASES.refused(
    BoundsError,
    "X[t_below_5 + 5, i0] reads index 5 of axis 0, whose extent is 5.",
    "  in: X_row, defined at HERE",
    "  hint: at t_below_5 = 0; guard the read with select(...) or change the axis.",
)
def a_counter_outside() -> None:
    X[t + 5]


@CASES.refused(
    BoundsError,
    "X[t_below_5 + 5, i] reads index 5 of axis 0, whose extent is 5.",
    "  in: X_set, defined at HERE",
    "  hint: at t_below_5 = 0; guard the read with select(...) or change the axis.",
)
def a_change_outside() -> None:
    X.at[t + 5].set(0.0)


@CASES.refused(
    ShapeError,
    "X has 2 axes, but 3 indices were given.",
    "  in: X with shape (5, 3)",
    "  hint: give at most one index per axis; None makes a new axis.",
)
def too_many_indices() -> None:
    X[0, 1, 2]


@CASES.refused(
    DefinitionError,
    "the index of X has 2 ellipses.",
    "  in: X with shape (5, 3)",
    "  hint: `...` stands for all axes that are not named: write it once.",
)
def two_ellipses() -> None:
    X[..., 0, ...]


@CASES.refused(
    DefinitionError,
    "index 0 of X is a boolean mask: how many elements it selects depends on its values.",
    "  in: X with shape (5, 3)",
    "  hint: choose elements with ta.select(mask, x, other), which keeps the shape, or give the "
    "positions: np.nonzero(mask) of an array.",
)
def a_mask() -> None:
    X[X > 0.0]


@CASES.refused(
    DefinitionError,
    "index 1 of X is a boolean mask: how many elements it selects depends on its values.",
    "  in: X with shape (5, 3)",
    "  hint: choose elements with ta.select(mask, x, other), which keeps the shape, or give the "
    "positions: np.nonzero(mask) of an array.",
)
def a_mask_of_numpy() -> None:
    X[:, np.array([True, False, True])]


@CASES.refused(
    DTypeError,
    "index 0 of X must be an integer, a slice or integers, got float32.",
    "  in: X with shape (5, 3)",
    "  hint: use // for integer division, or .astype('int64').",
)
def positions_that_are_no_integers() -> None:
    X[V]


@CASES.refused(
    DTypeError,
    "index 0 of X must be an integer, a slice or integers, got float.",
    "  in: X with shape (5, 3)",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_float_as_index() -> None:
    X[1.0]


@CASES.refused(
    DTypeError,
    "index 0 of X must be an integer, a slice or integers, got str.",
    "  in: X with shape (5, 3)",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_name_as_index() -> None:
    X["row"]


@CASES.refused(
    ShapeError,
    "index 0 of X: the nested lists do not form an array.",
    "  hint: give every row the same length.",
)
def rows_of_different_lengths() -> None:
    X[[[0, 1], [2]]]


@CASES.refused(
    ShapeError,
    "index: shapes (4,) and (3,) do not broadcast.",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def positions_that_do_not_broadcast() -> None:
    X[N, [0, 1, 2]]


@CASES.refused(
    DefinitionError,
    "the step of the slice at index 0 of X is 0.",
    "  in: X with shape (5, 3)",
    "  hint: a step is a number other than 0; gather at other distances: "
    "x[start + n * topi.arange(count)].",
)
def a_slice_that_stands_still() -> None:
    X[::0]


@CASES.refused(
    DefinitionError,
    "a bound of the slice at index 0 of X depends on data.",
    "  in: X with shape (5, 3)",
    "  hint: bounds are integers and sizes, counters included; from a place that is data, a "
    "fixed number of elements is x[place + topi.arange(count)].",
)
def a_slice_from_data() -> None:
    X[K : K + 2]


@CASES.refused(
    DefinitionError,
    "a bound of the slice at index 1 of X is 1.5.",
    "  in: X with shape (5, 3)",
    "  hint: bounds are integers and sizes, counters included; from a place that is data, a "
    "fixed number of elements is x[place + topi.arange(count)].",
)
def a_slice_from_a_float() -> None:
    X[:, 1.5:]


@CASES.refused(
    ShapeError,
    "tensor S is 0-d: it has no length and cannot be iterated over.",
    "  hint: use it as a number.",
)
def rows_of_a_number() -> None:
    list(S)


@CASES.refused(
    DefinitionError,
    "how many rows tensor Y of shape (n, 3) has is not known while a program is traced.",
    "  hint: loop over them with ta.scan or ta.for_loop; their number is Y.shape[0].",
)
def rows_of_unknown_number() -> None:
    for _ in Y:
        pass


@CASES.refused(
    DefinitionError,
    "tensor gt has no truth value while a program is traced: its elements are not known yet.",
    "  in: gt : bool () at HERE",
    "  hint: branch with ta.cond and repeat with ta.while_loop (reduce by .all() or .any() "
    "first); choose elements with ta.select(c, a, b); an argument that Python decides by is "
    "static (static_argnames of ta.function).",
)
def a_condition_in_python() -> None:
    if S > 0.0:
        pass


@CASES.refused(
    DefinitionError,
    "== of a tensor is about the object, not its elements.",
    "  in: X",
    "  hint: compare elements by topi.equal(X, Y), or in a formula, X[i, j] == Y[i, j]; objects "
    "by `is`.",
)
def equality() -> None:
    X == C  # noqa: B015  # the error


@CASES.refused(
    DefinitionError,
    "!= of a tensor is about the object, not its elements.",
    "  in: X",
    "  hint: compare elements by topi.not_equal(X, Y), or in a formula, X[i, j] != Y[i, j]; "
    "objects by `is`.",
)
def a_search_for_nan() -> None:
    X != X  # noqa: B015  # the error


@CASES.refused(
    DefinitionError,
    "== of a tensor is about the object, not its elements.",
    "  in: S",
    "  hint: compare elements by topi.equal(X, Y), or in a formula, X[i, j] == Y[i, j]; objects "
    "by `is`.",
)
def equality_with_a_size() -> None:
    t == S  # noqa: B015  # the error


@CASES.refused(
    DefinitionError,
    "tensor X cannot be assigned to: tensors are defined once.",
    "  hint: make a new tensor: X = X.at[...].set(value).",
)
def an_assignment() -> None:
    X[0] = 1.0


@CASES.refused(
    DefinitionError,
    "tensor X has no elements for NumPy: it is a formula, not an array.",
    "  in: X : float32 (5, 3)",
    "  hint: use tensorad's functions of tensors (topi.stack, ta.select); an array that meets "
    "one is a tensor, too: ta.const(array). For its elements, evaluate it.",
)
def an_array_of_it() -> None:
    np.asarray(X)


@CASES.refused(
    DefinitionError,
    "float() or a function of the math module needs a number, but tensor S is a formula.",
    "  in: S : float32 ()",
    "  hint: use the functions of tensorad (ta.exp, topi.round, .astype), or compute it with "
    "evaluate.",
)
def a_number_of_it() -> None:
    float(S)


@CASES.refused(
    ShapeError,
    "X.at[...].set: values of shape (4,) do not broadcast to the selected (3,).",
    "  in: X with shape (5, 3)",
    "  hint: trailing axes must be equal or 1; reshape the values first.",
)
def values_of_another_shape() -> None:
    X.at[0].set(V)


@CASES.refused(
    DTypeError,
    "N.at[...].add: values of float32 do not fit into N of int64.",
    "  hint: convert one of them: value.astype('int64'), or the tensor.",
)
def floats_into_integers() -> None:
    N.at[0].add(S)


@CASES.refused(
    DTypeError,
    "N.at[...].set: values of float32 do not fit into N of int64.",
    "  hint: convert one of them: value.astype('int64'), or the tensor.",
)
def a_fraction_into_integers() -> None:
    N.at[0].set(0.5)


@CASES.refused(
    DTypeError,
    "C.at[...].add: C holds truth values.",
    "  hint: set them, or convert the tensor: .astype('int64').",
)
def a_sum_of_truth_values() -> None:
    C.at[0].add(True)


@CASES.refused(
    ShapeError,
    "X has 2 axes, but 1 index was given.",
    "  in: X[i] with shape (5, 3)",
    "  hint: give one index per axis, e.g. X[i, j].",
)
def a_row_in_a_formula() -> None:
    ta.compute((5,), lambda i: X[i])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.attempt.__name__)
def test_the_whole_text(case: Case) -> None:
    with tracing():
        check(case)
