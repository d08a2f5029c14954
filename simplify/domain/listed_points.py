"""The points of a nest of axes and conditions, listed: for small nests where sets cannot say.

Conditions and bounds may read constant tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.ir.analysis.points import evaluate
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    const,
    logical_and,
)
from tensorad.ir.order import axes_in
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import conjuncts, postorder, rewrite
from tensorad.simplify.index.quasi_affine import axis_conditions

MAX_ROWS: Final = 1 << 20
"""Nests with more points are not listed."""
Array = np.ndarray[Any, np.dtype[Any]]


class TooManyPoints(Exception):
    """The nest has more than MAX_ROWS points."""


def is_evaluable(root: Expr) -> bool:
    """Whether the value follows from axes, sizes and constant tensors."""
    for e in postorder(root):
        if isinstance(e, (Reduce, Param)):
            return False
        if isinstance(e, Read) and not isinstance(e.tensor.op, Constant):
            return False
    return True


def fold_constant_reads(root: Expr) -> Expr:
    """The expression with numbers for elements of constant integer tensors at constant indices."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or not isinstance(e.tensor.op, Constant):
            return None
        at = [i.value for i in e.indices if isinstance(i, Const)]
        inside = all(0 <= i < n for i, n in zip(at, e.tensor.op.array.shape, strict=False))
        if len(at) < len(e.indices) or not inside or not e.dtype.is_integer:
            return None
        return const(int(e.tensor.op.array[tuple([int(i) for i in at])]), e.dtype)

    return rewrite(root, rule)


def points_of(
    axes: Sequence[Axis],
    conditions: Sequence[Expr],
    results: Sequence[Expr],
    sizes: Mapping[Expr, int],
    solve: bool = True,
) -> Array:
    """The values of `results` at every point of the axes where all conditions hold, as rows.

    Args:
        solve: an axis that a condition equates to others is computed; otherwise all of its
            values are tried.
    Raises:
        TooManyPoints: more than MAX_ROWS points come up on the way.
    """
    parts = [p for c in conditions for p in conjuncts(c)]
    given, parts = _determined(axes, parts) if solve else ({}, parts)
    nest = _Nest(parts, sizes)
    for a in axes:
        if a not in given:
            nest.enter(a)
    for a, value in given.items():
        nest.columns[a] = nest.values((value,))[0]
        nest.filter([axis_conditions(a)])
        nest.narrow()
    nest.filter(nest.parts)
    columns = nest.values(tuple(results))
    return np.stack(columns, axis=1) if columns else np.zeros((nest.rows, 0), dtype=np.int64)


def _determined(axes: Sequence[Axis], parts: list[Expr]) -> tuple[dict[Axis, Expr], list[Expr]]:
    """(axes that a condition says the value of in terms of the others, other conditions)."""
    given: dict[Axis, Expr] = {}
    rest: list[Expr] = []
    in_bounds = dict.fromkeys(
        e for a in axes for e in postorder(a.lower, a.upper, a.step) if isinstance(e, Axis)
    )
    used: dict[Expr, None] = {}
    for p in parts:
        found = None
        if isinstance(p, Call) and p.op == "eq":
            for x, value in (p.args, p.args[::-1]):
                free = axes_in(value)
                fits = isinstance(x, Axis) and x in set(axes) and x not in in_bounds
                if fits and x not in given and x not in used and not any(
                    a is x or a in given for a in free
                ):  # fmt: skip
                    found = (x, value, free)
                    break
        if found is not None and isinstance(found[0], Axis):
            given[found[0]] = found[1]
            used.update(dict.fromkeys(found[2]))
        else:
            rest.append(p)
    return given, rest


class _Nest:
    """Points found so far: one column of values per axis."""

    def __init__(self, parts: Sequence[Expr], sizes: Mapping[Expr, int]) -> None:
        self.parts = list(parts)
        self.sizes = sizes
        self.columns: dict[Expr, Array] = {}
        self.rows = 1
        self.narrow()

    def values(self, roots: Sequence[Expr]) -> list[Array]:
        """The roots' values, one per point."""
        found = evaluate(roots, self.columns, self.sizes)
        return [np.broadcast_to(v, (self.rows,)) for v in found]

    def enter(self, a: Axis) -> None:
        """One more axis inside those before."""
        lower, upper, step = self.values((a.lower, a.upper, a.step))
        lengths = np.maximum(0, -((lower - upper) // np.maximum(step, 1)))
        total = int(lengths.sum())
        if total > MAX_ROWS:
            raise TooManyPoints
        index = np.repeat(np.arange(self.rows), lengths)
        offset = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self._take(index)
        self.columns[a] = lower[index] + step[index] * offset
        self.narrow()

    def narrow(self) -> None:
        """Apply the conditions that are decided by the axes so far."""
        ready = [p for p in self.parts if self._is_ready(p)]
        self.parts = [p for p in self.parts if not self._is_ready(p)]
        self.filter(ready)

    def _is_ready(self, p: Expr) -> bool:
        return all(e in self.columns for e in postorder(p) if isinstance(e, Axis))

    def filter(self, conditions: Sequence[Expr]) -> None:
        """Keep the points where the conditions hold."""
        condition = logical_and(*conditions)
        if condition is not TRUE:
            holds = self.values((condition,))[0].astype(bool)
            self._take(np.flatnonzero(holds))

    def _take(self, index: Array) -> None:
        self.columns = {a: c[index] for a, c in self.columns.items()}
        self.rows = len(index)
