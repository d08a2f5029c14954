"""Rules for tensors inside of blocks that flow to tensors outside: true rules change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.local.flows import outer_deps
from tensorad.autodiff.local.overrides import check_override
from tensorad.ir.tensor import Tensor

VALUES = np.array([0.9, -0.4, 0.7])
Step = Callable[[Tensor], Tensor]


class Case:
    """y = c*sin(3x)*0.3 somewhere inside of blocks; sin(3x) is computed around all of them."""

    def __init__(self, around: Callable[[Step, Tensor], Tensor]) -> None:
        self.x = ta.placeholder((3,), "float64", name="x")
        self.far = self.x * 3.0
        self.w = ta.sin(self.far) * 0.3
        self.made: list[tuple[Tensor, Tensor]] = []

        def step(c: Tensor) -> Tensor:
            y = c * self.w
            self.made.append((y, c))
            return y + c * 0.5

        self.result = around(step, self.x)

    def rules(self, to: str) -> dict[Tensor, Any]:
        """True rules for all y, flowing past sin(3x) to x, or to 3x."""
        target, factor = (self.x, 3.0) if to == "x" else (self.far, 1.0)

        def rule_of(c: Tensor) -> Any:
            def rule(t: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor]:
                return [head * self.w, head * c * ta.cos(self.x * 3.0) * (0.3 * factor)]

            return [c, target], rule

        return {y: rule_of(c) for y, c in self.made}


def nested(step: Step, x: Tensor) -> Tensor:
    def body(t: Any, c: Tensor) -> Tensor:
        inner = ta.function(lambda c: ta.cond(c[0] > -9.0, lambda: step(c), lambda: c))
        return ta.while_loop(lambda d: abs(d).sum() > 1.0, inner, c) + t

    return ta.for_loop(0, 3, body, x)


def scanned(step: Step, x: Tensor) -> Tensor:
    rows = ta.compute((4, 3), lambda i, j: x[j] * (i + 1), name="rows")
    last, ys = ta.scan(lambda c, row: (step(c) + row, step(row)), x, rows)
    return last + ys.sum(0)


CASES: dict[str, Callable[[Step, Tensor], Tensor]] = {
    "call": lambda step, x: ta.function(step)(x),
    "branch": lambda step, x: ta.cond(x.sum() > 0, lambda: step(x) * x, lambda: x * x),
    "other branch": lambda step, x: ta.switch(
        1, [lambda: x * x, lambda: x + step(x), lambda: step(x * x)]
    ),
    "for": lambda step, x: ta.for_loop(0, 3, lambda t, c: step(c), x * 0.5),
    "while": lambda step, x: ta.while_loop(lambda c: abs(c).sum() > 0.1, step, x),
    "scan": scanned,
    "nested": nested,
    "twice": lambda step, x: ta.for_loop(0, 2, lambda t, c: step(step(c)) * x, x),
}


def values(tensors: list[Tensor], case: Case) -> list[np.ndarray]:
    return ta.evaluate(tensors, {case.x: VALUES})


@pytest.mark.sampled(7)
@pytest.mark.parametrize("to", ["x", "far"])
@pytest.mark.parametrize("name", CASES)
def test_true_rules_inside_of_blocks_change_nothing(name: str, to: str) -> None:
    case = Case(CASES[name])
    rules = case.rules(to)
    head = np.array([1.0, -2.0, 0.5])
    for y, given in ((case.result, head), (case.result.sum(), None)):
        plain = ta.vjp(y, [case.x], given)
        ruled = ta.vjp(y, [case.x], given, override=rules)
        np.testing.assert_allclose(*values([*plain, *ruled], case), rtol=1e-12)
        along = {case.x: ta.const(head)}
        both = [ta.jvp(y, along), ta.jvp(y, along, override=rules)]
        np.testing.assert_allclose(*values(both, case), rtol=1e-12)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_whole_jacobians_and_second_derivatives(name: str) -> None:
    case = Case(CASES[name])
    rules = case.rules("x")
    plain = ta.jacobian(case.result, case.x)
    ways = [
        ta.jacobian(case.result, case.x, mode=m, override=rules) for m in ("reverse", "forward")
    ]
    first, *others = values([plain, *ways], case)
    for found in others:
        np.testing.assert_allclose(found, first, rtol=1e-12, atol=1e-14)
    y = case.result.sum()
    (dx,), (ruled,) = ta.vjp(y, [case.x]), ta.vjp(y, [case.x], override=rules)
    second = [ta.vjp(d, [case.x], VALUES)[0] for d in (dx, ruled)]
    np.testing.assert_allclose(*values(second, case), rtol=1e-11)


def test_what_rules_flow_to_outside() -> None:
    case = Case(CASES["for"])
    loop = case.result.op
    rules = check_override(case.rules("far"))
    assert outer_deps(loop, rules) == (case.far,)  # type: ignore[arg-type]
    assert outer_deps(loop, {}) == ()  # type: ignore[arg-type]
    captured = check_override({case.made[0][0]: ([case.w], lambda t, deps, head: [head])})
    assert outer_deps(loop, captured) == ()  # type: ignore[arg-type]
    own = check_override({case.made[0][0]: ([case.made[0][1]], lambda t, deps, head: [head])})
    assert outer_deps(loop, own) == ()  # type: ignore[arg-type]


def test_a_rule_may_flow_to_what_only_it_reads() -> None:
    """A tensor of each iteration that the formula does not read, made of one outside."""
    x = ta.placeholder((3,), "float64", name="x")
    rules: dict[Tensor, Any] = {}

    def body(t: Any, c: Tensor) -> Tensor:
        y = ta.sin(c)
        other = c * x * 2.0
        rules[y] = ([other], lambda t, deps, head: [head * 10.0])
        return y + 1.0

    y = ta.for_loop(0, 1, body, ta.const(VALUES)).sum()
    (dx,) = ta.vjp(y, [x], override=rules)
    np.testing.assert_allclose(ta.evaluate(dx, {x: VALUES}), 20.0 * VALUES)
    along = ta.jvp(y, {x: ta.const(VALUES)}, override=rules)
    np.testing.assert_allclose(ta.evaluate(along, {x: VALUES}), 20.0 * (VALUES**2).sum())
