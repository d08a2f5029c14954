"""Bad computes, shapes, names and constants: each refused with one whole text."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")
n = ta.size("n")

CASES = Refusals()


@CASES.refused(
    DefinitionError,
    "the body of Y takes 1 index, but there are 2 axes.",
    "  in: Y with shape (3, 4)",
    "  hint: give it one parameter per axis: lambda i, j: ...",
)
def too_few_parameters() -> None:
    ta.compute((3, 4), lambda i: X[i, 0], name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y takes 2 indices, but there is 1 axis.",
    "  in: Y with shape (3,)",
    "  hint: give it one parameter per axis: lambda i: ...",
)
def too_many_parameters() -> None:
    ta.compute((3,), lambda i, j: X[i, j], name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be an expression, got None.",
    "  hint: return the formula: a def needs a return statement.",
)
def a_body_without_return() -> None:
    ta.compute((3,), lambda i: None, name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be an expression, got ndarray.",
    "  hint: make a tensor of it, A = ta.const(array), and read A[i].",
)
def an_array_as_body() -> None:
    ta.compute((3,), lambda i: np.ones(3), name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be one element, got the whole tensor X of shape (3, 4).",
    "  hint: read it at indices, X[i, j]; topi works on whole tensors.",
)
def a_whole_tensor_as_body() -> None:
    ta.compute((3,), lambda i: X, name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be an expression, got list.",
    "  hint: a tuple makes several tensors; ta.const(list) makes a constant tensor.",
)
def a_list_as_body() -> None:
    ta.compute((3,), lambda i: [X[i, 0]], name="Y")


@CASES.refused(
    DefinitionError,
    "part 1 of the body of Y must be an expression, got None.",
    "  hint: return the formula: a def needs a return statement.",
)
def none_inside_a_tuple() -> None:
    ta.compute((3,), lambda i: (X[i, 0], None), name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y is an empty tuple.",
    "  hint: return at least one expression.",
)
def an_empty_tuple() -> None:
    ta.compute((3,), lambda i: (), name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be a function of its indices, got int.",
    "  hint: write lambda i: ...",
)
def a_number_instead_of_a_function() -> None:
    ta.compute((3,), 5, name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y must be an expression, got str.",
    "  hint: build it from expressions, numbers and reads X[i, j].",
)
def text_as_body() -> None:
    ta.compute((3,), lambda i: "x", name="Y")


@CASES.refused(
    DefinitionError,
    "the body of Y takes 1 index, but there are no axes.",
    "  in: Y with shape ()",
    "  hint: give it one parameter per axis: lambda: ...",
)
def parameters_of_a_scalar() -> None:
    ta.compute((), lambda i: X[0, 0], name="Y")


@CASES.refused(
    ShapeError,
    "extent 1 of X must be an integer >= 0, got -1.",
    "  in: X with shape (3, -1)",
    '  hint: use an integer, or a symbolic extent: n = size("n").',
)
def a_negative_extent() -> None:
    ta.placeholder((3, -1), name="X")


@CASES.refused(
    ShapeError,
    "extent 1 of X must be an integer >= 0, got 2.0.",
    "  in: X with shape (3, 2.0)",
    '  hint: use an integer, or a symbolic extent: n = size("n").',
)
def a_float_extent() -> None:
    ta.placeholder((3, 2.0), name="X")


@CASES.refused(
    ShapeError,
    "extent 0 of X must be an integer >= 0, got True.",
    "  in: X with shape (True,)",
    '  hint: use an integer, or a symbolic extent: n = size("n").',
)
def a_bool_extent() -> None:
    ta.placeholder((True,), name="X")


@CASES.refused(
    ShapeError,
    "the shape of X must be a tuple of extents, got 'ab'.",
    "  hint: write the extents as a tuple, e.g. (32, 10), (n, 10) or () for a scalar.",
)
def text_as_shape() -> None:
    ta.placeholder("ab", name="X")


@CASES.refused(
    ShapeError,
    "the shape of X must be a tuple of extents, got None.",
    "  hint: write the extents as a tuple, e.g. (32, 10), (n, 10) or () for a scalar.",
)
def no_shape() -> None:
    ta.placeholder(None, name="X")


@CASES.refused(
    DefinitionError,
    "a name must be a line of visible text, got 'a\\nb'.",
    '  hint: give a short string, e.g. name="Y".',
)
def a_name_with_a_newline() -> None:
    ta.compute((3,), lambda i: X[i, 0], name="a\nb")


@CASES.refused(
    DefinitionError,
    "a name must be a line of visible text, got int.",
    '  hint: give a short string, e.g. name="Y".',
)
def a_number_as_name() -> None:
    ta.placeholder((3,), name=5)


@CASES.refused(
    DefinitionError,
    "a name must be a line of visible text, got ''.",
    '  hint: give a short string, e.g. name="Y".',
)
def an_empty_name() -> None:
    ta.placeholder((3,), name="")


@CASES.refused(
    DTypeError,
    "dtype float16 is not supported: there is no half-precision arithmetic.",
    "  hint: use float32 and convert at the boundary, e.g. x.astype('float32').",
)
def half_precision() -> None:
    ta.placeholder((3,), "float16")


@CASES.refused(
    DTypeError,
    "dtype bfloat16 is not supported: there is no half-precision arithmetic.",
    "  hint: use float32 and convert at the boundary, e.g. x.astype('float32').",
)
def bfloat16() -> None:
    ta.placeholder((3,), "bfloat16")


@CASES.refused(
    DTypeError,
    "dtype 'complex64' is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def complex_dtype() -> None:
    ta.placeholder((3,), "complex64")


@CASES.refused(
    ShapeError,
    "extent 0 of X must be an integer expression of sizes, got V[0] of dtype float32.",
    '  hint: an extent is fixed before the loops start: use numbers and size("n").',
)
def an_extent_read_from_data() -> None:
    ta.placeholder((V[0],), name="X")


@CASES.refused(
    ShapeError,
    "extent 0 of X must be an integer expression of sizes, got float32(n)*0.5 of dtype float32.",
    '  hint: an extent is fixed before the loops start: use numbers and size("n").',
)
def a_float_expression_as_extent() -> None:
    ta.placeholder((n * 0.5,), name="X")


@CASES.refused(
    DTypeError,
    "dtype float16 is not supported: there is no half-precision arithmetic.",
    "  hint: use float32 and convert at the boundary, e.g. x.astype('float32').",
)
def numpy_half_precision() -> None:
    ta.placeholder((3,), np.float16)


@CASES.refused(
    DefinitionError,
    "a size needs an identifier as its name, got 'my size'.",
    '  hint: calls take sizes as keywords, f(x, n=8): write size("n").',
)
def a_size_that_is_no_keyword() -> None:
    ta.size("my size")


@CASES.refused(
    DefinitionError,
    "a size needs an identifier as its name, got 3.",
    '  hint: calls take sizes as keywords, f(x, n=8): write size("n").',
)
def a_number_as_size() -> None:
    ta.size(3)


@CASES.refused(
    DTypeError,
    "const: 1.5 does not fit into int32.",
    "  hint: choose a wider or a float dtype.",
)
def a_fraction_as_integer() -> None:
    ta.const(1.5, "int32")


@CASES.refused(
    DTypeError,
    "const: 300 does not fit into uint8.",
    "  hint: choose a wider or a float dtype.",
)
def a_constant_too_large() -> None:
    ta.const(300, "uint8")


@CASES.refused(
    DTypeError,
    "const: an array of float64 does not fit into int64.",
    "  hint: convert it first: array.astype('int64').",
)
def a_float_array_as_integers() -> None:
    ta.const(np.array([1.5]), "int64")


@CASES.refused(
    DTypeError,
    "const: 1099511627776 does not fit into int32.",
    "  hint: choose a wider or a float dtype.",
)
def an_array_of_integers_too_large() -> None:
    ta.const(np.array([1, 2**40]), "int32")


@CASES.refused(
    DTypeError,
    "const: -1 does not fit into uint8.",
    "  hint: choose a wider or a float dtype.",
)
def a_list_with_a_sign_as_bytes() -> None:
    ta.const([255, -1], "uint8")


@CASES.refused(
    DefinitionError,
    "tensor X has no elements for NumPy: it is a formula, not an array.",
    "  in: X : float32 (2,)",
    "  hint: use tensorad's functions of tensors (topi.stack, ta.select); an array that meets "
    "one is a tensor, too: ta.const(array). For its elements, evaluate it.",
)
def a_list_of_tensors_as_constant() -> None:
    ta.const([ta.placeholder((2,), name="X")])


@CASES.refused(
    DTypeError,
    "dtype 'str32' is not supported.",
    "  hint: use one of bool, uint8, int8, int16, int32, int64, float32, float64.",
)
def an_array_of_text() -> None:
    ta.const(np.array(["a"]))


@CASES.refused(
    DTypeError,
    "const: str is neither a number nor an array.",
    "  hint: give a Python number, a NumPy array or nested lists of numbers.",
)
def text_as_constant() -> None:
    ta.const("a")


@CASES.refused(
    ShapeError,
    "const: the nested lists do not form an array.",
    "  hint: give every row the same length.",
)
def ragged_lists() -> None:
    ta.const([[1, 2], [3]])


@CASES.refused(
    DTypeError,
    "const: NoneType is neither a number nor an array.",
    "  hint: give a Python number, a NumPy array or nested lists of numbers.",
)
def none_as_constant() -> None:
    ta.const(None)


@CASES.refused(
    DTypeError,
    "dtype float16 is not supported: there is no half-precision arithmetic.",
    "  hint: use float32 and convert at the boundary, e.g. x.astype('float32').",
)
def a_cast_to_half_precision() -> None:
    V[0].astype("float16")


@CASES.refused(
    ShapeError,
    "extent 0 of X is 1180591620717411303424, more than an index can count.",
    "  hint: indices are 64-bit integers.",
)
def an_extent_beyond_64_bits() -> None:
    ta.placeholder((2**70,), name="X")


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
