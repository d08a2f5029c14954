"""A head that a guard has switched off is not multiplied by an infinite partial derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.adjoints.switched import product, split, switched_on
from tensorad.ir.expr import TRUE, Expr, axis
from tensorad.ir.tensor import Tensor

X = te.placeholder((2, 3), "float64", name="X")
U = te.placeholder((2,), "float64", name="U")
T = te.placeholder((2, 3), "float64", name="T")
H = te.placeholder((2,), "float64", name="H")
ARRAYS = {
    X: np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]]),
    U: np.ones(2),
    T: np.ones((2, 3)),
    H: np.array([2.0, 3.0]),
}
ROW, J = axis("i", 0, 2), axis("j", 0, 3)


def _by_fold(k: Any) -> Tensor:
    norm = te.comm_reducer(lambda a, b: te.sqrt(a * a + b * b), lambda t: 0.0, name="norm")
    return te.compute((2,), lambda i: norm(X[i, k], axis=k), name="S")


def _by_sum(k: Any) -> Tensor:
    return te.compute((2,), lambda i: te.sqrt(te.sum(X[i, k] ** 2, axis=k)), name="S")


def _in_stages(k: Any) -> Tensor:
    total = te.compute((2,), lambda i: te.sum(X[i, k] ** 2, axis=k), name="total")
    return te.compute((2,), lambda i: te.sqrt(total[i]), name="S")


@pytest.mark.parametrize("norm", [_by_fold, _by_sum, _in_stages])
@pytest.mark.parametrize(
    "use",
    [
        lambda s, u: te.select(s > 0, s, u),
        lambda s, u: te.select(s > 0, -2.0 * s / u, u),
        lambda s, u: te.select(s > 0, te.select(u > 0, te.log(s), u), u),
    ],
)
def test_both_modes_say_0_where_a_select_is_off(
    norm: Callable[[Any], Tensor], use: Callable[[Expr, Expr], Expr]
) -> None:
    s = norm(te.reduce_axis((0, 3), name="k"))
    y = te.compute((2,), lambda i: use(s[i], U[i]), name="Y")
    arrays = {**ARRAYS, X: np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]])}
    back, forward, whole = ta.vjp(y, [X], H)[0], ta.jvp(y, {X: T}), ta.jacobian(y, X)
    moved, sent, every = ta.evaluate([forward, back, whole], arrays)
    assert moved[0] == 0
    assert sent[0].tolist() == [0, 0, 0]
    assert every[0].tolist() == [[0] * 3] * 2
    np.testing.assert_allclose(sent[1], 3 * every[1, 1])
    np.testing.assert_allclose(moved[1], every[1, 1].sum())


def test_a_pole_that_is_not_switched_off_stays() -> None:
    s = _by_sum(te.reduce_axis((0, 3), name="k"))
    y = te.compute((2,), lambda i: te.select(s[i] >= 0, s[i], U[i]), name="Y")
    sent = ta.evaluate(ta.vjp(y, [X], H)[0], ARRAYS)
    assert np.isnan(sent[0]).all()
    np.testing.assert_allclose(sent[1], [1.8, 2.4, 0])


def test_what_is_finite_is_multiplied_as_it_is() -> None:
    head = Adjoint((ROW,), te.select(U[ROW] > 0, H[ROW], 0.0))
    assert str(product(head, (ROW,), X[ROW, J])) == "select(U[i] > 0.0, H[i], 0.0)*X[i, j]"
    by_u = product(head, (ROW,), 1.0 / U[ROW])
    assert str(by_u) == "select(U[i] > 0.0, H[i]/U[i], 0.0)"
    assert str(switched_on(head, (J,))) == "U[j] > 0.0"
    stored = te.compute((2,), lambda i: te.select(U[i] > 0, H[i], 0.0), name="dS")
    made = product(Adjoint((ROW,), stored[ROW], stored), (ROW,), 1.0 / U[ROW])
    assert str(made) == "select(U[i] > 0.0, dS[i]/U[i], 0.0)"


@pytest.mark.parametrize(
    ("formula", "condition"),
    [
        (-te.select(U[ROW] > 0, H[ROW], 0.0) / U[ROW], "U[i] > 0.0"),
        (te.select(U[ROW] > 0, 0.0, H[ROW]) * X[ROW, J], "not U[i] > 0.0"),
        (X[ROW, J] * te.select(U[ROW] > 0, H[ROW], 0.0), None),
        (
            te.select(U[ROW] > 0, H[ROW], 0.0) + te.select(H[ROW] > 0, U[ROW], 0.0),
            "U[i] > 0.0 or H[i] > 0.0",
        ),
        (te.select(U[ROW] > 0, H[ROW], 0.0) + H[ROW], None),
        (te.select(ROW > 0, H[ROW], 0.0), None),
        (te.select(U[ROW] > 0, H[ROW], U[ROW]), None),
    ],
)
def test_what_a_formula_is_switched_by(formula: Expr, condition: str | None) -> None:
    found, value = split(formula)
    if condition is None:
        assert found is TRUE and value is formula
    else:
        assert str(found) == condition


Wide = te.placeholder((2, 3), "float64", name="W")
HW = te.placeholder((2, 3), "float64", name="HW")


def _summed(s: Any, w: Any, j: Any) -> Tensor:
    return te.compute((2,), lambda i: te.sum(te.select(w[i, j] > 0, s[i], 0.0), axis=j), name="Y")


def _product(s: Any, w: Any, j: Any) -> Tensor:
    r = te.compute((2, 3), lambda i, k: s[i] * w[i, k], name="R")
    return te.compute((2,), lambda i: te.sum(te.select(s[i] > 0, r[i, j] * r[i, j], 0.0), axis=j))


def _two_readers(s: Any, w: Any, j: Any) -> Tensor:
    twice = te.compute((2,), lambda i: te.select(s[i] > 0, 2.0 * s[i], 0.0), name="twice")
    return te.compute((2,), lambda i: te.select(s[i] > 1, s[i] * s[i], 0.0) + twice[i], name="Y")


def _guarded_twice(s: Any, w: Any, j: Any) -> Tensor:
    def formula(i: Any) -> Any:
        return te.select(s[i] > 0, te.log(s[i]), 0.0) + te.select(s[i] > 1, 1.0 / s[i], 0.0) * U[i]

    return te.compute((2,), formula, name="Y")


def _scattered(s: Any, w: Any, j: Any) -> Tensor:
    to = te.compute((2,), lambda i: te.select(U[i] > 5, i, 1 - i), name="to")
    moved = te.scatter((2,), (2,), lambda i: (to[i], s[i]), name="moved")
    return te.compute((2, 3), lambda i, k: te.select(w[i, k] > 0, moved[i], 0.0), name="Y")


CONTRIBUTED = [_summed, _product, _two_readers, _guarded_twice, _scattered]


@pytest.mark.parametrize("norm", [_by_fold, _in_stages])
@pytest.mark.parametrize("use", CONTRIBUTED)
def test_sums_of_contributions_that_are_all_off_are_0(
    norm: Callable[[Any], Tensor], use: Callable[..., Tensor]
) -> None:
    s = norm(te.reduce_axis((0, 3), name="k"))
    y = use(s, Wide, te.reduce_axis((0, 3), name="j"))
    row = np.array([-1.0, -2.0, -3.0])
    wide = np.array([row, row if use is _scattered else [-1.0, 2.0, 3.0]])
    zero, some = np.zeros(3), np.array([3.0, 4.0, 5.0])
    arrays = {X: np.array([zero, zero if use is _scattered else some]), U: ARRAYS[U], Wide: wide}
    ones = np.ones([int(str(n)) for n in y.shape])
    forward, (back,), whole = (
        ta.jvp(y, {X: np.ones((2, 3))}),
        ta.vjp(y, [X], ones),
        ta.jacobian(y, X),
    )
    moved, sent, every = ta.evaluate([forward, back, whole], arrays)
    for found in ta.interpret([forward, back, whole], arrays):
        assert np.isfinite(found).all()
    assert sent[0].tolist() == [0, 0, 0]
    assert np.abs(moved[0]).max() == 0
    np.testing.assert_allclose(sent, every.sum(axis=tuple(range(y.ndim))))
    np.testing.assert_allclose(sent.sum(), moved.sum())
    assert use is _scattered or sent[1].all()


def test_one_contribution_that_is_on_shows_the_pole() -> None:
    s, j = _by_sum(te.reduce_axis((0, 3), name="k")), te.reduce_axis((0, 3), name="j")
    y = _summed(s, Wide, j)
    arrays = {X: np.zeros((2, 3)), Wide: np.array([[-1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])}
    for sent in (
        *ta.interpret(ta.vjp(y, [X], 1.0), arrays),
        ta.evaluate(ta.vjp(y, X, 1.0)[0], arrays),
    ):
        assert sent[0].tolist() == [0, 0, 0]
        assert np.isnan(sent[1]).all()


def test_what_a_branch_not_taken_read_does_not_reach_its_other_factors() -> None:
    logs = te.compute((2,), lambda i: te.log(U[i]), name="logs")
    scale = te.placeholder((), "float64", name="scale")
    scaled = te.compute((2,), lambda i: logs[i] * scale(), name="scaled")
    i = te.reduce_axis((0, 2), name="i")
    y = te.compute((), lambda: te.sum(te.select(U[i] > 0, scaled[i], 0.0), axis=i), name="Y")
    arrays = {U: np.array([0.0, 2.0]), scale: np.array(3.0)}
    by_scale, by_u = ta.evaluate(ta.vjp(y, [scale, U]), arrays)
    np.testing.assert_allclose(by_scale, np.log(2.0))
    np.testing.assert_allclose(by_u, [0.0, 1.5])


def test_programs_with_where_take_one_branch() -> None:
    topi = ta.topi

    @ta.function
    def loss(x: Any, w: Any) -> Any:
        logs, roots, on = ta.log(x), ta.sqrt(x), x > 0
        return (topi.where(on, w * logs, x) * topi.where(on, roots, 2.0 * x)).sum()

    x, w = np.array([0.0, 1.0, 4.0]), np.array([1.0, 2.0, 3.0])
    by_x, by_w = ta.grad(loss, (0, 1))(x, w)
    np.testing.assert_allclose(by_x, [0.0, 2.0, 3 / 4 * 2 + 3 * np.log(4) / 4])
    np.testing.assert_allclose(by_w, [0.0, 0.0, 2 * np.log(4)])

    @ta.function
    def unit(x: Any) -> Any:
        n = ta.sqrt((x * x).sum())
        return topi.where(n > 0, x / n, x).sum()

    assert ta.grad(unit)(np.zeros(3)).tolist() == [1, 1, 1]


def test_elements_that_nothing_reads_have_no_derivative() -> None:
    """Two of four roots are read; those of 0 are not, though the switch is on there, too."""
    x, v = (te.placeholder((4,), "float64", name=name) for name in "XV")
    roots = te.compute((4,), lambda i: te.sqrt(x[i]), name="roots")
    y = te.compute((2, 4), lambda i, j: te.select(v[i] > 0, roots[i] * v[j], 0.0), name="Y")
    given = {x: np.array([1.0, 4.0, 0.0, 0.0]), v: np.ones(4)}
    assert ta.evaluate(ta.vjp(y, [x], np.ones((2, 4)))[0], given).tolist() == [2.0, 1.0, 0.0, 0.0]
