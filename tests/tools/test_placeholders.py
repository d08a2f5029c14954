"""`ta.placeholders`: the inputs that outputs read, in the order of reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Tensor
from tests.support.programs.kinds import KINDS


def _named(*names: str) -> list[Tensor]:
    return [ta.placeholder((3,), "float64", name=n) for n in names]


def test_reads_are_met_from_left_to_right_output_by_output() -> None:
    a, b, c, d = _named("a", "b", "c", "d")
    y = ta.compute((3,), lambda i: d[i] * 2.0 + (b + a)[i], name="y")
    assert ta.placeholders(y) == [d, b, a]
    assert ta.placeholders([a, y, c]) == [a, d, b, c]
    assert ta.placeholders(c) == [c]
    assert ta.placeholders([]) == []
    assert ta.placeholders({"z": c, "y": [y, None]}) == [d, b, a, c]
    assert ta.placeholders(ta.const(np.ones(3)) * 2.0) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_through_blocks_is_read_there(kind: str) -> None:
    a, b = _named("a", "b")
    assert set(ta.placeholders(KINDS[kind](b) + a)) == {b, a}


def test_operands_of_a_branch_in_their_order() -> None:
    s = ta.placeholder((), "float64", name="s")
    a, b = _named("a", "b")
    y = ta.cond(s > 0.0, lambda u, v: v * u, lambda u, v: u, b, a)
    assert ta.placeholders(y) == [s, b, a]


Chain: Any = ta.variant(
    "Chain", End={"value": "float64"}, Link={"value": "float64", "rest": "Chain"}
)


@ta.function
def total(chain: Any, w: Any) -> Any:
    arms = {
        Chain.End: lambda value: value * w,
        Chain.Link: lambda value, rest: value + total(rest, w),
    }
    return ta.match(chain, arms)


def test_values_of_data_types() -> None:
    s, t, w = [ta.placeholder((), "float64", name=n) for n in "stw"]
    chain = Chain.Link(t, Chain.End(s))
    assert ta.placeholders(chain) == [t, s]
    assert ta.placeholders(total(chain, w)) == [t, s, w]


def test_functions_and_their_programs() -> None:
    @ta.function
    def f(x: Any, unused: Any, w: Any) -> Any:
        return {"y": w * 2.0, "x": ta.for_loop(0, 3, lambda i, c: c + x[i], 0.0)}

    one = np.ones(3)
    assert [t.name for t in ta.placeholders(f, one, one, one)] == ["x", "w"]
    assert [t.name for t in ta.placeholders(f.trace(one, one, one))] == ["x", "w"]
    x, u, w = _named("x", "u", "w")
    assert ta.placeholders(f(x, u, w)) == [x, u, w]  # operands of a call, as `build` asks for them


def test_what_is_no_tensor_is_named() -> None:
    (a,) = _named("a")
    with pytest.raises(DefinitionError) as caught:
        ta.placeholders([a, np.ones(3)])
    assert str(caught.value) == (
        "placeholders takes tensors, but outputs[1] is of class ndarray.\n"
        "  hint: pass what placeholder, compute or an operator returned."
    )
