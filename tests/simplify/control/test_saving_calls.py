"""Calls for values and for derivatives are one."""

from __future__ import annotations

import tensorad as ta
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.dtypes import INT64
from tensorad.ir.records import Field, Recursion, recursion, stand_ins
from tensorad.ir.tensor import Tensor
from tensorad.simplify.control.passes import simplified
from tensorad.simplify.control.saving_calls import share_saving_calls
from tests.support.definitions import power, scalar


def calls(results: list[Tensor], given: list[Tensor]) -> list[str]:
    ops = ops_between(results, dict.fromkeys(given))
    return [op.definition.name for op in ops if isinstance(op, Recursion)]


def test_a_value_and_its_gradient_call_once() -> None:
    x, n = scalar("x"), stand_ins([Field("n", (), INT64)])[0]
    made = power()
    (y,) = recursion(made, (x, n))
    (z,) = recursion(made, (y, n))  # of what is shared first
    results = [z, *ta.vjp(z, [x])]
    assert calls(results, [x, n]).count("power") == 2
    assert calls(results, [x, n]).count("power_saving") == 2
    found = simplified(results, [x, n])
    assert sorted(calls(found, [x, n])) == ["dpower", "dpower", "power_saving", "power_saving"]
    values = {x: 1.1, n: 3}
    assert ta.interpret(found, values) == ta.interpret(results, values)


def test_calls_of_other_operands_stay() -> None:
    x, n = scalar("x"), stand_ins([Field("n", (), INT64)])[0]
    made = power()
    (y,), (z,) = recursion(made, (x, n)), recursion(made, (x * 2.0, n))
    results = [z, *ta.vjp(y, [x])]
    found = share_saving_calls(results, [x, n])
    assert all(a is b for a, b in zip(found, results, strict=True))
