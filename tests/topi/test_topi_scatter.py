"""Gathering and scattering at places that are data, from both ends, against NumPy's loops."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.checking import gradcheck
from tensorad.errors import BoundsError, DefinitionError, DTypeError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(17)
Array = np.ndarray
COMBINE = {
    "set": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def tensor(*shape: int, name: str = "X") -> tuple[Tensor, Array]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


def places(*shape: int, extent: int, name: str = "I") -> tuple[Tensor, Array]:
    return te.placeholder(shape, "int64", name=name), rng.integers(-extent, extent, shape)


def expect(y: Tensor, values: dict[Tensor, Array], expected: object) -> None:
    """The value, interpreted and compiled, and the derivatives of every float input."""
    np.testing.assert_allclose(interpret(y, values), expected, rtol=1e-12)
    np.testing.assert_allclose(build(y, list(values))(*values.values()), expected, rtol=1e-12)
    gradcheck(y, [t for t in values if t.dtype.is_float], arrays=values)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("reduction", COMBINE)
def test_scatter_elements(reduction: str, axis: int) -> None:
    (x, xs), (u, us) = tensor(3, 4), tensor(2, 3, name="U")
    i, at = places(2, 3, extent=(3, 4)[axis])
    expected = xs.copy()
    for k in np.ndindex(at.shape):
        where = [*k]
        where[axis] = at[k]
        old = expected[tuple(where)]
        expected[tuple(where)] = COMBINE[reduction](old, us[k])
    y = topi.scatter_elements(x, i, u, axis, reduction)
    expect(y, {x: xs, i: at, u: us}, expected)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_nd(reduction: str, axis: int) -> None:
    (x, xs), (u, us) = tensor(3, 2, 2), tensor(4, 2, name="U")
    at = np.stack([rng.integers(-n, n, 4) for n in (3, 2)], axis)
    i = te.placeholder(at.shape, "int64", name="I")
    expected = xs.copy()
    for k in range(4):
        where = tuple(at.take(k, 1 if axis == 0 else 0))
        expected[where] = COMBINE[reduction](expected[where], us[k])
    y = topi.scatter_nd(x, i, u, reduction, axis)
    expect(y, {x: xs, i: at, u: us}, expected)


def test_the_last_of_several_updates_stays() -> None:
    x, u = te.placeholder((3,), name="X"), te.placeholder((4,), name="U")
    at = te.const(np.array([2, 0, -1, 0]))
    y = topi.scatter_elements(x, at, u)
    values = {x: np.zeros(3), u: np.arange(1.0, 5.0)}
    assert interpret(y, values).tolist() == [4.0, 0.0, 3.0]
    dx, du = vjp(y, [x, u], np.array([1.0, 2.0, 3.0], "float32"))
    assert interpret(dx, values).tolist() == [0.0, 2.0, 0.0]
    assert interpret(du, values).tolist() == [0.0, 0.0, 3.0, 1.0]


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_the_gradient_goes_to_the_first_of_equal_ones(reduction: str) -> None:
    x, u = te.placeholder((2,), name="X"), te.placeholder((3,), name="U")
    y = topi.scatter_elements(x, te.const(np.array([0, 1, 1])), u, reduction=reduction)
    far = -9.0 if reduction == "max" else 9.0
    values = {x: np.array([1.0, far]), u: np.ones(3)}
    dx, du = [interpret(t, values).tolist() for t in vjp(y, [x, u], np.ones(2, "float32"))]
    assert dx == [1.0, 0.0] and du == [0.0, 1.0, 0.0]


def test_gathers_count_from_both_ends() -> None:
    x, xs = tensor(3, 4)
    i, at = places(3, 2, extent=4)
    j, both = places(2, 5, extent=3, name="J")
    for y, index, values, expected in (
        (topi.take(x, i, 1), i, at, xs.take(at, 1)),
        (topi.gather(x, i, 1), i, at, np.take_along_axis(xs, at, 1)),
        (topi.gather_nd(x, j), j, both, xs[both[0], both[1]]),
    ):
        np.testing.assert_array_equal(interpret(y, {x: xs, index: values}), expected)


@pytest.mark.slow
def test_gathers_of_batches() -> None:
    x, xs = tensor(2, 3, 4)
    i, at = places(2, 5, 1, extent=3)
    expected = np.stack([xs[b, at[b, :, 0]] for b in range(2)])
    expect(topi.gather_nd(x, i, -1, 1), {x: xs, i: at}, expected)
    j, two = places(2, 2, extent=3, name="J")
    expected = np.stack([xs[b, two[0, b], two[1, b]] for b in range(2)])
    expect(topi.gather_nd(x, j, 0, 1), {x: xs, j: two}, expected)


@pytest.mark.slow
def test_symbolic_extents() -> None:
    n = te.size("n")
    x, u = te.placeholder((n, 2), "float64", name="X"), te.placeholder((3, 2), "float64", name="U")
    i = te.placeholder((3,), "int64", name="I")
    xs, us, at = rng.standard_normal((5, 2)), rng.standard_normal((3, 2)), np.array([4, -5, 2])
    expected = xs.copy()
    expected[at] = us
    y = topi.scatter_nd(x, topi.expand_dims(i, 0), u)
    np.testing.assert_array_equal(build(y, [x, i, u])(xs, at, us), expected)
    np.testing.assert_array_equal(build(topi.take(x, i), [x, i])(xs, at), xs[at])


def test_numbers_that_are_known_are_not_looked_at_twice() -> None:
    x, u = te.placeholder((3,), name="X"), te.placeholder((2,), "uint8", name="U")
    for index in (u, te.const(np.array([2, 0]))):
        assert "select" not in str(topi.take(x, index))
    assert "select" in str(topi.take(x, te.const(np.array([2, -1]))))


@pytest.mark.parametrize("place", [3, -4])
def test_places_outside(place: int) -> None:
    x, xs = tensor(3)
    i = te.placeholder((1,), "int64", name="I")
    u, us = tensor(1, name="U")
    for y in (topi.take(x, i), topi.gather(x, i, 0), topi.scatter_elements(x, i, u)):
        with pytest.raises(BoundsError):
            interpret(y, {x: xs, i: np.array([place]), u: us})


CASES = Refusals()
X = te.placeholder((2, 6), name="X")
I = te.placeholder((2, 6), "int64", name="I")  # noqa: E741  # the name in the texts
B = te.placeholder((2, 6), "bool", name="B")
D = te.placeholder((2, 6), "int32", name="D")
U = te.placeholder((2, 5), name="U")


@CASES.refused(
    DefinitionError,
    "scatter_elements: reduction must be 'set', 'add', 'mul', 'min' or 'max', got 'mean'.",
    "  hint: write another one with scatter and comm_reducer.",
)
def another_reduction() -> None:
    topi.scatter_elements(X, I, X, reduction="mean")


@CASES.refused(
    DTypeError,
    "scatter_elements: B holds truth values, which 'add' does not combine.",
    "  hint: set them, or convert: B.astype('int64').",
)
def sums_of_truth_values() -> None:
    topi.scatter_elements(B, I, B, reduction="add")


@CASES.refused(
    DTypeError,
    "scatter_nd: X of float32 does not fit into D of int32.",
    "  hint: convert one of them: X.astype('int32').",
)
def floats_into_integers() -> None:
    topi.scatter_nd(D, I, X)


@CASES.refused(
    ShapeError,
    "scatter_elements: axis 1 of I and U differ: 6 and 5.",
    "  hint: change the shape of one of them.",
)
def updates_of_another_shape() -> None:
    topi.scatter_elements(X, I, U)


@CASES.refused(
    ShapeError,
    "scatter_elements: axis 0 of X and J differ: 2 and 3.",
    "  hint: change the shape of one of them.",
)
def more_rows_than_there_are() -> None:
    j = te.placeholder((3, 5), "int64", name="J")
    topi.scatter_elements(X, j, te.placeholder((3, 5), name="V"), 1)


@CASES.refused(
    ShapeError,
    "scatter_nd: U has shape (2, 5), not (6,).",
    "  hint: one element, or one part of X, for each point of I.",
)
def updates_of_another_rank() -> None:
    topi.scatter_nd(X, I, U)


@CASES.refused(
    ShapeError,
    "scatter_nd: I (2, 6) cannot index X with 2 axes.",
    "  hint: its extent along axis 1 is the number of leading indices of x.",
)
def points_of_six_axes() -> None:
    topi.scatter_nd(X, I, X, axis=-1)


@CASES.refused(
    ShapeError,
    "gather_nd: batch axis 0 of X and J differ: 2 and 3.",
    "  hint: change the shape of one of them.",
)
def other_batches() -> None:
    topi.gather_nd(X, te.placeholder((3, 1), "int64", name="J"), 1, 1)


@CASES.refused(
    ShapeError,
    "gather_nd: I (2, 6) cannot index X with 2 axes, 1 of them batches.",
    "  hint: its first extent is the number of leading indices of x.",
)
def more_axes_than_are_left() -> None:
    topi.gather_nd(X, I, 0, 1)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
