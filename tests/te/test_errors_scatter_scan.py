"""Bad scatters and scans: each refused with one whole text."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError, CombinerError, DefinitionError, DTypeError, ShapeError
from tensorad.te import Reducer
from tests.support.refusals import Case, Refusals, check, placed

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")
W = ta.placeholder((10,), name="W")
T = ta.placeholder((10,), "int32", name="T")
S = ta.placeholder((), name="S")

CASES = Refusals()


def pair_reducer() -> Reducer:
    return ta.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (0, 0), name="r")


@CASES.refused(
    DefinitionError,
    "the function of A must return (indices, value).",
    "  hint: e.g. lambda i: (T[i], X[i]), or lambda i, j: ((i, T[j]), X[i, j]).",
)
def a_scatter_without_indices() -> None:
    ta.scatter((3,), (4,), lambda i: V[i], name="A")


@CASES.refused(
    ShapeError,
    "A has 1 axis, but 2 indices were given.",
    "  in: A[i, 0] with shape (3,)",
    "  hint: give one index per axis, e.g. A[i].",
)
def a_scatter_with_too_many_indices() -> None:
    ta.scatter((3,), (4,), lambda i: ((i, 0), V[i]), name="A")


@CASES.refused(
    DTypeError,
    "index 0 of A must be an integer, got float32.",
    "  in: A[V[i]]",
    "  hint: use // for integer division, or .astype('int64').",
)
def a_scatter_at_a_float() -> None:
    ta.scatter((3,), (3,), lambda i: (V[i], V[i]), name="A")


@CASES.refused(
    CombinerError,
    "A cannot combine with 'median'.",
    '  hint: use "sum", "prod", "max", "min" or a reducer made by comm_reducer.',
)
def a_scatter_that_takes_the_median() -> None:
    ta.scatter((3,), (3,), lambda i: (i, V[i]), "median", name="A")


@CASES.refused(
    ShapeError,
    "init of A has shape (3, 4), the result has (3,).",
    "  in: X",
    "  hint: start from a tensor of the result's shape, a number, or None.",
)
def init_of_another_shape() -> None:
    ta.scatter((3,), (3,), lambda i: (i, V[i]), init=X, name="A")


@CASES.refused(
    DTypeError,
    "init of A has dtype int32, the values have float32.",
    "  in: T",
    "  hint: convert it: T.astype('float32').",
)
def init_of_another_dtype() -> None:
    ta.scatter((10,), (3,), lambda i: (i, V[i]), init=T, name="A")


@CASES.refused(
    DTypeError,
    "init of A: an array of float64 does not fit into int32.",
    "  hint: convert it first: array.astype('int32').",
)
def an_init_array_of_floats_for_integers() -> None:
    ta.scatter((3,), (3,), lambda i: (i, T[i]), init=np.zeros(3), name="A")


@CASES.refused(
    DTypeError,
    "init of A: 1099511627776 does not fit into int32.",
    "  hint: choose a wider or a float dtype.",
)
def an_init_array_of_large_integers() -> None:
    ta.scatter((2,), (3,), lambda i: (0, T[i]), init=np.array([3, 2**40]), name="A")


@CASES.refused(
    DTypeError,
    "init of A has dtype float32, the values have int32.",
    "  in: 1.5",
    "  hint: use a whole number.",
)
def an_init_with_a_fraction_for_integers() -> None:
    ta.scatter((3,), (3,), lambda i: (i, T[i]), init=1.5, name="A")


@CASES.refused(
    ShapeError,
    "init of A has shape (2,), the result has (3,).",
    "  hint: start from a tensor of the result's shape, a number, or None.",
)
def an_init_array_of_another_shape() -> None:
    ta.scatter((3,), (3,), lambda i: (i, V[i]), init=np.zeros(2), name="A")


@CASES.refused(
    DefinitionError,
    "the function of A takes 2 indices, but there is 1 axis.",
    "  in: A with domain (3,)",
    "  hint: give it one parameter per axis: lambda i: ...",
)
def a_scatter_function_of_too_many_axes() -> None:
    ta.scatter((10,), (3,), lambda i, j: (i, V[i]), name="A")


@CASES.refused(
    DefinitionError,
    "the domain of A must be a tuple of extents, got 'x'.",
    "  hint: write (n,), (n, m) or pairs ((lo, hi), m).",
)
def text_as_domain() -> None:
    ta.scatter((10,), "x", lambda i: (i, V[i]), name="A")


@CASES.refused(
    DefinitionError,
    "axis 0 of the domain of A ends before it starts: [0, -1).",
    "  hint: an empty axis has equal bounds, e.g. (0, 0).",
)
def a_negative_domain() -> None:
    ta.scatter((10,), (-1,), lambda i: (i, V[i]), name="A")


@CASES.refused(
    DefinitionError,
    "axis 2 of scan is out of range for 2 axes.",
    "  in: X with shape (3, 4)",
    "  hint: use an axis from -2 to 1.",
)
def a_scan_axis_out_of_range() -> None:
    ta.scan(X, 2, "sum")


@CASES.refused(
    ShapeError,
    "scan needs a source with at least one axis.",
    "  hint: a 0-d tensor has nothing to fold along.",
)
def a_scan_of_a_scalar() -> None:
    ta.scan(S, 0, "sum")


@CASES.refused(
    ShapeError,
    "the sources of scan have different shapes (3, 4) and (10,).",
    "  in: X and V",
    "  hint: the components of the state run together; broadcast one first.",
)
def scan_sources_of_different_shapes() -> None:
    ta.scan((X, V), 0, pair_reducer())


@CASES.refused(
    CombinerError,
    "the identity of r cannot be called with the dtype of what it reduces.",
    "  hint: comm_reducer(lambda x, y: ..., lambda dtype: ..., name); for tuples x and y "
    "are tuples, and the identity takes one dtype for each component.",
)
def a_tuple_reducer_over_one_source() -> None:
    ta.scan(X, 0, pair_reducer())


@CASES.refused(
    CombinerError,
    "scan combines tuples of 2, but sum folds one value.",
    "  hint: make a reducer of tuples with comm_reducer.",
)
def a_sum_over_two_sources() -> None:
    ta.scan((X, X), 0, "sum")


@CASES.refused(
    DefinitionError,
    "the source of scan must be a tensor, got ndarray.",
    "  hint: wrap an array with ta.const(array); define formulas with compute first.",
)
def a_scan_of_an_array() -> None:
    ta.scan(np.ones(3), 0, "sum")


@CASES.refused(
    DefinitionError,
    "scan runs along a numbered axis, got 'a'.",
    "  hint: e.g. axis=0 or axis=-1.",
)
def text_as_scan_axis() -> None:
    ta.scan(X, "a", "sum")


@CASES.refused(
    CombinerError,
    "scan cannot combine with <lambda>.",
    '  hint: use "sum", "prod", "max", "min" or a reducer made by comm_reducer.',
)
def a_lambda_as_scan_combiner() -> None:
    ta.scan(X, 0, lambda a, b: a)


@CASES.refused(
    DefinitionError,
    "the bounds of axis 0 of the domain of A must be 64-bit integers, got 2.5.",
    '  hint: use integers or sizes: n = size("n"), (0, n).',
)
def a_fractional_domain() -> None:
    ta.scatter((10,), ((2.5, 3),), lambda i: (i, V[i]), name="A")


@CASES.refused(
    ShapeError,
    "a bound of axis 0 of the domain of A must be an integer expression of sizes, got k.",
    '  hint: an extent is fixed before the loops start: use numbers and size("n").',
)
def an_axis_as_domain() -> None:
    k = ta.reduce_axis(3, "k")
    ta.scatter((3,), [k], lambda i: (i, V[0]), name="A")


WRONG = """\
A is written at index 12 of axis 0, which has extent 10.
  in: A[int64(T[i])] in A at HERE
  hint: the index comes from the data of this call: correct it, or clamp it in the formula with \
