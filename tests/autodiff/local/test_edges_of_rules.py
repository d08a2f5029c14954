"""Derivatives where guards decide: powers, ties with an identity, scaled sums, what is stopped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.local.linear import any_of, body_terms
from tensorad.checking import gradcheck
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Axis, Expr, Read, axis, const, logical_and, logical_not, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor, outputs
from tests.support.oracles import evaluate

INF = float("inf")
Pair = tuple[Any, ...]
X = te.placeholder((4,), "float64", name="X")
M = te.placeholder((4,), "float64", name="M")
I = axis("i", 0, 4)  # noqa: E741


def values(tensors: list[Tensor], given: dict[Tensor, list[float]]) -> list[list[float]]:
    arrays = {t: np.asarray(a, str(t.dtype)) for t, a in given.items()}
    return [a.tolist() for a in interpret(tensors, arrays)]


def ones(*tensors: Tensor) -> list[Tensor]:
    return [te.compute(t.shape, lambda *i: const(1.0, FLOAT64)) for t in tensors]


def test_powers_of_nothing_and_of_numbers_below_it() -> None:
    x, n = (te.placeholder((5,), "float64", name=name) for name in "xn")
    y = te.compute((5,), lambda i: x[i] ** n[i])
    by_base, by_exponent = values(
        ta.vjp(y, [x, n], ones(y)[0]), {x: [0.0, 0.0, -2.0, 2.0, 3.0], n: [0.0, 2.0, 3.0, 3.0, 0.0]}
    )
    np.testing.assert_allclose(by_base, [0.0, 0.0, 12.0, 12.0, 0.0])
    np.testing.assert_allclose(by_exponent, [0.0, 0.0, 0.0, 8 * np.log(2), np.log(3)])


def terms_of(body: Callable[[Axis], Expr], factor: Expr | None = None) -> list[Any]:
    return body_terms(0, body(I), lambda e: isinstance(e, Read) and e.tensor is X, factor=factor)


def test_a_read_has_a_term_for_each_guard_on_indices_and_one_for_data() -> None:
    x, m = read(X, (I,)), read(M, (I,))
    by_data = terms_of(lambda i: te.select(m > 0, x, 0.0) + te.select(m < 1, x * 2, 0.0))
    assert len(by_data) == 1
    by_index = terms_of(lambda i: te.select(i < 1, x, 0.0) + te.select(i > 2, x * 2, 0.0))
    assert len(by_index) == 2


def test_a_factor_is_in_every_term() -> None:
    x = read(X, (I,))
    found = terms_of(
        lambda i: te.select(i < 1, x, 0.0) + te.select(i > 2, x * 2, 0.0), const(3.0, FLOAT64)
    )
    assert sorted(_coefficients(found)) == [3.0, 6.0]


def _coefficients(terms: list[Any]) -> list[float]:
    made = [outputs(Compute("c", (I,), (t.coefficient,), ""))[0] for t in terms]
    return [a[0] for a in values(made, {})]


def test_one_of_several_conditions() -> None:
    p, q, r = axis("p", 0, 2), axis("q", 0, 2), axis("r", 0, 2)
    a, b, c = p > 0, q > 0, r > 0
    lists = (
        [logical_and(a, b), logical_and(a, c), logical_not(a)],
        [logical_and(a, b), logical_and(a, c), logical_and(b, c)],
        [logical_and(a, b), logical_and(a, logical_not(b)), c],
        [logical_and(a, b, c), logical_and(a, b)],
    )
    for conditions in lists:
        found = any_of(conditions)
        for at in product((0, 1), repeat=3):
            point = dict(zip((p, q, r), at, strict=True))
            want = any(evaluate(e, point) for e in conditions)
            assert bool(evaluate(found, point)) == want


def test_a_read_by_data_is_moved_only_where_a_guard_holds() -> None:
    p, k = te.placeholder((3,), "int64", name="p"), te.placeholder((3,), "float64", name="k")
    y = te.compute(
        (3,),
        lambda i: te.select(k[i] > 1, X[p[i]] * 2, 0.0) + te.select(k[i] < -1, X[p[i]] * 3, 0.0),
    )
    d = te.placeholder((4,), "float64", name="d")
    given = {X: [1.0, 2.0, 3.0, 4.0], p: [-7, 1, 2], k: [0.0, 2.0, -2.0], d: [1.0, 5.0, 7.0, 9.0]}
    assert values([ta.jvp(y, {X: d})], given) == [[0.0, 10.0, 21.0]]
    found = ta.evaluate(
        ta.vjp(y, X, ones(y)[0]), {t: np.asarray(a) for t, a in given.items() if t is not d}
    )
    assert np.asarray(found).tolist() == [0.0, 2.0, 3.0, 0.0]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_stops_one_mode_lets_the_other_pass(mode: str) -> None:
    y = te.compute((4,), lambda i: te.stop_gradient(X[i] * 3, mode=mode) + X[i])
    given = {X: [1.0, 2.0, 3.0, 4.0]}
    (back,) = values(ta.vjp(y, [X], ones(y)[0]), given)
    (ahead,) = values([ta.jvp(y, {X: 1.0})], given)
    assert (back, ahead) == (
        ([4.0] * 4, [1.0] * 4) if mode == "forward" else ([1.0] * 4, [4.0] * 4)
    )


def chosen(x: Pair, y: Pair) -> Pair:
    """The larger first, with what belongs to it."""
    first = x[0] >= y[0]
    return tuple([te.select(first, a, b) for a, b in zip(x, y, strict=True)])


def slopes_of(start: tuple[float, ...], columns: list[list[float]]) -> list[list[float]]:
    fold = te.comm_reducer(chosen, lambda *_: start, name="first")
    xs = [te.placeholder((3,), "float64", name=f"x{n}") for n in range(len(start))]
    k = te.reduce_axis(3, name="k")
    ys = te.compute((), lambda: fold(tuple([x[k] for x in xs]), axis=k), name="y")
    found = ta.vjp(list(ys), xs, ones(*ys))
    return values(found, dict(zip(xs, columns, strict=True)))


def test_an_element_equal_to_the_identity_wins_in_its_place() -> None:
    (a, b) = slopes_of((-INF, 0.0), [[-INF] * 3, [0.0] * 3])
    assert sum(a) == 1.0 and sum(b) == 1.0


def test_the_identity_keeps_what_only_it_has() -> None:
    (a, b) = slopes_of((0.0, 5.0), [[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]])
    assert (a, b) == ([0.0] * 3, [0.0] * 3)
    (_, b) = slopes_of((-INF, 5.0), [[-INF] * 3, [7.0, 8.0, 9.0]])
    assert b == [0.0] * 3


def check_fold(combine: Callable[[Pair, Pair], Pair], start: tuple[float, ...], order: int) -> None:
    fold = te.comm_reducer(combine, lambda *_: start, name="fold")
    xs = [te.placeholder((4,), "float64", name=f"x{n}") for n in range(len(start))]
    k = te.reduce_axis(4, name="k")
    ys = te.compute((), lambda: fold(tuple([x[k] for x in xs]), axis=k), name="y")
    assert gradcheck(list(ys), xs, order=order, tol=1e-5)


def test_a_component_taken_from_a_computed_one() -> None:
    def combine(x: Pair, y: Pair) -> Pair:
        return x[0] + y[0], te.select(x[1] > y[1], x[0], y[1])

    check_fold(combine, (0.0, 0.0), 1)


def scaled(rate: float, shift: float) -> Callable[[Pair, Pair], Pair]:
    def combine(x: Pair, y: Pair) -> Pair:
        top = te.maximum(x[0], y[0])
        a, b = (te.exp((e[0] - top) * rate + shift) for e in (x, y))
        return top, x[1] * a + y[1] * b

    return combine


def once(x: Pair, y: Pair) -> Pair:
    top = te.maximum(x[0], y[0])
    a, b = (te.select(e[0] == top, 1.0, te.exp(e[0] - top)) for e in (x, y))
    return top, x[1] * a + y[1] * b


@pytest.mark.parametrize(
    ("combine", "order"),
    [(scaled(2.0, 0.0), 2), (scaled(1.0, -0.5), 1), (once, 2)],
    ids=["another rate", "a further factor", "one where both are the same"],
)
def test_scaled_sums(combine: Callable[[Pair, Pair], Pair], order: int) -> None:
    check_fold(combine, (-INF, 0.0), order)


def test_scaled_sums_of_some() -> None:
    fold = te.comm_reducer(scaled(1.0, 0.0), lambda *_: (-INF, 0.0), name="fold")
    k = te.reduce_axis(4, name="k")
    y = te.compute((), lambda: fold((X[k] * X[k], X[k]), axis=k, where=M[k] > 0), name="y")
    mask = np.array([1.0, -1.0, 1.0, 1.0])
    assert gradcheck(list(y), [X], arrays={M: mask})
    (g,) = interpret(ta.vjp(list(y), [X], ones(*y)), {X: np.arange(1.0, 5.0), M: mask})
    assert g[1] == 0.0


def test_conditions_on_data_are_asked_in_the_order_in_which_they_stand() -> None:
    """The first one keeps the second one's index inside."""
    w, along = (te.placeholder((3,), "float64", name=name) for name in "WT")
    at = te.placeholder((3,), "int64", name="at")

    def element(i: Expr) -> Any:
        known = te.select(X[at[i]] > 0, X[at[i]] * w[i], 0.0)
        return te.select(at[i] < 4, known, 0.0)

    y = te.compute((3,), element, name="Y")
    given = {X: np.array([1.0, -2.0, 3.0, 4.0]), at: np.array([2, 9, 1])}
    given |= dict.fromkeys((w, along), np.ones(3))
    made = [ta.vjp(y, [w], np.ones(3))[0], ta.jvp(y, {w: along})]
    for found in (*ta.evaluate(made, given), *interpret(made, given)):
        assert found.tolist() == [3.0, 0.0, 0.0]
