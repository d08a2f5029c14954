"""topi's reshaping, joining, cutting, padding and gathering against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.checking import gradcheck
from tensorad.counting import work
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(6)
X = te.placeholder((2, 3, 4), "float64", name="X")
x = rng.random((2, 3, 4))


def same(t: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(interpret(t, {X: x}), expected)
    gradcheck(t, X)


SHAPES = [(24,), (4, 6), (2, 12), (6, 4), (3, 2, 4), (2, 3, 2, 2), (1, 24), (2, 3, 4, 1), (8, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_reshape(shape: tuple[int, ...]) -> None:
    same(topi.reshape(X, shape), x.reshape(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_reshape_only_moves_elements(shape: tuple[int, ...]) -> None:
    (gradient,) = vjp(topi.reshape(X, shape), [X], te.placeholder(shape, "float64", name="H"))
    assert work(gradient).iterations == 24


def test_reshape_completes_one_extent() -> None:
    same(topi.reshape(X, (4, -1)), x.reshape(4, -1))
    assert topi.reshape(X, (-1,)).shape == (24,)
    n = te.size("n")
    v = te.placeholder((n, 4), name="V")
    assert [str(d) for d in topi.reshape(v, (-1,)).shape] == ["n*4"]


@pytest.mark.parametrize(
    ("old", "new"),
    [((0, 3), (3, 0)), ((0, 2), (0,)), ((2, 0), (0, 5, 1)), ((0,), (7, 0, 2)), ((3, 0, 4), (0,))],
)
def test_reshape_of_nothing(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    v = te.placeholder(old, name="V")
    assert interpret(topi.reshape(v, new), {v: np.zeros(old)}).shape == new


@pytest.mark.parametrize("new", [(0, -1), (-1, 0)])
def test_no_extent_is_completed_beside_an_empty_one(new: tuple[int, ...]) -> None:
    for old in ((0, 3), (2, 3)):
        with pytest.raises(ShapeError, match="reshape: cannot complete the shape"):
            topi.reshape(te.placeholder(old, name="V"), new)


def test_reshape_of_scalars() -> None:
    s = te.placeholder((), name="S")
    assert interpret(topi.reshape(s, (1, 1)), {s: np.array(3.0)}).tolist() == [[3.0]]
    v = te.placeholder((1, 1), name="V")
    assert interpret(topi.reshape(v, ()), {v: np.array([[3.0]])}).shape == ()


def test_reshape_with_sizes() -> None:
    n, m = te.size("n"), te.size("m")
    v = te.placeholder((n, m), name="V")
    flat = topi.reshape(v, (n * m,))
    back = topi.reshape(flat, (n, m))
    for a, b in ((0, 3), (1, 1), (3, 0), (2, 5)):
        values = rng.random((a, b))
        np.testing.assert_array_equal(interpret(flat, {v: values}), values.reshape(-1))
        np.testing.assert_array_equal(interpret(back, {v: values}), values)


def test_extents_are_compared_as_polynomials() -> None:
    n, m = te.size("n"), te.size("m")
    v = te.placeholder((n, m), name="V")
    turned = topi.reshape(topi.reshape(v, (m * n,)), (m, n))
    values = rng.random((2, 5))
    np.testing.assert_array_equal(interpret(turned, {v: values}), values.reshape(5, 2))
    a, b = te.placeholder((2 * n + 2,), name="A"), te.placeholder((2 * (n + 1),), name="B")
    assert topi.add(a, b).ndim == 1
    with pytest.raises(ShapeError):
        topi.add(a, te.placeholder((2 * n + 1,), name="C"))


def test_flatten() -> None:
    same(topi.flatten(X), x.reshape(2, 12))
    assert topi.flatten(te.placeholder((3,), name="V")).shape == (3, 1)
    empty = te.placeholder((2, 0, 3), name="E")
    assert interpret(topi.flatten(empty), {empty: np.zeros((2, 0, 3))}).shape == (2, 0)


@pytest.mark.parametrize("axes", [None, (0, 2, 1), (2, 0, 1), (-1, -3, -2)])
def test_transpose(axes: tuple[int, ...] | None) -> None:
    same(topi.transpose(X, axes), x.transpose(axes))


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -4])
def test_expand_dims(axis: int) -> None:
    same(topi.expand_dims(X, axis), np.expand_dims(x, axis))


def test_squeeze() -> None:
    t = topi.reshape(X, (2, 1, 12, 1))
    y = x.reshape(2, 1, 12, 1)
    same(topi.squeeze(t), y.squeeze())
    same(topi.squeeze(t, 1), y.squeeze(1))
    same(topi.squeeze(t, [-1, 1]), y.squeeze((-1, 1)))
    n = te.size("n")
    assert topi.squeeze(te.placeholder((n, 1), name="V")).shape == (n,)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate(axis: int) -> None:
    y = topi.concatenate([X, topi.multiply(X, 2), X], axis)
    same(y, np.concatenate([x, 2 * x, x], axis))


@pytest.mark.parametrize("axis", [0, 2, -1, -4])
def test_stack(axis: int) -> None:
    same(topi.stack([X, topi.multiply(X, 2)], axis), np.stack([x, 2 * x], axis))


def test_concatenate_with_sizes_and_nothing() -> None:
    n = te.size("n")
    v, w = te.placeholder((n,), name="V"), te.placeholder((2,), name="W")
    none = te.placeholder((0,), name="N")
    joined = topi.concatenate([v, w, none])
    for length in (0, 1, 4):
        a, b = rng.random(length), rng.random(2)
        value = interpret(joined, {v: a, w: b, none: np.zeros(0)})
        np.testing.assert_array_equal(value, np.concatenate([a, b]))


def test_split() -> None:
    for sections, axis in ((2, -1), (3, 1), ([1, 3], 2), ([0, 2, 2], 1)):
        parts = topi.split(X, sections, axis)
        assert isinstance(parts, list)
        expected = np.split(x, sections, axis)
        assert len(parts) == len(expected)
        for part, piece in zip(parts, expected, strict=True):
            same(part, piece)


def test_pad() -> None:
    same(topi.pad(X, (1, 0, 2)), np.pad(x, ((1, 1), (0, 0), (2, 2))))
    same(
        topi.pad(X, (0, 1, 0), (2, 0, 0), value=7),
        np.pad(x, ((0, 2), (1, 0), (0, 0)), constant_values=7),
    )
    whole = te.placeholder((2,), "int32", name="W")
    values = np.array([4, 5], dtype=np.int32)
    assert interpret(topi.pad(whole, (1,)), {whole: values}).tolist() == [0, 4, 5, 0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(axis: int) -> None:
    index = te.placeholder((2, 2), "int32", name="I")
    places = rng.integers(0, x.shape[axis], (2, 2)).astype(np.int32)
    y = topi.take(X, index, axis)
    np.testing.assert_array_equal(interpret(y, {X: x, index: places}), x.take(places, axis))
    gradcheck(y, X, arrays={index: places})


CASES = Refusals()
V = te.placeholder((5,), name="V")


@CASES.refused(
    ShapeError,
    "reshape: X of shape (2, 3, 4) has 24 elements, the new shape (5, 5) has 25.",
    "  hint: keep the number of elements; one extent may be -1.",
)
def another_number_of_elements() -> None:
    topi.reshape(X, (5, 5))


@CASES.refused(
    ShapeError,
    "reshape: cannot complete the shape (-1, 5) for X of shape (2, 3, 4).",
    "  hint: at most one extent may be -1, and the others must divide the element count.",
)
def an_extent_that_does_not_divide() -> None:
    topi.reshape(X, (-1, 5))


@CASES.refused(
    DefinitionError,
    "transpose: axes (0, 0, 1) are no permutation of the 3 axes of X.",
    "  hint: name every axis once, e.g. (2, 1, 0).",
)
def axes_named_twice() -> None:
    topi.transpose(X, (0, 0, 1))


@CASES.refused(
    DefinitionError,
    "expand_dims: axis 4 is out of range for a tensor with 4 axes.",
    "  hint: use an axis from -4 to 3.",
)
def a_new_axis_too_far() -> None:
    topi.expand_dims(X, 4)


@CASES.refused(
    ShapeError,
    "squeeze: axis 1 of X has extent 3, not 1.",
    "  hint: squeeze removes axes of extent 1; read one element with compute.",
)
def squeezing_a_long_axis() -> None:
    topi.squeeze(X, 1)


@CASES.refused(
    ShapeError,
    "concatenate: tensors[1] must have 3 axes, but V has shape (5,).",
    "  hint: reshape or expand_dims it first.",
)
def joining_different_ranks() -> None:
    topi.concatenate([X, V])


@CASES.refused(
    ShapeError,
    "concatenate: transpose (4, 3, 2) and X (2, 3, 4) differ outside axis 0.",
    "  hint: only the joined axis may differ.",
)
def joining_different_shapes() -> None:
    topi.concatenate([X, topi.transpose(X)])


@CASES.refused(
    DefinitionError,
    "concatenate: needs at least one tensor.",
    "  hint: give a list, e.g. concatenate([a, b], axis=0).",
)
def joining_nothing() -> None:
    topi.concatenate([])


@CASES.refused(
    ShapeError,
    "split: axis 1 of X has extent 3, which does not divide into 2 equal parts.",
    "  hint: give the positions of the cuts instead, e.g. [1].",
)
def parts_that_are_not_equal() -> None:
    topi.split(X, 2, 1)


@CASES.refused(
    ShapeError,
    "split: positions (3, 1) do not increase within the extent 4.",
    "  hint: list the positions of the cuts in order.",
)
def cuts_out_of_order() -> None:
    topi.split(X, [3, 1], 2)


@CASES.refused(
    ShapeError,
    "pad: before must hold 3 integers >= 0, one per axis of X, got (1,).",
    "  hint: e.g. (0, 1, 1) pads all axes but the first.",
)
def too_few_pads() -> None:
    topi.pad(X, (1,))


@CASES.refused(
    DTypeError,
    "take: indices must be integers, but V has dtype float32.",
    "  hint: convert them: V.astype('int64').",
)
def taking_at_floats() -> None:
    topi.take(X, V)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
