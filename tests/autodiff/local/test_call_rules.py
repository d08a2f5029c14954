"""Rules of calls: transposed, and along many directions at once."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.autodiff.local.call_rules import RuleOfCall, at_each
from tensorad.autodiff.sweep import transposed
from tensorad.ir.tensor import FunctionCall, Loop, Saved

X = ta.placeholder((3,), "float64", name="X")
H = ta.placeholder((2, 4, 3), "float64", name="H")
W = ta.placeholder((3,), "float64", name="W")
VALUES = {X: np.arange(3.0), W: np.array([1.0, -2.0, 0.5])}
HEADS = np.random.default_rng(0).standard_normal((2, 4, 3))


def test_formulas_are_transposed_twice() -> None:
    (y, none) = at_each([X * W, None], [X, None], [H, None], (2, 4), transposed)
    assert none is None and y is not None and not isinstance(y.op, Saved)
    found = ta.evaluate(y, {**VALUES, H: HEADS})
    np.testing.assert_allclose(found, HEADS * VALUES[W])


def test_calls_of_plain_rules_run_in_a_loop_for_each_leading_axis() -> None:
    f = ta.custom_rule(vjp=lambda out, h, x: [h])(lambda x: x * 3.0)
    (y,) = at_each([f(X) * W], [X], [H], (2, 4), transposed)
    assert y is not None and isinstance(y.op, Saved)
    outer = y.op.control
    assert isinstance(outer, Loop) and isinstance(y.op.inner.op, Saved)
    found = ta.evaluate(y, {**VALUES, H: HEADS})
    np.testing.assert_allclose(found, 3.0 * HEADS * VALUES[W])


def test_a_rule_is_asked_once_in_its_direction() -> None:
    asked: list[str] = []

    def vjp(out: Any, h: Any, x: Any, w: Any) -> Any:
        asked.append("vjp")
        return [h * w, h * x]

    y = ta.custom_rule(vjp=vjp)(lambda x, w: x * w)(X, W)
    call = y.op
    assert isinstance(call, FunctionCall) and call.rule is not None
    rule = RuleOfCall(call, call.rule)
    assert rule.deps == (X, W) and rule.made == (y,)
    (along,) = rule.all_tangents([W, None], (), transposed)
    assert asked == ["vjp"] and along is not None
    np.testing.assert_allclose(ta.evaluate(along, VALUES), VALUES[W] ** 2)
