"""Forward mode of scatters and rules: starts, conditions, what rules leave out."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.autodiff.local.linear import InMode
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import axis, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs

X = te.placeholder((3,), "float64", name="X")
S = te.placeholder((4,), "float64", name="S")
DX = te.placeholder((3,), "float64", name="DX")
DS = te.placeholder((4,), "float64", name="DS")
GIVEN = {
    X: np.array([1.0, 2.0, 3.0]),
    S: np.array([1.0, 1.0, 2.0, 2.0]),
    DX: np.array([10.0, 20.0, 30.0]),
    DS: np.array([1.0, 2.0, 3.0, 4.0]),
}


def tangent(y: Tensor, along: dict[Tensor, Tensor]) -> list[float]:
    (found,) = interpret([ta.jvp(y, along)], GIVEN)
    return list(found.tolist())


def test_a_start_moves() -> None:
    y = te.scatter(4, 3, lambda p: (p, X[p] * 2), init=S)
    assert tangent(y, {S: DS}) == [1.0, 2.0, 3.0, 4.0]
    assert tangent(y, {S: DS, X: DX}) == [21.0, 42.0, 63.0, 4.0]


def test_conditions_of_updates_hold_for_tangents() -> None:
    p = axis("p", 0, 3)
    u = Update((p,), read(X, (p,)), read(S, (p,)) > 1.5)
    op = Scatter("y", (4,), FLOAT64, (p,), (u,), sum_combiner(FLOAT64), None)
    assert tangent(outputs(op)[0], {X: DX}) == [0.0, 0.0, 30.0, 0.0]


def test_a_rule_is_all_that_moves() -> None:
    y = te.compute((3,), lambda i: X[i] * S[i], name="y")

    def by_x(head: Tensor) -> Tensor:
        return te.compute(head.shape, lambda *i: head[i] * 5.0)

    rule = {y: ([X], lambda *args: [by_x(args[-1])])}
    assert InMode(lambda e: True, "forward")(read(X, (axis("i", 0, 3),)))
    (found,) = interpret([ta.jvp(y, {S: DS}, override=rule)], GIVEN)
    assert found.tolist() == [0.0, 0.0, 0.0]


def test_an_infinite_tangent_behind_closed_selects() -> None:
    root = te.compute((3,), lambda i: te.sqrt(X[i] - 1.0), name="root")
    y = te.compute(
        (3,),
        lambda i: te.select(S[i] > 5, root[i], 0.0) + te.select(S[i] < -5, root[i] * 2, X[i]),
        name="y",
    )
    assert tangent(y, {X: DX}) == [10.0, 20.0, 30.0]
