"""Jacobians in either mode and second derivatives of small formulas, by value."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.derivatives import hessian, hvp, jacobian
from tensorad.errors import GradError
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, check

X = te.placeholder((3,), "float64", name="X")
V = te.placeholder((3,), "float64", name="V")
Y = te.compute((2,), lambda i: X[i] * X[i + 1], name="Y")
VALUES, MOVED = np.array([2.0, 3.0, 5.0]), np.array([1.0, -1.0, 2.0])


@pytest.mark.parametrize("mode", [None, "reverse", "forward"])
def test_jacobians_of_both_modes(mode: str | None) -> None:
    (found,) = interpret([jacobian(Y, X, mode=mode)], {X: VALUES})
    np.testing.assert_array_equal(found, [[3.0, 2.0, 0.0], [0.0, 5.0, 3.0]])


def test_there_is_no_third_mode() -> None:
    with pytest.raises(GradError):
        jacobian(Y, X, mode="sideways")


def test_the_definition_as_it_stands() -> None:
    for none in (None, {}):
        direct = jacobian(Y, X, optimize=False, override=none)
        (found,) = interpret([direct], {X: VALUES})
        np.testing.assert_array_equal(found, [[3.0, 2.0, 0.0], [0.0, 5.0, 3.0]])


def definition_with(what: str, **given: Any) -> Case:
    return Case(
        lambda: jacobian(Y, X, optimize=False, **given),
        GradError,
        f"optimize=False takes no {what}: it writes down the reads of X in the formula of Y.\n"
        "  hint: leave out optimize=False, or what is given beside it.",
    )


REFUSED = [
    definition_with("mode", mode="reverse"),
    definition_with("mode", mode="forward"),
    definition_with("override", override={Y: lambda t, deps, head: [None]}),
    Case(
        lambda: jacobian(Y, X, optimize=False, override=cast(Any, 5)),
        GradError,
        "override must be a dict from tensors to rules, got int.\n"
        "  hint: write override={T: lambda t, deps, head: [adjoint of each dep]}.",
    ),
    Case(
        lambda: jacobian(Y, X, optimize=False, mode="sideways"),
        GradError,
        '\'sideways\' is no mode.\n  hint: use mode="reverse", "forward" or None.',
    ),
]


@pytest.mark.parametrize("case", REFUSED)
def test_the_definition_takes_no_mode_and_no_rules(case: Case) -> None:
    check(case)


def test_one_operation_is_differentiated_in_reverse_uncounted() -> None:
    def reasons(y: Tensor) -> list[str]:
        with listening(Decision) as made:
            jacobian(y, X)
        return [d.what for d in made if d.what.endswith(" mode")]

    twice = te.compute((2,), lambda i: Y[i] * Y[1 - i], name="twice")
    assert reasons(Y) == []
    assert len(reasons(twice)) == 1


def test_second_derivatives() -> None:
    k = te.reduce_axis(2, name="k")
    total = te.compute((), lambda: te.sum(X[k] * X[k + 1], axis=k), name="T")
    second = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    (found,) = interpret([hessian(total, X)], {X: VALUES})
    np.testing.assert_array_equal(found, second)
    (along,) = interpret([hvp(total, X, V)], {X: VALUES, V: MOVED})
    np.testing.assert_array_equal(along, second @ MOVED)
