"""What a formula costs, for comparing equal formulas: every extent counts the same, so that
the form chosen does not depend on the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import Axis, Call, Expr, Reduce
from tensorad.ir.order import AXIS, REDUCE, occurs
from tensorad.ir.tensor import Compute
from tensorad.ir.visit import conjuncts, outside_reductions

_EXTENT: Final = 64.0
"""Values assumed for an axis, unless it has just one."""
_LIGHT: Final = 1 / 8
"""An addition, beside a multiplication or a point visited."""


def points(axes: Sequence[Axis]) -> float:
    """How many points the axes have: none if an axis has no value."""
    if any(a.extent == 0 for a in axes):
        return 0.0
    return _EXTENT ** sum(a.extent != 1 for a in axes)


def cost(axes: Sequence[Axis], body: Expr, stored: Mapping[Expr, object] | None = None) -> float:
    """Points visited and operations of a body; sub-formulas in `stored` are read."""
    operations, loops = _count(body, stored or {})
    return points(axes) * (operations + (loops if has_fold(body, stored) else 1.0))


def has_fold(body: Expr, stored: Mapping[Expr, object] | None) -> bool:
    """Whether a body has a reduction of its own."""
    known = stored or {}
    nodes = outside_reductions([body])
    return any(isinstance(e, Reduce) and e not in known for e in nodes)


def _count(body: Expr, stored: Mapping[Expr, object]) -> tuple[float, float]:
    """(operations, points of the reductions) at one point of the body's axes."""

    def below(e: Expr) -> tuple[Expr, ...]:
        return e.args if isinstance(e, Call) and e not in stored else ()

    operations = loops = 0.0
    for e in outside_reductions([body], below):
        if e in stored:
            continue
        if isinstance(e, Call):
            operations += (1.0 if is_costly(e.op) else _LIGHT) if e.dtype.is_float else 0.0
        elif isinstance(e, Reduce):
            inner = points(e.axes)
            for source in e.sources:
                more, nested = _count(source, stored)
                operations += inner * more
                loops += inner * (nested or 1.0)
    return operations, loops


def fold_points(
    axes: Sequence[Axis], body: Expr, stored: Mapping[Expr, object] | None = None
) -> float:
    """Points that the reductions of a body visit."""
    return points(axes) * _count(body, stored or {})[1]


def visits(op: object, unknown: float = _EXTENT) -> float:
    """Points that the loops of a compute visit; an extent that is a number counts as it is.

    Args:
        unknown: the value of the other extents.
    """
    if not isinstance(op, Compute):
        return 0.0
    return _extents(op.axes, unknown) * (_walked(op.bodies, unknown) or 1.0)


def _extents(axes: Sequence[Axis], unknown: float) -> float:
    return prod([unknown if a.extent is None else float(a.extent) for a in axes])


def _walked(roots: Sequence[Expr], unknown: float) -> float:
    """Points of the loops of all reductions, at one point of the axes around them."""
    if not occurs(REDUCE, *roots):
        return 0.0
    total = 0.0
    folds: dict[tuple[object, ...], Reduce] = {}
    for e in outside_reductions(roots):
        if isinstance(e, Reduce):  # the components of one reduction share its loop
            folds.setdefault((e.combiner, e.sources, e.axes, e.condition), e)
    for e in folds.values():
        inner = _walked((*e.sources, e.condition), unknown)
        fixed = _extents(_pinned(e.condition), unknown)
        total += _extents(e.axes, unknown) * (inner or 1.0) / (fixed or 1.0)
    return total


def _pinned(condition: Expr) -> list[Axis]:
    """Axes of more than one value to which an equality in a condition leaves just one."""
    found: dict[Axis, None] = {}
    for c in conjuncts(condition):
        if isinstance(c, Call) and c.op == "eq":
            shifted = [_without_shift(side) for side in c.args]
            axes = [e for e in shifted if isinstance(e, Axis) and e.extent != 1]
            found.update(dict.fromkeys([a for a in axes if a not in found][:1]))
    return list(found)


def _without_shift(e: Expr) -> Expr:
    """a + 1, a - n -> a"""
    if isinstance(e, Call) and e.op in ("add", "sub") and isinstance(e.args[0], Axis):
        return e.args[0] if not occurs(AXIS, e.args[1]) else e
    return e


def multiplications(op: object) -> float:
    """Multiplications, divisions and functions of an operation's bodies."""
    if not isinstance(op, Compute):
        return 0.0
    return points(op.axes) * sum(_multiplications(b) for b in op.bodies)


def _multiplications(body: Expr) -> float:
    total = 0.0
    for e in outside_reductions([body]):
        if isinstance(e, Call) and is_costly(e.op) and e.dtype.is_float:
            total += 1
        elif isinstance(e, Reduce):
            total += points(e.axes) * sum(_multiplications(s) for s in e.sources)
    return total
