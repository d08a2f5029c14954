"""Derivatives by records as users have them: their type, and conversions to and from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.autodiff.local.record_gradients import (
    as_derivative,
    as_gradient,
    gradient_type,
    has_gradient,
    kept_places,
    values_type,
)
from tensorad.autodiff.local.records import nothing, tangent_type
from tensorad.ir.dtypes import BOOL, FLOAT64, INT64
from tensorad.ir.records import Field, RecordType, Variant, inject, stand_ins
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.reference.verify import verify
from tensorad.program.data.function_types import FunctionsType

Mark = RecordType("Mark").complete([Variant("off", ()), Variant("on", (Field("n", (), INT64),))])
Chain = RecordType("Chain")
Chain.complete(
    [
        Variant("end", (Field("mark", (), Mark),)),
        Variant("link", (Field("x", (2,), FLOAT64), Field("n", (), INT64), Field("to", (), Chain))),
    ]
)
CHAIN, ALONG = stand_ins([Field("chain", (), Chain), Field("along", (), gradient_type(Chain))])


def chain(*rows: tuple[float, float]) -> Record:
    made = Record(Chain, 0, (handle(Record(Mark, 0, ())),))
    for n, row in enumerate(rows):
        made = Record(Chain, 1, (np.array(row), np.array(n), handle(made)))
    return made


def shown(value: Any) -> str:
    """The variants and the floats of a record."""
    record = value.item() if isinstance(value, np.ndarray) else value
    parts = [shown(v) if v.dtype == object else str(v.tolist()) for v in record.values]
    return f"{record.dtype.variants[record.tag].name}({', '.join(parts)})"


def run(tensor: Any, values: Any) -> str:
    verify([tensor])
    return shown(ta.interpret(tensor, values))


def test_what_has_a_gradient() -> None:
    found = [has_gradient(d) for d in (FLOAT64, INT64, BOOL, Chain, Mark, FunctionsType("f"))]
    assert found == [True, False, False, True, False, False]
    assert [kept_places(v) for v in Chain.variants] == [[], [0, 2]]


def test_the_gradient_type() -> None:
    own = gradient_type(Chain)
    assert str(own) == "Chain.gradient" and values_type(own) is Chain
    assert gradient_type(own) is own and tangent_type(own) is tangent_type(Chain)
    assert [(v.name, [f.name for f in v.fields]) for v in own.variants] == [
        ("end", []), ("link", ["x", "to"]),
    ]  # fmt: skip
    assert own.variants[1].fields[1].dtype is own
    tangent = tangent_type(Chain)
    assert gradient_type(tangent) is tangent and values_type(tangent) is tangent


def test_zeros_are_written_out() -> None:
    values = {CHAIN: handle(chain((1.0, 2.0), (3.0, 4.0)))}
    zeros = "link([0.0, 0.0], link([0.0, 0.0], end()))"
    assert run(as_gradient(CHAIN, nothing("d", (), Chain)), values) == zeros
    first = ta.compute((2,), lambda i: i * 1.0 + 5.0, name="first").astype("float64")
    partial = inject(tangent_type(Chain), 2, [first, nothing("d", (), Chain)])
    found = run(as_gradient(CHAIN, partial), values)
    assert found == "link([5.0, 6.0], link([0.0, 0.0], end()))"


def test_directions_of_every_type_are_the_same_derivative() -> None:
    value = chain((1.0, 2.0), (3.0, 4.0))
    of_value = as_derivative(CHAIN)
    assert of_value.dtype is tangent_type(Chain) and as_derivative(of_value) is of_value
    wanted = "link([3.0, 4.0], link([1.0, 2.0], zero()))"
    assert run(of_value, {CHAIN: handle(value)}) == wanted
    gradient = as_gradient(CHAIN, of_value)
    assert gradient.dtype is gradient_type(Chain)
    assert run(as_derivative(gradient), {CHAIN: handle(value)}) == wanted
    assert run(gradient, {CHAIN: handle(value)}) == wanted.replace("zero", "end")


def test_conversions_are_linear() -> None:
    """A gradient moves as its derivative does, and nothing flows to the value."""
    value = handle(chain((1.0, 2.0)))
    along = as_derivative(ALONG)
    gradient = as_gradient(CHAIN, along)
    own = ta.interpret(as_gradient(CHAIN, as_derivative(CHAIN)), {CHAIN: value})
    moved = ta.jvp(gradient, {ALONG: along})
    assert run(moved, {CHAIN: value, ALONG: own}) == "link([1.0, 2.0], zero())"
    by_value, by_along = ta.vjp(gradient, [CHAIN, ALONG], along)
    assert run(by_along, {CHAIN: value, ALONG: own}) == "link([1.0, 2.0], zero())"
    assert run(by_value, {CHAIN: value, ALONG: own}) in ("zero()", "link([0.0, 0.0], zero())")
