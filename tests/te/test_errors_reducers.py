"""Bad reductions and combiners: each refused with one whole text."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.errors import CombinerError, DefinitionError, DTypeError
from tensorad.te import Reducer
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")
T = ta.placeholder((10,), "int32", name="T")
k = ta.reduce_axis(4, name="k")

CASES = Refusals()


def pair_reducer() -> Reducer:
    return ta.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (0, 0), name="r")


@CASES.refused(
    DefinitionError,
    "reduce axis k is used outside its reduction in Y.",
    "  in: X[i, k]",
    "  hint: reduce over it, e.g. sum(..., axis=k).",
)
def a_reduce_axis_without_reduction() -> None:
    ta.compute((3,), lambda i: X[i, k], name="Y")


@CASES.refused(
    DefinitionError,
    "reduce axis k is used outside its reduction in Y.",
    "  in: sum(X[i, k], axes (k : [0, 3]))*V[k]",
    "  hint: reduce over it, e.g. sum(..., axis=k).",
)
def a_reduce_axis_beside_its_reduction() -> None:
    ta.compute((3,), lambda i: ta.sum(X[i, k], axis=k) * V[k], name="Y")


@CASES.refused(
    DefinitionError,
    "reduce axis k is bound by two nested reductions of Y.",
    "  in: sum(V[k], axes (k : [0, 3])) inside sum(X[i, k]*sum(V[k], axes (k : [0, 3])), "
    "axes (k : [0, 3]))",
    "  hint: make one reduce_axis for each of the two.",
)
def nested_reductions_over_one_axis() -> None:
    ta.compute((3,), lambda i: ta.sum(X[i, k] * ta.sum(V[k], axis=k), axis=k), name="Y")


@CASES.refused(
    DefinitionError,
    "sum lists reduce axis k twice.",
    "  hint: make one reduce_axis for each loop.",
)
def an_axis_listed_twice() -> None:
    ta.sum(X[0, k], axis=[k, k])


@CASES.refused(
    DefinitionError,
    "sum reduces over axes made by reduce_axis, got 0.",
    "  hint: k = reduce_axis(n) ... axis=k; topi reduces a tensor along a numbered axis.",
)
def a_number_as_axis() -> None:
    ta.sum(X[0, k], axis=0)


@CASES.refused(
    DefinitionError,
    "sum has no axis to reduce over.",
    "  hint: list at least one reduce_axis.",
)
def no_axis() -> None:
    ta.sum(X[0, k], axis=[])


@CASES.refused(
    DefinitionError,
    "the operand of sum must be one element, got the whole tensor X of shape (3, 4).",
    "  hint: read it at indices, X[i, j]; topi works on whole tensors.",
)
def a_whole_tensor_to_reduce() -> None:
    ta.sum(X, axis=k)


@CASES.refused(
    DefinitionError,
    "i is an axis of Y, so it cannot be reduced over.",
    "  in: sum(X[i, 0], axes (i : [0, 2]))",
    "  hint: reduce over an axis made by reduce_axis.",
)
def reducing_a_compute_axis() -> None:
    ta.compute((3,), lambda i: ta.sum(X[i, 0], axis=i), name="Y")


@CASES.refused(
    DefinitionError,
    "Y uses i, an axis of another compute.",
    "  in: X[i, 0]",
    "  hint: use the parameters of the function that this compute is given.",
)
def an_axis_of_another_compute() -> None:
    kept = []
    ta.compute((3,), lambda i: kept.append(i) or X[i, 0], name="Z")
    ta.compute((3,), lambda j: X[kept[0], 0], name="Y")


@CASES.refused(
    DefinitionError,
    "reduce_axis k ends before it starts: [5, 2).",
    "  hint: an empty axis has equal bounds, e.g. (0, 0).",
)
def a_reversed_reduce_axis() -> None:
    ta.reduce_axis((5, 2), name="k")


@CASES.refused(
    DefinitionError,
    "reduce_axis k needs an extent or a pair (lo, hi), got 2.5.",
    "  hint: write 10 for [0, 10), or (2, 10).",
)
def a_float_reduce_axis() -> None:
    ta.reduce_axis(2.5)


@CASES.refused(
    DefinitionError,
    "reduce_axis k needs an extent or a pair (lo, hi), got (1, 2, 3).",
    "  hint: write 10 for [0, 10), or (2, 10).",
)
def three_bounds() -> None:
    ta.reduce_axis((1, 2, 3))


@CASES.refused(
    DefinitionError,
    "reduce_axis k needs an extent or a pair (lo, hi), got 'k'.",
    "  hint: write 10 for [0, 10), or (2, 10).",
)
def text_as_reduce_axis() -> None:
    ta.reduce_axis("k")


@CASES.refused(
    DTypeError,
    "where of sum must be a condition, got int64.",
    "  in: k",
    "  hint: compare it with something, e.g. x != 0.",
)
def where_that_is_no_condition() -> None:
    ta.sum(X[0, k], axis=k, where=k)


@CASES.refused(
    DefinitionError,
    "sum reduces over axes made by reduce_axis, got k + 1.",
    "  hint: k = reduce_axis(n) ... axis=k; topi reduces a tensor along a numbered axis.",
)
def an_expression_as_axis() -> None:
    ta.sum(X[0, k], axis=k + 1)


@CASES.refused(
    DefinitionError,
    "reduce_axis k ends before it starts: [0, -1).",
    "  hint: an empty axis has equal bounds, e.g. (0, 0).",
)
def a_negative_reduce_axis() -> None:
    ta.reduce_axis(-1)


@CASES.refused(
    CombinerError,
    "the identity of r cannot be called with the dtype of what it reduces.",
    "  hint: comm_reducer(lambda x, y: ..., lambda dtype: ..., name); for tuples x and y "
    "are tuples, and the identity takes one dtype for each component.",
)
def fewer_sources_than_identities() -> None:
    pair_reducer()((V[k],), axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of r cannot be called with two operands.",
    "  hint: comm_reducer(lambda x, y: ..., lambda dtype: ..., name); for tuples x and y "
    "are tuples, and the identity takes one dtype for each component.",
)
def a_combiner_of_one_operand() -> None:
    ta.comm_reducer(lambda x: x, lambda t: 0, name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the identity of r is a tuple, but one expression is reduced.",
    "  hint: reduce a tuple, r((a, b), axis=k), or return one value.",
)
def a_tuple_identity_of_a_scalar_fold() -> None:
    ta.comm_reducer(lambda x, y: x + y, lambda t: (0, 0), name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of r gives 1 value, but 2 expressions are reduced.",
    "  hint: return a tuple with one value for each reduced expression.",
)
def a_combiner_of_too_few_results() -> None:
    ta.comm_reducer(lambda x, y: (x[0],), lambda a, b: (0, 0), name="r")((V[k], V[k]), axis=k)


@CASES.refused(
    CombinerError,
    "the identity 0.5 of r is no constant of the source's dtype int32.",
    "  hint: return numbers, built from the dtypes the function is given.",
)
def a_fractional_identity_of_integers() -> None:
    ta.comm_reducer(lambda x, y: x + y, lambda t: 0.5, name="r")(T[k], axis=k)


@CASES.refused(
    CombinerError,
    "the identity 0.0 of dtype float64 of r is no constant of the source's dtype float32.",
    "  hint: return numbers, built from the dtypes the function is given.",
)
def an_identity_of_another_dtype() -> None:
    ta.comm_reducer(lambda x, y: x + y, lambda t: ta.const(0, "float64"), name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of r gives bool for operand x of dtype float32.",
    "  in: x > y",
    "  hint: convert the result: .astype('float32').",
)
def a_combiner_of_another_dtype() -> None:
    ta.comm_reducer(lambda x, y: x > y, lambda t: 0, name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of r uses k, which is none of its operands.",
    "  in: x + V[k]",
    "  hint: a combiner sees only its operands; pass more values as a tuple.",
)
def a_combiner_that_reads_tensors() -> None:
    ta.comm_reducer(lambda x, y: x + V[k], lambda t: 0, name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of r must be an expression, got None.",
    "  hint: return the formula: a def needs a return statement.",
)
def a_combiner_without_return() -> None:
    ta.comm_reducer(lambda x, y: None, lambda t: 0, name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the combiner of a reducer must be a function, got 3.",
    "  hint: comm_reducer(lambda x, y: x + y, lambda dtype: 0, name='add').",
)
def a_number_as_combiner() -> None:
    ta.comm_reducer(3, lambda t: 0, name="r")


@CASES.refused(
    CombinerError,
    "the identity None of r is no constant of the source's dtype float32.",
    "  hint: return numbers, built from the dtypes the function is given.",
)
def an_identity_without_return() -> None:
    ta.comm_reducer(lambda x, y: x + y, lambda t: None, name="r")(V[k], axis=k)


@CASES.refused(
    CombinerError,
    "the identity of a reducer must be a function, got 0.",
    "  hint: comm_reducer(lambda x, y: x + y, lambda dtype: 0, name='add').",
)
def a_number_as_identity() -> None:
    ta.comm_reducer(lambda x, y: x + y, 0, name="r")


@CASES.refused(
    CombinerError,
    "the identity -inf of r is no constant of the source's dtype int32.",
    "  hint: return numbers, built from the dtypes the function is given.",
)
def an_infinite_identity_of_integers() -> None:
    ta.comm_reducer(lambda x, y: x + y, lambda t: float("-inf"), name="r")(T[k], axis=k)


@CASES.refused(
    DefinitionError,
    "Y uses x, an operand of a combiner.",
    "  in: r(V[k], axes (k : [0, 3])) + x",
    "  hint: operands live only inside the function given to comm_reducer.",
)
def an_escaped_operand() -> None:
    kept = []
    r = ta.comm_reducer(lambda x, y: kept.append(x) or x + y, lambda t: 0, name="r")
    ta.compute((3,), lambda i: r(V[k], axis=k) + kept[0], name="Y")


@CASES.refused(
    DefinitionError,
    "max reduces over axes made by reduce_axis, got 1.",
    "  hint: the max of two values is maximum(a, b); k = reduce_axis(n) ... axis=k; "
    "topi reduces a tensor along a numbered axis.",
)
def max_of_two_values() -> None:
    ta.max(V[0], 1)


@CASES.refused(
    DefinitionError,
    "the bounds of reduce_axis k must be 64-bit integers, got 1180591620717411303424.",
    '  hint: use integers or sizes: n = size("n"), (0, n).',
)
def a_reduce_axis_beyond_64_bits() -> None:
    ta.reduce_axis(2**70)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
