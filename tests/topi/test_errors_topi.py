"""Arguments of operators that are no tensors: each refused with one whole text."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Case, Refusals, check

X = te.placeholder((4, 6), name="X")
Y = te.placeholder((6, 4), name="Y")
I = te.placeholder((1, 2, 4, 4), name="I")  # noqa: E741  # an image

CASES = Refusals()


@CASES.refused(
    DefinitionError,
    "gelu: approximate must be 'none' or 'tanh', got 'exact'.",
    "  hint: True and False do, too.",
)
def a_word_that_gelu_does_not_know() -> None:
    topi.gelu(X, "exact")


@CASES.refused(
    DefinitionError,
    "gelu: approximate must be True or False, got 2.",
    "  hint: write approximate=True.",
)
def a_number_for_a_flag() -> None:
    topi.gelu(X, 2)


@CASES.refused(
    DefinitionError,
    "sum: keepdims must be True or False, got 'no'.",
    "  hint: write keepdims=True.",
)
def a_word_for_a_flag() -> None:
    topi.sum(X, keepdims="no")  # type: ignore[arg-type]  # the mistake


B = te.placeholder((4,), "bool", name="B")


@CASES.refused(
    DTypeError,
    "negative: B is of booleans, which have no negative.",
    "  hint: logical_not is true where it is false; x.astype('int64') is of integers.",
)
def a_negative_of_booleans() -> None:
    topi.negative(B)


@CASES.refused(
    DTypeError,
    "left_shift: bits of integers are shifted, not of float32.",
    "  hint: convert them to integers, or multiply by a power of 2.",
)
def a_shift_of_floats() -> None:
    topi.left_shift(X, 2)


@CASES.refused(
    DTypeError,
    "right_shift: bits of integers are shifted, not of bool.",
    "  hint: convert them to integers, or multiply by a power of 2.",
)
def a_shift_of_booleans() -> None:
    topi.right_shift(B, True)


@CASES.refused(
    DTypeError,
    "logcumsumexp: B is of bool, not of floats.",
    "  hint: convert it: x.astype('float32').",
)
def a_logcumsumexp_of_booleans() -> None:
    topi.logcumsumexp(B)


@CASES.refused(
    ShapeError,
    "pool: windows of 2 would lie in a padding of 2.",
    "  hint: use less padding than the kernel has, or topi.pad with a value.",
)
def a_pool_of_padding_alone() -> None:
    topi.pool(I, 2, 2, (0, 1, 2, 1))


@CASES.refused(
    ShapeError,
    "pool1d: windows of 3 would lie in a padding of 3.",
    "  hint: use less padding than the kernel has, or topi.pad with a value.",
)
def a_pool_of_padding_at_the_end() -> None:
    topi.pool1d(te.placeholder((1, 1, 8), name="L"), 3, 1, (0, 3), "avg")


@CASES.refused(
    DTypeError,
    "dtype None is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def a_cast_to_none() -> None:
    topi.cast(X, None)


@CASES.refused(
    DTypeError,
    "dtype None is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def full_of_none() -> None:
    topi.full((2,), 1.0, None)


@CASES.refused(
    DTypeError,
    "dtype None is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def one_hot_of_none() -> None:
    topi.one_hot(te.placeholder((3,), "int64"), 4, None)


@CASES.refused(
    DTypeError,
    "dtype array([1, 2]) is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def an_array_for_a_dtype() -> None:
    topi.cast(X, np.array([1, 2]))


@CASES.refused(
    DTypeError,
    "sum: the dtype of a result must be one of numbers, not bool.",
    "  hint: reduce truth values by max (any of them) or min (all of them).",
)
def a_sum_of_truth() -> None:
    topi.sum(X, dtype="bool")


@CASES.refused(
    DefinitionError,
    "tensordot: cannot pair the axes -1 of X and Y.",
    "  hint: list as many axes of one as of the other.",
)
def fewer_than_no_axes() -> None:
    topi.tensordot(X, Y, -1)


@CASES.refused(
    DefinitionError,
    "tensordot: cannot pair the axes [] of X and Y.",
    "  hint: list as many axes of one as of the other.",
)
def a_list_of_no_lists() -> None:
    topi.tensordot(X, Y, [])  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError, "arange: start must be an integer, got 1.5.", "  hint: e.g. start=1."
)
def a_range_to_one_and_a_half() -> None:
    topi.arange(1.5)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "transpose: axes must be integers, got 'ij'.",
    "  hint: e.g. axes=(1, 2).",
)
def letters_for_axes() -> None:
    topi.transpose(X, "ij")  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "transpose: axes (1,) are no permutation of the 2 axes of X.",
    "  hint: name every axis once, e.g. (1, 0).",
)
def one_axis_for_two() -> None:
    topi.transpose(X, 1)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "strided_slice: begin (1,), end (3, 2) and strides (1,) do not cut X with 2 axes.",
    "  hint: give one begin, end and nonzero stride for each axis to be cut.",
)
def one_begin_for_two_ends() -> None:
    topi.strided_slice(X, 1, (3, 2))  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "strided_slice: begin 'ab', end (3, 2) and strides () do not cut X with 2 axes.",
    "  hint: give one begin, end and nonzero stride for each axis to be cut.",
)
def a_text_for_positions() -> None:
    topi.strided_slice(X, "ab", (3, 2))  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    ShapeError,
    f"extent 2 of adaptive_avg_pool is 1{'0' * 30}, more than an index can count.",
    "  hint: indices are 64-bit integers.",
)
def more_windows_than_indices() -> None:
    topi.adaptive_pool(I, 10**30)


@CASES.refused(
    DefinitionError,
    "rnn_cell: w_input must be a tensor or an array with axes, got list.",
    "  hint: e.g. a placeholder, or np.array([1.0, 2.0]).",
)
def a_list_for_weights() -> None:
    topi.rnn_cell(X, X, [[1.0] * 6] * 6, X)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "stack: tensors must be a list of tensors, got tensor X.",
    "  hint: e.g. [A, B].",
)
def a_tensor_for_a_list() -> None:
    topi.stack(X)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError, "leaky_relu: alpha must be a number, got 'small'.", "  hint: e.g. alpha=1.0."
)
def a_word_for_a_slope() -> None:
    topi.leaky_relu(X, "small")  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError, "dropout: rate must be a number, got None.", "  hint: e.g. rate=1.0."
)
def no_rate() -> None:
    topi.dropout(X, X, None)  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "smooth_l1_loss: beta must be positive, got -1.",
    "  hint: use beta=1.",
)
def a_negative_beta() -> None:
    topi.smooth_l1_loss(X, X, -1)


@CASES.refused(
    DefinitionError,
    "space_to_depth: block must be a positive integer, got 0.",
    "  hint: e.g. block=1.",
)
def blocks_of_nothing() -> None:
    topi.space_to_depth(I, 0)


@CASES.refused(
    ShapeError,
    "variance: axis 1 of X and its extent of a mean with keepdims differ: 6 and 1.",
    "  hint: change the shape of one of them.",
)
def a_mean_of_another_shape() -> None:
    topi.variance(X, 1, mean_of=X)


@CASES.refused(
    ShapeError,
    "the shape of reshape must be a tuple of extents, got None.",
    "  hint: write the extents as a tuple, e.g. (32, 10), (n, 10) or () for a scalar.",
)
def no_shape() -> None:
    topi.reshape(X, None)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
