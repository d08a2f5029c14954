"""topi's elementwise operators against NumPy, with their gradients and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.building import evaluate
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(5)
X = te.placeholder((3, 4), "float64", name="X")
B = te.placeholder((4,), "float64", name="B")
x = rng.random((3, 4)) * 0.8 + 0.1
b = rng.random(4) * 0.8 + 0.1

UNARY = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt,
    "rsqrt": lambda v: 1 / np.sqrt(v), "tanh": np.tanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "abs": np.abs, "square": np.square,
    "negative": np.negative,
}  # fmt: skip
STEPS = {
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc,
    "isnan": np.isnan, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY, *STEPS])
def test_unary(name: str) -> None:
    oracle = {**UNARY, **STEPS}[name]
    y = getattr(topi, name)(X)
    v = x if name in UNARY else np.array([-1.5, -0.5, 0.5, 2.5, 0, np.inf] * 2).reshape(3, 4)
    np.testing.assert_allclose(interpret(y, {X: v}), oracle(v), rtol=1e-12)
    if name in UNARY:
        gradcheck(y, X, arrays={X: x})


def test_erf() -> None:
    y = topi.erf(X)
    near_one = interpret(y, {X: np.full((3, 4), 3.0)})
    np.testing.assert_allclose(near_one, 0.9999779095030014, rtol=1e-12)
    gradcheck(y, X, arrays={X: x})


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "power": np.power, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    operator, oracle = getattr(topi, name), BINARY[name]
    y = operator(X, B)
    np.testing.assert_allclose(interpret(y, {X: x, B: b}), oracle(x, b))
    gradcheck(y, [X, B], arrays={X: x, B: b})
    np.testing.assert_allclose(interpret(operator(X, 0.5), {X: x}), oracle(x, 0.5))
    np.testing.assert_allclose(interpret(operator(0.5, X), {X: x}), oracle(0.5, x))


COMPARISONS = {
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    y = getattr(topi, name)(X, B)
    assert y.dtype == "bool"
    v = np.array([b, b + 1, b - 1])
    np.testing.assert_array_equal(interpret(y, {X: v, B: b}), COMPARISONS[name](v, b))


def test_integer_division_and_remainder_round_down() -> None:
    n = te.placeholder((6,), "int32", name="N")
    v = np.array([-7, -1, 0, 1, 7, 8], dtype=np.int32)
    np.testing.assert_array_equal(interpret(topi.floor_divide(n, 3), {n: v}), v // 3)
    np.testing.assert_array_equal(interpret(topi.mod(n, -3), {n: v}), v % -3)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_fmod_of_integers_has_the_sign_of_the_first(dtype: str) -> None:
    pairs = np.array([(a, b) for a in (0, 5, 7, 96, 127) for b in (1, 3, 7, 100)], dtype)
    signs = (1,) if dtype == "uint8" else (1, -1)
    a, b = np.array([(s * x, t * y) for x, y in pairs for s in signs for t in signs], dtype).T
    m, n = (te.placeholder(a.shape, dtype, name=name) for name in "MN")
    y = topi.fmod(m, n)
    assert y.dtype == dtype
    np.testing.assert_array_equal(interpret(y, {m: a, n: b}), np.fmod(a, b))
    np.testing.assert_array_equal(interpret(topi.fmod(m, 7), {m: a}), np.fmod(a, 7))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_shifts_move_bits(dtype: str) -> None:
    ends = np.iinfo(dtype)
    a = np.array([ends.min, ends.max, 0, 1, 5, 100], dtype)[:, None]
    b = np.arange(min(ends.max, 70) + 1).astype(dtype)
    m, n = te.placeholder(a.shape, dtype, name="M"), te.placeholder(b.shape, dtype, name="N")
    ys = [topi.left_shift(m, n), topi.right_shift(m, n)]
    assert [y.dtype for y in ys] == [dtype, dtype]
    for y, want in zip(ys, (np.left_shift(a, b), np.right_shift(a, b)), strict=True):
        np.testing.assert_array_equal(interpret(y, {m: a, n: b}), want)
        np.testing.assert_array_equal(evaluate(y, {m: a, n: b}), want)
    np.testing.assert_array_equal(
        evaluate(topi.left_shift(3, n), {n: b}), np.left_shift(np.array(3, dtype), b)
    )


def test_shifts_by_negative_numbers_leave_no_bits() -> None:
    n = te.placeholder((2,), "int32", name="N")
    v = np.array([5, -5], np.int32)
    assert evaluate(topi.left_shift(n, -1), {n: v}).tolist() == [0, 0]
    assert evaluate(topi.right_shift(n, -1), {n: v}).tolist() == [0, -1]


SPECIAL = np.array([-np.inf, -2.0, -0.0, 0.0, 1.5, np.inf, np.nan])


@pytest.mark.parametrize("name", ["copysign", "heaviside", "logaddexp", "logaddexp2"])
def test_pairs_of_special_numbers(name: str) -> None:
    a, b = te.placeholder((7, 1), "float64", name="A"), te.placeholder((7,), "float64", name="B")
    bindings = {a: SPECIAL[:, None], b: SPECIAL}
    with np.errstate(invalid="ignore"):
        want = getattr(np, name)(SPECIAL[:, None], SPECIAL)
    for found in (f(getattr(topi, name)(a, b), bindings) for f in (evaluate, interpret)):
        np.testing.assert_allclose(found, want, rtol=1e-14)
        np.testing.assert_array_equal(*[np.signbit(v)[want == 0] for v in (found, want)])


def test_logaddexp_is_smooth_where_both_are_the_same() -> None:
    for operator in (topi.logaddexp, topi.logaddexp2):
        gradcheck(operator(X, B), [X, B], arrays={X: np.array([b, b, b + 50]), B: b}, order=2)


def test_logic() -> None:
    p, q = topi.greater(X, 0.5), topi.less(B, 0.5)
    values = {X: x, B: b}
    np.testing.assert_array_equal(interpret(topi.logical_and(p, q), values), (x > 0.5) & (b < 0.5))
    np.testing.assert_array_equal(interpret(topi.logical_or(p, q), values), (x > 0.5) | (b < 0.5))
    np.testing.assert_array_equal(interpret(topi.logical_xor(p, q), values), (x > 0.5) ^ (b < 0.5))
    np.testing.assert_array_equal(interpret(topi.logical_not(q), values), ~(b < 0.5))


def test_clip_where_cast() -> None:
    y = topi.clip(X, 0.3, 0.6)
    np.testing.assert_allclose(interpret(y, {X: x}), x.clip(0.3, 0.6))
    gradcheck(y, X, arrays={X: x})
    z = topi.where(topi.greater(B, 0.5), X, 2.0)
    np.testing.assert_allclose(interpret(z, {X: x, B: b}), np.where(b > 0.5, x, 2.0))
    gradcheck(z, X, arrays={X: x, B: b})
    assert topi.where(topi.greater(B, 0.5), 1.0, X).shape == (3, 4)
    whole = topi.cast(topi.multiply(X, 100), "int32")
    assert whole.dtype == "int32"
    np.testing.assert_array_equal(interpret(whole, {X: x}), (x * 100).astype(np.int32))


def test_broadcast_and_full() -> None:
    column = te.placeholder((3, 1), "float64", name="C")
    y = topi.broadcast_to(column, (2, 3, 4))
    c = rng.random((3, 1))
    np.testing.assert_allclose(interpret(y, {column: c}), np.broadcast_to(c, (2, 3, 4)))
    gradcheck(y, column)
    assert topi.broadcast_to(X, X.shape) is X
    assert interpret(topi.full((2, 2), 3, "int8"), {}).tolist() == [[3, 3], [3, 3]]
    assert topi.full_like(X, 0).dtype == "float64"
    assert interpret(topi.full((0,), 1.0), {}).shape == (0,)


def test_symbolic_shapes_broadcast() -> None:
    n = te.size("n")
    rows, row = te.placeholder((5, n), name="R"), te.placeholder((n,), name="r")
    for length in (0, 1, 3):
        a, r = rng.random((5, length)), rng.random(length)
        np.testing.assert_allclose(interpret(topi.add(rows, row), {rows: a, row: r}), a + r)


CASES = Refusals()
P = te.placeholder((3,), name="P")


@CASES.refused(
    DefinitionError,
    "exp: x must be a tensor or an array with axes, got list.",
    "  hint: e.g. a placeholder, or np.array([1.0, 2.0]).",
)
def a_list() -> None:
    topi.exp([1.0, 2.0])  # type: ignore[arg-type]  # the mistake


@CASES.refused(
    DefinitionError,
    "add: b must be a tensor or an array with axes, got float.",
    "  hint: e.g. a placeholder, or np.array([1.0, 2.0]).",
)
def two_numbers() -> None:
    topi.add(1.0, 2.0)


@CASES.refused(
    DTypeError,
    "list cannot stand in a formula: [1, 2, 3].",
    "  hint: use expressions, Python numbers, or read a tensor at indices: X[i, j].",
)
def a_list_operand() -> None:
    topi.add(P, [1, 2, 3])


@CASES.refused(
    ShapeError,
    "multiply: shapes (3, 4) and (3,) do not broadcast.",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def shapes_that_do_not_broadcast() -> None:
    topi.multiply(X, P)


@CASES.refused(
    ShapeError,
    "broadcast_to: shape (3, 4) does not broadcast to (3,).",
    "  in: X",
    "  hint: trailing axes must be equal, or 1 in the tensor.",
)
def broadcasting_to_fewer_axes() -> None:
    topi.broadcast_to(X, (3,))


@CASES.refused(
    ShapeError,
    "broadcast_to: shape (3, 4) does not broadcast to (3, 1).",
    "  in: X",
    "  hint: trailing axes must be equal, or 1 in the tensor.",
)
def broadcasting_to_a_smaller_extent() -> None:
    topi.broadcast_to(X, (3, 1))


@CASES.refused(
    DTypeError,
    "the condition of select must be boolean, got float64.",
    "  in: X[i0, i1]",
    "  hint: compare it with something, e.g. x != 0.",
)
def where_on_numbers() -> None:
    topi.where(X, 1.0, 0.0)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
