"""Lifting conditions out of products, and the passes that use them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, te
from tensorad.ir.expr import TRUE, Expr, cast, const, logical_and, select
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.simplify.zeros.lift import both, guarded, lift, summands
from tests.support.oracles import box

X = te.placeholder((6, 6), name="X", dtype="float64")


def _delta(condition: Expr) -> Expr:
    return cast(condition, X.dtype)


def test_deltas_and_selects_are_lifted_through_products() -> None:
    i, j = box(i=6, j=6)
    zero = const(0, X.dtype)
    condition, value = lift(X[i, j] * _delta(i == j) * select(i < 3, X[j, i], zero))
    assert str(condition) == "i == j and i < 3"
    assert str(value) == "X[i, j]*X[j, i]"


def test_sums_are_not_lifted() -> None:
    i, j = box(i=6, j=6)
    e = _delta(i == j) + X[i, j]
    assert lift(e)[0] is TRUE


def test_conditions_on_data_stay_inside() -> None:
    i, j = box(i=6, j=6)
    zero = const(0, X.dtype)
    condition, value = lift(select(logical_and(i > j, X[i, j] > 0), X[i, j], zero))
    assert str(condition) == "i > j"
    assert str(value) == "select(X[i, j] > 0.0, X[i, j], 0.0)"


def test_data_is_read_only_where_the_indices_allow() -> None:
    i, j = box(i=6, j=6)
    data = X[i - 1, j] > 0
    assert str(guarded(logical_and(data, i >= 1), X[i, j])) == (
        "select(i >= 1, select(X[i - 1, j] > 0.0, X[i, j], 0.0), 0.0)"
    )
    assert str(both(i >= 1, [data])) == "select(i >= 1, X[i - 1, j] > 0.0, False)"


def test_summands_carry_their_signs() -> None:
    i, j = box(i=6, j=6)
    terms = summands(X[i, j] - (X[j, i] - X[i, i]))
    assert [(sign, str(t)) for sign, t in terms] == [
        (1, "X[i, j]"),
        (-1, "X[j, i]"),
        (1, "X[i, i]"),
    ]


def _trace() -> Tensor:
    k, m = te.reduce_axis(6, "k"), te.reduce_axis(6, "m")

    def body(i: Expr) -> Expr:
        same = logical_and(k == i, m == 5 - i)
        mirrored = logical_and(m == i, k == m)
        return te.sum(X[k, m] * _delta(same) - X[m, k] * _delta(mirrored), axis=[k, m])

    made: Tensor = te.compute((6,), body, name="T")
    return made


def test_sums_of_deltas_are_split_and_solved() -> None:
    t = _trace()
    solved = ta.OptimizeAndLiftNonzeronessConditions(t)
    assert str(solved.op.bodies[0]) == "X[i, 5 - i] + -X[i, i]"
    x = np.random.default_rng(0).standard_normal((6, 6))
    assert np.allclose(interpret(solved, {X: x}), interpret(t, {X: x}))
    assert ta.work(t).iterations == 216
    assert ta.work(solved).iterations == 6


@pytest.mark.parametrize("debug", ["ir", "verify", "check"])
def test_debugging_flags(debug: str, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=(debug,)):
        solved = ta.OptimizeAndLiftNonzeronessConditions(_trace())
    assert str(solved.op.bodies[0]) == "X[i, 5 - i] + -X[i, i]"
    printed = capsys.readouterr().err
    assert ("after solve_domains:" in printed) == (debug == "ir")


def test_one_pass_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=("ir:split_sums",)):
        ta.OptimizeAndLiftNonzeronessConditions(_trace())
    printed = capsys.readouterr().err
    assert "after split_sums:" in printed
    assert "after solve_domains:" not in printed


def test_bisecting_stops_the_passes() -> None:
    with config.override(bisect=0):
        unchanged = ta.OptimizeAndLiftNonzeronessConditions(_trace())
    assert ta.work(unchanged).iterations == 216


def test_equal_formulas_over_other_tensors_are_solved_once() -> None:
    texts = []
    for name in ("A", "B"):
        a = te.placeholder((6, 6), name=name, dtype="float64")
        h = te.placeholder((6,), name="H", dtype="float64")
        k = te.reduce_axis(6, "k")
        y = te.compute((6,), lambda i, a=a, k=k: te.sum(a[i, k] * a[k, i], axis=k), name="Y")
        texts.append(ta.PrintTensorRecursively(ta.vjp(y, [a], h)).replace(name, "?"))
    assert texts[0] == texts[1]


def test_shared_factors_are_looked_at_once() -> None:
    i, j = box(i=6, j=6)
    power = select(i < 3, X[i, j], const(0, X.dtype))
    for _ in range(60):
        power = power * power
    condition, _ = lift(power)
    assert str(condition) == "i < 3"
