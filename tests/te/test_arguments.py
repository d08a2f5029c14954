"""Wrong arguments of functions that take tensors are refused in the user's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import UserError

X = ta.placeholder((3, 3), "float64", name="X")
Y = ta.compute((3, 3), lambda i, j: X[i, j] * X[j, i], name="Y")
J = ta.sparse_jacobian(Y, X)

TENSORS: list[tuple[str, Callable[[Any], object]]] = [
    ("work", ta.work),
    ("work", ta.estimate_performance),
    ("explain", ta.explain),
    ("interpret", lambda t: ta.interpret(t, {})),
    ("sparse_jacobian", lambda t: ta.sparse_jacobian(t, X)),
    ("PrintTensorRecursively", ta.PrintTensorRecursively),
    ("RemoveUnusedDimsRecursively", ta.RemoveUnusedDimsRecursively),
    ("InlineTensors", ta.InlineTensors),
    ("InlineTensors", lambda t: ta.InlineTensors(Y, t)),
    ("InlineTailCall", ta.InlineTailCall),
    ("InlineNonReductions", lambda t: ta.InlineNonReductions(Y, t)),
    ("OptimizeAndLiftNonzeronessConditions", ta.OptimizeAndLiftNonzeronessConditions),
    ("generalized_matmul", lambda t: ta.generalized_matmul(t, X, 1)),
    ("DiffBuildingBlock", lambda t: ta.DiffBuildingBlock(Y, t)),
]


@pytest.mark.parametrize(("name", "call"), TENSORS)
@pytest.mark.parametrize("given", [None, "X", 3, {"X": X}])
def test_what_is_no_tensor_is_named(
    name: str, call: Callable[[Any], object], given: object
) -> None:
    with pytest.raises(UserError, match=f"^{name} takes a tensor, got "):
        call(given)


@pytest.mark.parametrize("call", [ta.evaluate, ta.interpret, lambda y, a: J.evaluate(a)])
@pytest.mark.parametrize("given", [None, [X], {"X": np.ones((3, 3))}])
def test_values_of_tensors_are_a_dict(call: Callable[..., object], given: object) -> None:
    with pytest.raises(UserError, match="takes the values of tensors"):
        call(Y, given)


SIZES = [1.5, {"n": -1}, {"n": 2.0}, {"n": True}, {3: 3}]


@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_are_integers_by_name(sizes: Any) -> None:
    for call in (ta.work, ta.estimate_performance):
        with pytest.raises(UserError, match="size"):
            call(Y, sizes)
    with pytest.raises(UserError, match="size"):
        ta.explain(ta.vjp(Y, [X]), sizes)


NUMBERS = [
    ({"order": 0}, "order must be at least 1, got 0."),
    ({"order": "2"}, "order must be an integer, got '2'."),
    ({"batch": 1.5}, "batch must be an integer, got 1.5."),
    ({"directions": True}, "directions must be an integer, got True."),
    ({"seed": -1}, "seed must be at least 0, got -1."),
    ({"eps": 0.0}, "eps must be a positive number, got 0.0."),
    ({"tol": None}, "tol must be a positive number, got None."),
]


@pytest.mark.parametrize(("wrong", "text"), NUMBERS)
def test_numbers_of_gradcheck(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError) as caught:
        ta.gradcheck(Y, [X], **wrong)
    assert str(caught.value).startswith(text)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ta.generalized_matmul(X, X, 1.0), "generalized_matmul contracts a number of axes"),  # type: ignore[arg-type]  # refused
    (lambda: topi.einsum(None, X), "einsum: the subscripts must be a string"),  # type: ignore[arg-type]  # refused
    (lambda: topi.einsum("ij->i", X, reduce=None), "einsum: reduce must be a reducer"),  # type: ignore[arg-type]  # refused
    (lambda: ta.differentiate(Y, [X], fdiff=1), "fdiff must be a function"),  # type: ignore[arg-type]  # refused
    (lambda: ta.check_numerical_grads(len, [1.0], None), "check_numerical_grads takes"),  # type: ignore[arg-type, list-item]  # refused
    (
        lambda: ta.check_numerical_grads(np.sum, [np.ones(2)], [np.ones(3)]),
        "input 0 has shape (2,), its gradient (3,).",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert str(caught.value).startswith(text)
