"""Folds of a shift and of sums that it scales differentiate as sums, where that is proved."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.local.rescaled import rescaled
from tensorad.bound import bound
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import const
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import topological_ops

INF, NAN = float("inf"), float("nan")
ONE = const(1, FLOAT64)
Pair = tuple[Any, ...]


def plain(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    return top, x[1] * te.exp(x[0] - top) + y[1] * te.exp(y[0] - top)


def once(x: Pair, y: Pair) -> Pair:
    """One exponential a step."""
    top = te.maximum(x[0], y[0])
    e = te.exp(te.minimum(x[0], y[0]) - top)
    scales = [te.select(a[0] == top, 1.0, e) for a in (x, y)]
    return top, scales[0] * x[1] + scales[1] * y[1]


def halved(x: Pair, y: Pair) -> Pair:
    """Sums of exp(-e/2) relative to the least."""
    low = te.minimum(x[0], y[0])
    return low, te.exp((low - x[0]) / 2) * x[1] + te.exp((low - y[0]) / 2) * y[1]


def weighted(x: Pair, y: Pair) -> Pair:
    """(largest, sum of weights, sum of weighted values): a row of attention."""
    top = te.maximum(x[0], y[0])
    a, b = te.exp(x[0] - top), te.exp(y[0] - top)
    return top, x[1] * a + y[1] * b, x[2] * a + y[2] * b


def fold(combine: Callable[..., Any], start: float, parts: int) -> Any:
    return te.comm_reducer(combine, lambda *_: (start, *[0.0] * (parts - 1)), name="scaled")


@pytest.mark.parametrize(
    ("combine", "start", "parts", "rate"),
    [
        (plain, -INF, 2, Fraction(1)),
        (once, -INF, 2, Fraction(1)),
        (halved, INF, 2, Fraction(-1, 2)),
        (weighted, -INF, 3, Fraction(1)),
    ],
)
def test_found_on_the_formula(
    combine: Callable[..., Any], start: float, parts: int, rate: Fraction
) -> None:
    form = rescaled(fold(combine, start, parts).combiner((FLOAT64,) * parts, True))
    assert form is not None and form.shift == 0
    assert {c: s.rate for c, s in form.scales.items()} == dict.fromkeys(range(1, parts), rate)


def wrong_sign(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    return top, x[1] * te.exp(top - x[0]) + y[1] * te.exp(y[0] - top)


def not_homogeneous(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    return top, x[1] * te.exp(x[0] - 0.5 * top) + y[1] * te.exp(y[0] - 0.5 * top)


def one_more(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    return top, x[1] * te.exp(x[0] - top) + y[1] * te.exp(y[0] - top) + te.exp(y[0] - top)


def squared(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    return top, x[1] * te.exp(x[0] - top) + y[1] * y[1] * te.exp(y[0] - top)


def one_at_other_places(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    scales = [te.select(a[0] > 0.0, 1.0, te.exp(a[0] - top)) for a in (x, y)]
    return top, x[1] * scales[0] + y[1] * scales[1]


def with_a_jump(x: Pair, y: Pair) -> Pair:
    top, total = plain(x, y)
    return top, total + te.select(x[1] > 1.2, 1.0, 0.0)


def with_its_whole_part(x: Pair, y: Pair) -> Pair:
    top, total = plain(x, y)
    return top, total + x[1].astype("int64").astype("float64")


def never_scaled(x: Pair, y: Pair) -> Pair:
    """exp(0), once its operands are seen to be the same: not exp(own - last)."""
    top, same = te.maximum(x[0], y[0]), te.maximum(y[0], x[0])
    scales = [te.select(a[0] == top, 1.0, te.exp(same - top)) for a in (x, y)]
    return top, scales[0] * x[1] + scales[1] * y[1]


@pytest.mark.parametrize(
    "combine",
    [
        wrong_sign,
        not_homogeneous,
        one_more,
        squared,
        one_at_other_places,
        with_a_jump,
        with_its_whole_part,
        never_scaled,
    ],
)
def test_other_formulas_are_refused(combine: Callable[..., Any]) -> None:
    assert rescaled(fold(combine, -INF, 2).combiner((FLOAT64, FLOAT64), True)) is None


def test_a_start_that_is_an_operand_is_refused() -> None:
    assert rescaled(fold(plain, 0.0, 2).combiner((FLOAT64, FLOAT64), True)) is None


def is_swept(t: Tensor) -> bool:
    return any(isinstance(op, Scan) for op in topological_ops([t]))


def row(n: int, combine: Callable[..., Any], head: float) -> tuple[Tensor, Tensor, Tensor]:
    """x, m + head * log(s), its gradient: head 1 is logsumexp."""
    x, k = te.placeholder((n,), "float64", name="X"), te.reduce_axis(n, name="k")
    m, s = te.compute((), lambda: fold(combine, -INF, 2)((x[k], ONE), axis=k), name="F")
    y = te.compute((), lambda: m[()] + head * te.log(s[()]), name="Y")
    return x, y, ta.vjp(y, [x])[0]


@pytest.mark.parametrize("combine", [plain, once])
def test_the_shift_gets_no_gradient_where_it_cancels(combine: Callable[..., Any]) -> None:
    x, y, dx = row(5, combine, 1.0)
    xs = np.array([0.3, -1.0, 2.0, 2.0, 0.5])
    assert not is_swept(dx)
    assert int(str(ta.work(dx).iterations)) <= bound(y, [x])
    np.testing.assert_allclose(interpret(dx, {x: xs}), np.exp(xs) / np.exp(xs).sum(), rtol=1e-12)


@pytest.mark.parametrize("combine", [plain, once])
def test_what_does_not_cancel_goes_to_the_first_largest(combine: Callable[..., Any]) -> None:
    x, y, dx = row(5, combine, 2.0)
    assert not is_swept(dx)
    assert ta.gradcheck(y, x)
    xs = np.array([0.3, -1.0, 2.0, 2.0, 0.5])
    expected = 2 * np.exp(xs) / np.exp(xs).sum()
    expected[2] -= 1
    units = np.eye(5)
    v = te.placeholder((5,), "float64", "V")
    pushed = ta.jvp(y, {x: v})
    forward = [float(ta.evaluate(pushed, {x: xs, v: u})) for u in units]
    np.testing.assert_allclose(ta.evaluate(dx, {x: xs}), expected, rtol=1e-12)
    np.testing.assert_allclose(forward, expected, rtol=1e-12)


def test_a_jump_of_a_step_is_walked_backwards() -> None:
    x, _, dx = row(3, with_a_jump, 1.0)
    xs = np.array([0.3, 1.1, 0.7])
    scales = np.exp(xs - 1.1)  # s jumps by 1 at the last step
    expected = scales / (scales.sum() + 1)
    expected[1] += 1 / (scales.sum() + 1)
    np.testing.assert_allclose(ta.evaluate(dx, {x: xs}), expected, rtol=1e-12)


def test_weights_and_values_of_a_row_of_attention() -> None:
    q, v = te.placeholder((4, 6), "float64", "Q"), te.placeholder((4, 6), "float64", "V")
    k = te.reduce_axis(6, name="k")
    step = fold(weighted, -INF, 3)
    _, s, o = te.compute((4,), lambda i: step((q[i, k], ONE, v[i, k]), axis=k), name="F")
    y = te.compute((4,), lambda i: o[i] / s[i], name="Y")
    h = te.placeholder((4,), "float64", name="H")
    dq, dv = ta.vjp(y, [q, v], h)
    assert not is_swept(dq) and not is_swept(dv)
    rng = np.random.default_rng(0)
    given = {q: rng.normal(size=(4, 6)), v: rng.normal(size=(4, 6)), h: rng.normal(size=4)}
    p = np.exp(given[q]) / np.exp(given[q]).sum(1, keepdims=True)
    mean = (p * given[v]).sum(1, keepdims=True)
    expected = given[h][:, None] * p
    np.testing.assert_allclose(ta.evaluate(dv, given), expected, rtol=1e-12)
    np.testing.assert_allclose(ta.evaluate(dq, given), expected * (given[v] - mean), atol=1e-14)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.0], [0.5, 0.5]),
        ([-INF, 2.0], [0.0, 1.0]),
        ([-INF, -INF], [0.5, 0.5]),
        ([INF, 1.0, INF], [0.5, 0.0, 0.5]),
        ([NAN, 1.0], [NAN, NAN]),
    ],
)
def test_ties_infinities_and_nan(values: list[float], expected: list[float]) -> None:
    x, k = te.placeholder((len(values),), "float64", "X"), te.reduce_axis(len(values), name="k")
    y = te.compute((), lambda: te.logsumexp(x[k], axis=k), name="Y")
    (dx,) = ta.vjp(y, [x])
    assert not is_swept(dx)
    for found in (interpret(dx, {x: np.array(values)}), ta.evaluate(dx, {x: np.array(values)})):
        np.testing.assert_array_equal(found, expected)


def library(_: Pair, __: Pair) -> Pair:
    """Stands for te.logsumexp in the tests of all modes."""
    raise AssertionError


def total(combine: Callable[..., Any], n: int) -> tuple[Tensor, Tensor]:
    """x and log(sum(exp(x)))."""
    if combine is not library:
        return row(n, combine, 1.0)[:2]
    x, k = te.placeholder((n,), "float64", "X"), te.reduce_axis(n, name="k")
    return x, te.compute((), lambda: te.logsumexp(x[k], axis=k), name="Y")


TIES = [[1.0, 2.0, 2.0], [2.0, 2.0, 1.0], [2.0, 1.0, 2.0], [0.5, 0.5, 0.5], [0.3, 1.0, 2.0]]
INFINITE = {
    (-INF, -INF, -INF): [1 / 3, 1 / 3, 1 / 3],
    (1.0, INF, 2.0): [0.0, 1.0, 0.0],
    (INF, 1.0, INF): [0.5, 0.0, 0.5],
    (-INF, 2.0, 2.0): [0.0, 0.5, 0.5],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "combine", [library, *[pytest.param(c, marks=pytest.mark.slow) for c in (plain, once)]]
)
def test_all_modes_agree_at_ties(combine: Callable[..., Any]) -> None:
    """The gradient p and the Hessian diag(p) - p p', by every way to them."""
    points = {tuple(xs): np.exp(xs) / np.exp(xs).sum() for xs in TIES}
    if combine is not plain:  # inf - inf is NaN in its own value
        points.update({xs: np.array(p) for xs, p in INFINITE.items()})
    x, y = total(combine, 3)
    v = te.placeholder((3,), "float64", "V")
    (dx,) = ta.vjp(y, [x])
    every = te.placeholder((2, 3), "float64", "B")
    ways = [
        ta.vjp(dx, [x], v)[0],
        ta.jvp(dx, {x: v}),
        ta.hvp(y, x, v),
        ta.vjp(ta.jvp(y, {x: v}), [x])[0],
    ]
    pushed, hessian = ta.jvp(y, {x: v}), ta.hessian(y, x)
    h = te.placeholder((2,), "float64", "H")
    batch, (many,) = ta.jvp(y, {x: every}), ta.vjp(y, [x], h)
    for t in (dx, pushed, hessian, batch, many, *ways):
        assert not is_swept(t)
    for xs, p in points.items():
        given, exact = {x: np.array(xs)}, np.diag(p) - np.outer(p, p)
        units = np.eye(3)
        np.testing.assert_allclose(ta.evaluate(dx, given), p, atol=1e-15)
        forward = [float(ta.evaluate(pushed, {**given, v: u})) for u in units]
        np.testing.assert_allclose(forward, p, atol=1e-15)
        np.testing.assert_allclose(
            ta.evaluate(batch, {**given, every: units[:2]}), p[:2], atol=1e-15
        )
        found = ta.evaluate(many, {**given, h: np.array([1.0, 2.0])})
        np.testing.assert_allclose(found, [p, 2 * p], atol=1e-15)
        np.testing.assert_allclose(ta.evaluate(hessian, given), exact, atol=1e-15)
        for way in ways:
            rows = [ta.evaluate(way, {**given, v: u}) for u in units]
            np.testing.assert_allclose(rows, exact, atol=1e-15)


