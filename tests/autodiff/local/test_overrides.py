"""Given derivatives by themselves: what is checked, and a rule's missing direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.local.flows import derivation_inputs, derivation_order
from tensorad.autodiff.local.overrides import DerivativeRule, check_override
from tensorad.autodiff.reverse import vjp
from tensorad.errors import GradError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

X = te.placeholder((3,), "float64", name="X")
H = te.placeholder((3,), "float64", name="H")
S = te.compute((3,), lambda i: X[i] * X[i], name="S")
Y = te.compute((3,), lambda i: S[i] + X[i], name="Y")
HEAD = np.array([1.0, 10.0, 100.0])


def tripled(*given: Any) -> Tensor:
    """Three times the head of a vjp, or the tangent of a jvp, whatever the tensor."""
    t, _, moved = given
    (head,) = moved if isinstance(moved, list) else (moved,)
    assert t is S
    return te.compute((3,), lambda i: 3.0 * head[i], name="R")


@pytest.mark.parametrize("given", [{"vjp": tripled}, {"jvp": tripled}])
def test_one_direction_gives_both(given: dict[str, Any]) -> None:
    rule = check_override({S: DerivativeRule([X], **given)})[S]
    (adjoint,) = rule.adjoints(H, (), vjp)
    tangent = rule.tangent([H], (), vjp)
    assert adjoint is not None
    assert tangent is not None
    for found in interpret([adjoint, tangent], {H: HEAD}):
        np.testing.assert_array_equal(found, 3 * HEAD)


def test_none_is_zero() -> None:
    rule = check_override({S: ([X], lambda *_: None)})[S]
    assert rule.adjoints(H, (), vjp) == [None]
    assert rule.tangent([H], (), vjp) is None
    given = check_override({S: ([X], tripled)})[S]
    assert given.tangent([None], (), vjp) is None


def test_rules_are_read_from_functions_pairs_and_records() -> None:
    assert check_override(None) == {}
    for given in (tripled, ([X], tripled), DerivativeRule(vjp=tripled)):
        rule = check_override({S: given})[S]
        assert (rule.of, rule.deps, rule.vjp, rule.jvp) == (S, (X,), tripled, None)


def test_rules_that_are_not_linear_have_no_transpose() -> None:
    def squared(_: Tensor, __: list[Tensor], head: Tensor) -> Tensor:
        return te.compute((3,), lambda i: head[i] * head[i], name="R")

    rule = check_override({S: ([X], squared)})[S]
    with pytest.raises(GradError) as caught:
        rule.tangent([H], (), vjp)
    assert str(caught.value) == (
        "the vjp given for S is not linear, so it has no transpose.\n"
        "  hint: a rule multiplies its head (or tangents) by values that do not depend on it; or "
        "give both vjp and jvp: DerivativeRule(deps, vjp=..., jvp=...)."
    )


def test_rules_flow_to_tensors_behind() -> None:
    with pytest.raises(GradError) as caught:
        check_override({S: ([Y], tripled)})
    assert str(caught.value) == (
        "the rule given for S flows to a tensor that depends on S.\n  hint: name tensors behind it."
    )


def test_derivatives_flow_where_rules_say() -> None:
    rules = check_override({Y: ([X], tripled)})
    assert list(derivation_inputs(Y.op, rules)) == [X]
    assert list(derivation_inputs(Y.op, {})) == [S, X]
    assert derivation_order([Y], rules) == [X.op, Y.op]
    assert set(derivation_order([Y], {})) == {X.op, S.op, Y.op}
