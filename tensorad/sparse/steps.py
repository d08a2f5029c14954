"""Which elements the states of a scan depend on: those of the steps before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.ir.expr import FALSE, TRUE, Axis, Expr, call, logical_and, logical_or
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import fresh_axes, substitute


@dataclass(frozen=True, eq=False)
class Steps:
    """Elements of one output of a scan, and the steps each of them has seen.

    Attributes:
        axes: the scan's rows and the steps whose states are kept.
        places: where in the output, over `axes`.
        before: over `axes` and the scan's steps, which of them a kept state has seen.
    """

    axes: tuple[Axis, ...]
    places: tuple[Expr, ...]
    before: Expr


def steps_of(op: Scan, made: Tensor) -> Steps:
    """The elements of one output of a (viewed) scan."""
    own = made.op  # a view may carry further components
    arity = own.combiner.arity if isinstance(own, Scan) else op.combiner.arity
    kind = made.index // arity  # states after, or before, a step; or the last one
    if kind == 2:
        return Steps(op.axes, op.axes, op.condition)
    mapping = fresh_axes(op.along)
    kept = tuple([a for a in (mapping[s] for s in op.along) if isinstance(a, Axis)])
    places = tuple([substitute(i, mapping) for i in op.indices])
    first, last = (kept, op.along) if op.reverse else (op.along, kept)
    inclusive = (kind == 0) is not op.exclusive
    seen = lexicographic(first, last, inclusive)
    return Steps((*op.axes, *kept), places, logical_and(seen, op.condition))


def lexicographic(a: Sequence[Expr], b: Sequence[Expr], equal: bool) -> Expr:
    """Whether a stands before b (or is b, if `equal`)."""
    result: Expr = TRUE if equal else FALSE
    for x, y in reversed(list(zip(a, b, strict=True))):
        result = logical_or(x < y, logical_and(call("eq", x, y), result))
    return result