@pytest.mark.parametrize("combine", [library, plain, once])
def test_nan_makes_all_modes_nan(combine: Callable[..., Any]) -> None:
    x, y = total(combine, 3)
    v = te.placeholder((3,), "float64", "V")
    given = {x: np.array([NAN, 1.0, 2.0]), v: np.ones(3)}
    for t in (ta.vjp(y, [x])[0], ta.jvp(y, {x: v}), ta.hvp(y, x, v)):
        assert np.isnan(ta.evaluate(t, given)).all()


def test_values_and_scores_of_attention_at_ties_in_both_modes() -> None:
    q, v = te.placeholder((4,), "float64", "Q"), te.placeholder((4,), "float64", "V")
    k, step = te.reduce_axis(4, name="k"), fold(weighted, -INF, 3)
    _, s, o = te.compute((), lambda: step((q[k], ONE, v[k]), axis=k), name="F")
    y = te.compute((), lambda: o[()] / s[()], name="Y")
    a, b = te.placeholder((4,), "float64", "A"), te.placeholder((4,), "float64", "C")
    pushed, (dq, dv) = ta.jvp(y, {q: a, v: b}), ta.vjp(y, [q, v])
    given = {q: np.array([1.0, 3.0, 0.0, 3.0]), v: np.array([1.0, -2.0, 0.5, 4.0])}
    rng = np.random.default_rng(0)
    moves = {a: rng.normal(size=4), b: rng.normal(size=4)}
    p = np.exp(given[q]) / np.exp(given[q]).sum()
    by_q, by_v = p * (given[v] - p @ given[v]), p
    np.testing.assert_allclose(ta.evaluate(dq, given), by_q, atol=1e-15)
    np.testing.assert_allclose(ta.evaluate(dv, given), by_v, atol=1e-15)
    found = ta.evaluate(pushed, {**given, **moves})
    np.testing.assert_allclose(found, by_q @ moves[a] + by_v @ moves[b], rtol=1e-12)
    crossed = ta.vjp(dq, [v], a)[0]
    exact = p * moves[a] - p * (p @ moves[a])
    np.testing.assert_allclose(ta.evaluate(crossed, {**given, **moves}), exact, atol=1e-15)
    bent = ta.vjp(dq, [q], a)[0], ta.jvp(dq, {q: a})
    first, second = [ta.evaluate(t, {**given, **moves}) for t in bent]
    np.testing.assert_allclose(first, second, atol=1e-14)
