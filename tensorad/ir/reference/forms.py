"""How bodies and tensors are looked at before and after a pass: by the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from tensorad.errors import BindError, BoundsError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.expr import Axis, Expr, Reduce, Size
from tensorad.ir.records import Recursion, is_record
from tensorad.ir.reference.formulas import Array
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Compute, Op, Tensor, dim_expr, outputs
from tensorad.ir.text.printer import format_tensor, format_tensor_recursively
from tensorad.ir.visit import copy_bodies, op_expressions, op_inputs, postorder, topological_ops
from tensorad.passes import Form, NotComparedError

MOST_POINTS: Final = 50_000
"""Points that are visited to compare values, about."""
SIZE: Final = 5
"""What symbolic sizes are then."""


def _body(axes: Sequence[Axis], body: Expr) -> Tensor:
    own, bodies = copy_bodies(axes, (body,))
    return outputs(Compute("body", own, bodies))[0]


def _bodies_differ(axes: Sequence[Axis], before: Expr, after: Expr) -> str:
    one, two = _body(axes, before), _body(axes, after)
    return values_differ(op_inputs(one.op), [one], [two])


BODY: Final[Form[Sequence[Axis], Expr]] = Form(
    show=lambda axes, body: format_tensor(_body(axes, body)),
    verify=lambda axes, body: verify([_body(axes, body)]),
    compare=_bodies_differ,
)
"""An element's formula over its axes."""


def values_differ(
    given: Sequence[Tensor], before: Sequence[Tensor], after: Sequence[Tensor]
) -> str:
    """In which tensor values differ, "" if in none, for random values of the given tensors.

    Results that are records are not looked at.

    Raises:
        NotComparedError: there is too much to evaluate, random data is out of range, a size has
            a value in a loop only, or records are given, or calls that only the data end.
    """
    known = dict.fromkeys(given)
    if any(is_record(t.dtype) for t in given):
        raise NotComparedError("there are no random records")
    every = topological_ops([*before, *after])
    if any(isinstance(op, Recursion) for op in (*every, *inner_ops(every))):
        raise NotComparedError("only the data tell how deep calls go")
    if any(_points(found, known) > MOST_POINTS for found in (before, after)):
        raise NotComparedError(f"more than {MOST_POINTS:,} points are visited")
    ops = topological_ops([*before, *after, *given])
    shapes = [dim_expr(n) for op in ops for t in outputs(op) for n in t.shape]
    roots = [*[e for op in ops for e in op_expressions(op)], *shapes]
    sizes = {e.name: SIZE for e in postorder(*roots) if isinstance(e, Size)}
    rng = np.random.default_rng(0)
    try:
        values = {t: _random(t, shape_of(t, {}, sizes), rng) for t in given}
        first = interpret(before, values, sizes)
    except BoundsError as error:
        raise NotComparedError(f"random data is out of range: {error}") from error
    except BindError as error:  # a counter, or how often a loop runs: only inside of it, or after
        raise NotComparedError(str(error)) from error
    try:
        second = interpret(after, values, sizes)
    except BoundsError as error:
        return str(error)
    pairs = zip(before, first, second, strict=True)
    for t, one, two in [p for p in pairs if not is_record(p[0].dtype)]:
        if one.shape != two.shape or not np.allclose(one, two, 1e-7, 1e-9, equal_nan=True):
            return f"{t.name} has other elements"
    return ""


def _random(t: Tensor, shape: Sequence[int], rng: np.random.Generator) -> Array:
    return rng.standard_normal(shape) if t.dtype.is_float else rng.integers(0, 2, shape)


def _points(results: Sequence[Tensor], given: Mapping[Tensor, None]) -> int:
    """Points of all loops behind the results, about."""

    def inputs_of(op: Op) -> list[Tensor]:
        return [t for t in op_inputs(op) if t not in given]

    total = 0
    for op in topological_ops([t for t in results if t not in given], inputs_of=inputs_of):
        inner = [e for e in postorder(*op_expressions(op)) if isinstance(e, Reduce)]
        folded = sum([_count([a.extent for a in e.axes]) for e in inner])
        total += _count(op.shape) * (1 + folded)
    return total


def _count(extents: Iterable[object]) -> int:
    return prod([n if isinstance(n, int) else SIZE for n in extents])


TENSORS: Final[Form[Sequence[Tensor], Sequence[Tensor]]] = Form(
    show=lambda given, results: format_tensor_recursively(results),
    verify=lambda given, results: verify(results),
    compare=values_differ,
)
"""Results of a program, given the tensors they are computed from."""
