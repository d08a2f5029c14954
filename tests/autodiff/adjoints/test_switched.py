"""A head that a guard has switched off is not multiplied by an infinite partial derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.adjoints.switched import may_be_infinite, product, split, switched_on
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


def test_poles() -> None:
    finite = [
        X[ROW, J],
        te.exp(U[ROW]) * 2.0,
        U[ROW] / 3.0,
        te.select(U[ROW] > 0, te.tanh(U[ROW]), 1.0),
    ]
    infinite = [
        1.0 / U[ROW],
        te.sqrt(U[ROW]),
        te.log(U[ROW]),
        U[ROW] ** 0.5,
        X[ROW, J] * (2.0 / U[ROW]),
    ]
    assert [may_be_infinite(e) for e in (*finite, *infinite)] == [False] * 4 + [True] * 5
