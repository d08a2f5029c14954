"""The table of partials: no operation is missing, every partial is the slope."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import jvp, vjp
from tensorad.autodiff.local.rules import RULES
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Expr, call
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

BY_SELECTION = ("maximum", "minimum")
"""Differentiated in linear.py: the winner's derivative."""

POINTS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "sign"), (0.3, -1.6)),
    **{f.name: f.slopes_at for f in FUNCTIONS.values()},
}
UNARY = (
    "neg", "abs", "sign", "floor", "ceil", "round", "trunc",
    *[f.name for f in FUNCTIONS.values() if f.arity == 1],
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum",
    *[f.name for f in FUNCTIONS.values() if f.arity == 2],
)  # fmt: skip


def test_every_operation_has_partials() -> None:
    missing = [op for op in OPERATIONS if op not in RULES and op not in BY_SELECTION]
    assert missing == []
    assert [op for op in RULES if op not in OPERATIONS] == []


def _scalar(name: str) -> Tensor:
    return te.placeholder((), dtype="float64", name=name)


def _value(t: Tensor, at: dict[Tensor, float]) -> float:
    return float(interpret(t, {x: np.array(v) for x, v in at.items()}))


def _compute(e: Expr) -> Tensor:
    made: Tensor = te.compute((), lambda: e, name="y")
    return made


@pytest.mark.parametrize("op", UNARY)
def test_unary_partials_are_slopes(op: str) -> None:
    x = _scalar("x")
    y = _compute(call(op, x[()]))
    (dx,) = vjp(y, [x])
    tangent = jvp(y, {x: 1.0})
    for point in POINTS.get(op, (-1.3, 0.4, 1.7)):
        eps = 1e-6
        slope = (_value(y, {x: point + eps}) - _value(y, {x: point - eps})) / (2 * eps)
        assert _value(dx, {x: point}) == pytest.approx(slope, rel=1e-7, abs=1e-9)
        assert _value(tangent, {x: point}) == pytest.approx(slope, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("op", BINARY)
def test_binary_partials_are_slopes(op: str) -> None:
    a, b = _scalar("a"), _scalar("b")
    y = _compute(call(op, a[()], b[()]))
    grads = vjp(y, [a, b])
    for point in ((0.7, 1.9), (2.3, 0.4), (1.1, -1.5)):
        at = dict(zip((a, b), point, strict=True))
        for x, dx in zip((a, b), grads, strict=True):
            eps = 1e-6
            up, down = {**at, x: at[x] + eps}, {**at, x: at[x] - eps}
            slope = (_value(y, up) - _value(y, down)) / (2 * eps)
            assert _value(dx, at) == pytest.approx(slope, rel=1e-7, abs=1e-9)


def _gradient(op: object, *points: float) -> list[float]:
    names = [_scalar(n) for n in "ab"[: len(points)]]
    y = _compute(op(*[t[()] for t in names]))  # type: ignore[operator]
    at = dict(zip(names, points, strict=True))
    return [_value(g, at) for g in vjp(y, names)]


def test_kinks_poles_and_ties() -> None:
    assert _gradient(lambda x: call("abs", x), 0.0) == [0.0]
    assert _gradient(lambda x: call("maximum", te.const(0.0, "float64"), x), 0.0) == [0.0]
    assert _gradient(lambda a, b: call("maximum", a, b), 2.0, 2.0) == [1.0, 0.0]
    assert _gradient(lambda a, b: call("minimum", a, b), 2.0, 2.0) == [1.0, 0.0]
    assert _gradient(lambda a, b: call("maximum", a, b), 2.0, math.nan) == [0.0, 1.0]
    assert _gradient(lambda a, b: call("maximum", a, b), math.nan, 2.0) == [1.0, 0.0]
    assert _gradient(lambda x: call("sqrt", x), 0.0) == [math.inf]
    assert _gradient(lambda x: x**2, -3.0) == [-6.0]
    assert _gradient(lambda x: x**2.0, 0.0) == [0.0]
    assert _gradient(lambda x: x**1, 0.0) == [1.0]
    assert _gradient(lambda x: x**0, 0.0) == [0.0]
    assert _gradient(lambda x: x**-1, 0.5) == [-4.0]


def test_derivative_stays_inside_the_select() -> None:
    def guarded(x: Expr) -> Expr:
        return te.select(x > 0, te.log(x), te.const(0.0, "float64"))

    assert _gradient(guarded, 0.0) == [0.0]
    assert _gradient(guarded, -1.0) == [0.0]
    assert _gradient(lambda x: guarded(x) * guarded(x), 0.0) == [0.0]
    assert _gradient(lambda a, b: te.select(a > 0, a * b, b / a), 0.0, 1.0)[1] == math.inf


def test_infinite_values_behind_false_guards_do_no_harm() -> None:
    def both(x: Expr, y: Expr) -> Expr:
        shared = te.log(x)
        return te.select(x > 1, shared * y, te.select(x > 0, shared, y))

    assert _gradient(both, 0.0, 3.0) == [0.0, 1.0]
    assert _gradient(both, 2.0, 3.0) == [1.5, pytest.approx(math.log(2.0))]
