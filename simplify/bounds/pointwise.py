"""Index conditions decided point by point, for small boxes where arithmetic is not affine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorad.ir.analysis.points import OPERATIONS
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Select
from tensorad.ir.visit import postorder
from tensorad.simplify.index.intervals import intervals

MAX_POINTS: Final = 1 << 17
"""Larger boxes are not enumerated."""
_Array = np.ndarray[Any, np.dtype[Any]]


class NotEnumerable(Exception):
    """The box is too large or open, or an expression depends on more than the axes."""


def first_point(axes: Sequence[Axis], conditions: Sequence[Expr]) -> dict[Expr, int] | None:
    """The lexicographically first point of the axes' box where all conditions hold.

    Raises:
        NotEnumerable: the box has more than MAX_POINTS points, or a condition reads data.
    """
    ranges = intervals(axes)
    starts, extents = [], []
    for a in axes:
        found = ranges[a]
        if found.lo is None or found.hi is None:
            raise NotEnumerable
        starts.append(found.lo)
        extents.append(found.hi - found.lo + 1)
    if prod(extents) > MAX_POINTS:
        raise NotEnumerable
    values = _evaluate(dict(zip(axes, _grid(starts, extents), strict=True)), conditions)
    holds = np.logical_and.reduce([np.broadcast_to(values[c], extents) for c in conditions])
    hits = np.argwhere(holds)
    if not len(hits):
        return None
    return {a: int(lo + n) for a, lo, n in zip(axes, starts, hits[0], strict=True)}


def value_at(e: Expr, point: Mapping[Expr, int]) -> int:
    """The value of an index expression over the leaves of `point`."""
    at = {leaf: np.asarray(v, str(leaf.dtype)) for leaf, v in point.items()}
    return int(_evaluate(at, (e,))[e])


def _grid(starts: Sequence[int], extents: Sequence[int]) -> list[_Array]:
    """One array per axis, broadcasting against each other."""
    many = len(starts)
    return [
        np.arange(lo, lo + n, dtype=np.int64).reshape([-1 if d == k else 1 for k in range(many)])
        for d, (lo, n) in enumerate(zip(starts, extents, strict=True))
    ]


def _evaluate(at: dict[Expr, Any], roots: Sequence[Expr]) -> dict[Expr, Any]:
    for e in postorder(*roots):
        if e not in at:
            at[e] = _value(e, at)
    return at


def _value(e: Expr, at: dict[Expr, Any]) -> Any:
    if not e.dtype.is_float:
        match e:
            case Const(value=v):
                return np.asarray(v, str(e.dtype))
            case Select(cond=c, then=a, orelse=b):
                return np.where(at[c], at[a], at[b])
            case Cast(value=v) if v in at:
                return np.asarray(at[v]).astype(str(e.dtype))
            case Call(op=op, args=args) if op in OPERATIONS:
                with np.errstate(all="ignore"):  # integers wrap, division by zero gives 0
                    return OPERATIONS[op](*[at[a] for a in args])
    raise NotEnumerable
