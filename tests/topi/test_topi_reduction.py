"""topi's reductions of whole tensors against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.building import evaluate
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(9)
X = te.placeholder((2, 3, 4), "float64", name="X")
x = rng.standard_normal((2, 3, 4))

AXES = [None, 0, 1, -1, (0, 2), [1, 2], (-1, 0), (0, 1, 2), ()]
ORACLES = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ORACLES)
def test_values_and_gradients(name: str, axis: int | tuple[int, ...] | None) -> None:
    along = tuple(axis) if isinstance(axis, list) else axis
    for keepdims in (False, True):
        y = getattr(topi, name)(X, axis, keepdims)
        expected = ORACLES[name](x, axis=along, keepdims=keepdims)
        assert y.shape == expected.shape
        np.testing.assert_allclose(interpret(y, {X: x}), expected, atol=1e-12)
    gradcheck(y, X, arrays={X: x})


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize(("name", "oracle"), [("argmax", np.argmax), ("argmin", np.argmin)])
def test_positions(name: str, oracle: object, axis: int | None) -> None:
    assert callable(oracle)
    ties = rng.integers(0, 3, (2, 3, 4)).astype(float)
    for keepdims in (False, True):
        y = getattr(topi, name)(X, axis, keepdims)
        assert y.dtype == "int64"
        expected = oracle(ties, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(interpret(y, {X: ties}), expected)


def test_positions_over_several_axes_count_row_by_row() -> None:
    y = topi.argmax(X, (0, 2))
    expected = x.transpose(1, 0, 2).reshape(3, 8).argmax(1)
    np.testing.assert_array_equal(interpret(y, {X: x}), expected)


def test_scalars_reduce_to_themselves() -> None:
    s = te.placeholder((), name="S")
    flag = te.placeholder((), "bool", name="F")
    assert int(interpret(topi.argmax(s), {s: np.array(3.0)})) == 0
    assert topi.sum(flag).dtype == "int64"
    assert float(interpret(topi.mean(s), {s: np.array(3.0)})) == 3.0


def test_dtypes() -> None:
    whole = te.placeholder((3,), "int32", name="W")
    values = np.array([1, 2, 4], dtype=np.int32)
    assert topi.sum(whole).dtype == "int32"
    assert topi.mean(whole).dtype == "float32"
    np.testing.assert_allclose(interpret(topi.mean(whole), {whole: values}), 7 / 3)
    wide = te.placeholder((3,), "int64", name="L")
    large = np.array([2**24, 2**24 + 1, 2**24 + 4])
    assert topi.mean(wide).dtype == topi.variance(wide).dtype == (wide / 2).dtype == "float64"
    found = evaluate([topi.mean(wide), topi.variance(wide)], {wide: large})
    np.testing.assert_allclose(found, [large.mean(), large.var()], rtol=1e-14)
    flags = te.placeholder((3,), "bool", name="F")
    assert int(interpret(topi.sum(flags), {flags: values > 1})) == 2


def test_narrow_integers_add_up_without_wrapping_around() -> None:
    narrow = te.placeholder((2,), "uint8", name="U")
    values = {narrow: np.array([200, 136], np.uint8)}
    for function, expected in (
        (topi.sum, 336),
        (topi.prod, 27200),
        (topi.cumsum, [200, 336]),
        (topi.cumprod, [200, 27200]),
    ):
        result = function(narrow)
        assert result.dtype == "int64"
        assert evaluate(result, values).tolist() == interpret(result, values).tolist() == expected
        wrapped = function(narrow, dtype="uint8")
        assert wrapped.dtype == "uint8"
        assert evaluate(wrapped, values).tolist() == (np.array(expected) % 256).tolist()
        assert function(narrow, dtype="float32").dtype == "float32"


def test_dtypes_of_sums() -> None:
    """As documented; NumPy agrees but for int32, which it makes int64."""
    wider = {"bool": "int64", "uint8": "int64", "int8": "int64", "int16": "int64"}
    for dtype in (*wider, "int32", "int64", "float32", "float64"):
        x = te.placeholder((2,), dtype, name="X")
        for function in (topi.sum, topi.prod, topi.cumsum, topi.cumprod):
            assert function(x).dtype == wider.get(dtype, dtype)


def test_nothing_reduces_to_the_identity() -> None:
    empty = te.placeholder((0, 2), name="E")
    values = {empty: np.zeros((0, 2))}
    assert interpret(topi.sum(empty, 0), values).tolist() == [0, 0]
    assert interpret(topi.max(empty, 0), values).tolist() == [-np.inf, -np.inf]
    assert interpret(topi.sum(empty, 1), values).shape == (0,)


def test_symbolic_axes() -> None:
    n = te.size("n")
    v = te.placeholder((n, 2), "float64", name="V")
    for length in (1, 4):
        a = rng.random((length, 2))
        np.testing.assert_allclose(interpret(topi.mean(v, 0), {v: a}), a.mean(0))
        np.testing.assert_allclose(interpret(topi.mean(v), {v: a}), a.mean())
        np.testing.assert_array_equal(interpret(topi.argmax(v), {v: a}), a.argmax())


CASES = Refusals()


@CASES.refused(
    DefinitionError,
    "sum: axis 3 is out of range for a tensor with 3 axes.",
    "  hint: use an axis from -3 to 2.",
)
def an_axis_too_far() -> None:
    topi.sum(X, 3)


@CASES.refused(
    DefinitionError,
    "max: axis 1.5 is no integer.",
    "  hint: count axes from 0, or from -1 at the end.",
)
def a_float_axis() -> None:
    topi.max(X, 1.5)


@CASES.refused(
    DefinitionError,
    "min: an axis is named twice in (0, -3).",
    "  hint: name every axis once; None means all of them.",
)
def an_axis_named_twice() -> None:
    topi.min(X, (0, -3))


@CASES.refused(
    ShapeError,
    "mean: axis 0 of E has extent 0; its mean is undefined.",
    "  hint: sum it instead, or give the axis an element.",
)
def the_mean_of_nothing() -> None:
    topi.mean(te.placeholder((0, 2), name="E"), 0)


@CASES.refused(
    DefinitionError,
    "argmax: x must be a tensor or an array with axes, got list.",
    "  hint: e.g. a placeholder, or np.array([1.0, 2.0]).",
)
def a_list() -> None:
    topi.argmax([1.0, 2.0])  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "sum: axis 0 is out of range for a tensor with 0 axes.",
    "  hint: a 0-d tensor has no axis.",
)
def an_axis_of_a_scalar() -> None:
    topi.sum(te.placeholder((), name="S"), 0)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("reverse", [False, True])
def test_logarithms_of_sums_of_exponentials_do_not_overflow(reverse: bool) -> None:
    x = te.placeholder((3, 5), "float64", name="X")
    xs = np.random.default_rng(4).normal(size=(3, 5)) * 400
    y = topi.logcumsumexp(x, 1, reverse=reverse)
    want = np.logaddexp.accumulate(xs[:, ::-1] if reverse else xs, 1)
    want = want[:, ::-1] if reverse else want
    np.testing.assert_allclose(interpret(y, {x: xs}), want, rtol=1e-14)
    before = interpret(topi.logcumsumexp(x, 1, exclusive=True, reverse=reverse), {x: xs})
    assert (before[:, -1 if reverse else 0] == -np.inf).all()
    gradcheck(y, [x], arrays={x: xs / 400}, order=2)