minimum and maximum."""


@pytest.mark.parametrize("combine", ["last", "prod", "max"])
@pytest.mark.parametrize("mode", ["vjp", "jvp", "jacobian"])
def test_derivatives_name_the_scatter(combine: str, mode: str) -> None:
    last = ta.comm_reducer(lambda a, b: b, lambda dt: 0, name="last")
    folded = last if combine == "last" else combine
    y = ta.scatter((10,), (10,), lambda i: (T[i], V[i]), folded, init=W, name="A")
    head = ta.placeholder((10,), name="H")
    made = {
        "vjp": lambda: ta.vjp(y, V, head),
        "jvp": lambda: ta.jvp(y, {V: head}),
        "jacobian": lambda: ta.jacobian(y, V),
    }[mode]()
    places = np.arange(3, 13, dtype=np.int32)  # 12 is the last
    floats = np.ones(10, np.float32)
    with pytest.raises(BoundsError) as caught:
        ta.build(made, [V, W, T, head])(floats, floats, np.where(places > 9, 12, places), floats)
    assert placed(caught.value) == WRONG
    with pytest.raises(BoundsError, match=r"^A is written outside its shape"):
        ta.interpret(made, {V: floats, W: floats, T: places, head: floats})


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)


def test_a_whole_float_as_init_has_to_fit() -> None:
    with pytest.raises(DTypeError, match="does not fit into int32"):
        ta.scatter((4,), (4,), lambda i: (i, i.astype("int32")), init=1e30)
