"""Elements gathered from places, and put there or combined with what was there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorad import topi
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value

_REDUCTIONS: Final = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def gather_elements(call: Call) -> Value:
    """For each index the element of its own row at that place of an axis."""
    x = call.tensor(0)
    return topi.gather(x, call.tensor(1), axis_of(call.integer("axis", 0), x.ndim))


def gather_nd(call: Call) -> Value:
    """Parts at points, whose coordinates are the last axis."""
    batches = call.integer("batch_dims", 0)
    return topi.gather_nd(call.tensor(0), call.tensor(1), -1, batches)


def _reduction(call: Call) -> str:
    return _REDUCTIONS[call.word("reduction", "none", tuple(_REDUCTIONS))]


def scatter_elements(call: Call) -> Value:
    """Updates put into, or combined with, elements at places of an axis."""
    x, indices, updates = (call.tensor(n) for n in range(3))
    axis = axis_of(call.integer("axis", 0), x.ndim)
    return topi.scatter_elements(x, indices, updates, axis, _reduction(call))


def scatter_nd(call: Call) -> Value:
    """Parts put at, or combined with those at, points whose coordinates are the last axis."""
    x, indices, updates = (call.tensor(n) for n in range(3))
    return topi.scatter_nd(x, indices, updates, _reduction(call), -1)


HANDLERS: Final[Mapping[str, Handler]] = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
