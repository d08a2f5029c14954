"""Derivatives of random programs of records held against each other and against differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.autodiff.local.records import places, tangent_dtype, tangent_type
from tensorad.ir.records import Field, RecordType, stand_ins
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Tensor
from tests.random.records.compare import assert_same
from tests.random.records.generator import random_record_program, random_values

Values = Mapping[Tensor, Any]


def assert_derivatives(seed: int, *, compiled: bool, second: bool) -> int:
    """How many inputs a program of this seed depends on; its derivatives agree.

    By the interpreter: forward = differences, reverse = forward, and the same of the reverse. If
    `compiled`, machine code = interpreter.
    """
    program = random_record_program(seed)
    smooth = [t for t in program.outputs if t.dtype.is_float]
    inputs = [t for t in program.inputs if t.dtype.is_differentiable]
    if not smooth or not inputs:
        return 0
    y = total_of(smooth)
    values = random_values(program)
    rng = np.random.default_rng(seed)
    along = {
        t: stand_ins([Field(f"d_{t.name}", t.shape, tangent_dtype(t.dtype))])[0] for t in inputs
    }
    tangents = {along[t]: random_tangent(t, values[t], rng) for t in inputs}
    forward = ta.jvp(y, along)
    reverse = ta.vjp(y, inputs)
    everything = {**values, **tangents}
    _check_direction(y, forward, reverse, inputs, values, along, everything)
    results, given = [y, *reverse, forward], [*program.inputs, *along.values()]
    if second:
        again = total_of([t for t in reverse if t.dtype.is_float] or [forward])
        results.append(ta.jvp(again, along))
        results += ta.vjp(again, inputs)
        first = [*program.inputs, *along.values()]
        _check_direction(again, results[-1 - len(inputs)], results[-len(inputs):], inputs,
                         {t: everything[t] for t in first}, along, everything)  # fmt: skip
    if compiled:
        made = ta.build(results, given)
        want = ta.interpret(results, everything)
        pairs = zip(made(*[everything[t] for t in given]), want, strict=True)
        for have, wanted in pairs:
            assert_same(have, wanted, 1e-6)
    return len(inputs)


def total_of(tensors: list[Tensor]) -> Tensor:
    """The sum of everything, in float64."""
    parts = [(t.sum() if t.ndim else t).astype("float64") for t in tensors]
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    return total


def _check_direction(
    y: Tensor, forward: Tensor, reverse: list[Tensor], inputs: list[Tensor], values: Values,
    along: Values, everything: Values,
) -> None:  # fmt: skip
    moved = {t: [moved_along(values[t], everything[along[t]], h) for h in (1e-5, -1e-5)]
             for t in inputs}  # fmt: skip
    up, down = ({**values, **{t: pair[k] for t, pair in moved.items()}} for k in (0, 1))
    by_differences = (ta.interpret(y, up) - ta.interpret(y, down)) / 2e-5
    pushed = ta.interpret(forward, everything)
    np.testing.assert_allclose(pushed, by_differences, 1e-4, 1e-5 * (1 + abs(by_differences)))
    pulled = ta.interpret(reverse, everything)
    products = [inner(a, everything[along[t]]) for a, t in zip(pulled, inputs, strict=True)]
    np.testing.assert_allclose(sum(products), pushed, 1e-9, 1e-9)


def random_tangent(t: Tensor, value: Any, rng: np.random.Generator) -> Any:
    """A random tangent of a value of a tensor."""
    if not isinstance(t.dtype, RecordType):
        return rng.uniform(-1, 1, np.shape(value))
    return _tangent(value, rng)


def _record(value: Any) -> Record:
    found = value.item() if isinstance(value, np.ndarray) else value
    assert isinstance(found, Record)
    return found


def _tangent(record: Record, rng: np.random.Generator) -> Record:
    dtype = tangent_type(record.dtype)
    own = places(record.dtype.variants[record.tag])
    if not own or rng.random() < 0.1:
        return Record(dtype, 0, ())
    made = []
    for k in own:
        value = record.values[k]
        inside = _tangent(_record(value), rng) if value.dtype == object else None
        made.append(rng.uniform(-1, 1, value.shape) if inside is None else handle(inside))
    return Record(dtype, record.tag + 1, tuple([np.asarray(v) for v in made]))


def moved_along(value: Any, tangent: Any, h: float) -> Any:
    """A value, h further along a tangent."""
    if not isinstance(value, Record) and np.asarray(value).dtype != object:
        return np.asarray(value) + h * tangent
    record, by = _record(value), _record(tangent)
    if by.tag == 0:
        return record
    values = list(record.values)
    for k, d in zip(places(record.dtype.variants[record.tag]), by.values, strict=True):
        new = moved_along(values[k], d, h)
        values[k] = handle(new) if isinstance(new, Record) else new
    return Record(record.dtype, record.tag, tuple(values))


def inner(a: Any, b: Any) -> float:
    """The sum of products of two derivatives by one value."""
    if not isinstance(a, Record) and np.asarray(a).dtype != object:
        return float(np.sum(np.asarray(a) * np.asarray(b)))
    r, s = _record(a), _record(b)
    if r.tag == 0 or s.tag == 0:
        return 0.0
    assert r.tag == s.tag
    return sum([inner(u, v) for u, v in zip(r.values, s.values, strict=True)])
