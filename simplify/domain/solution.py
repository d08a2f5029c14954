"""Domains of reductions and what solving them yields; plans are memoised by structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad import config
from tensorad.ir.analysis.alike import Numbering, as_itself
from tensorad.ir.expr import TRUE, Axis, Expr, axis
from tensorad.ir.visit import free_leaves, fresh_axes, substitute
from tensorad.process import Guard, memo


@dataclass(frozen=True, eq=False)
class Piece:
    """A disjoint part of a domain: new axes, and the old axes as expressions of them.

    Attributes:
        guard: where (over the outer axes) the part has points at all.
        axes: the loops that remain, outermost first.
        values: every old inner axis over the outer and the new axes.
        residual: what still has to be tested at each point.
    """

    guard: Expr
    axes: tuple[Axis, ...]
    values: Mapping[Expr, Expr]
    residual: Expr = TRUE


@dataclass(frozen=True, eq=False)
class Solution:
    """Disjoint pieces that together are the domain.

    Attributes:
        exact: the pieces visit the points of the domain and no others (up to conditions on
            data).
        method: what found the pieces, in one word.
        reason: why the plan is not exact, a clause in the user's words; "" if it is.
    """

    pieces: tuple[Piece, ...]
    exact: bool
    method: str = "isl"
    reason: str = ""


def as_given(inner: Sequence[Axis], condition: Expr = TRUE) -> Piece:
    """All points of the axes, which stay loops; the condition is tested at each."""
    mapping = fresh_axes(inner)
    axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
    return Piece(TRUE, axes, mapping, substitute(condition, mapping))


def rename_piece(piece: Piece, mapping: Mapping[Expr, Expr]) -> Piece:
    """The piece over other outer and inner axes; its own loops become fresh axes."""
    new: dict[Expr, Expr] = dict(mapping)
    axes: list[Axis] = []
    for a in piece.axes:
        bounds = [substitute(b, new) for b in (a.lower, a.upper, a.step)]
        # a loop keeps the name of the axis it came from
        origin = next((old for old, v in piece.values.items() if _is_loop_of(a, old, v)), a)
        renamed = mapping.get(origin)
        name = renamed.name if isinstance(renamed, Axis) else a.name
        axes.append(axis(name, *bounds))
        new[a] = axes[-1]
    values = {mapping[old]: substitute(v, new) for old, v in piece.values.items()}
    guard, residual = substitute(piece.guard, new), substitute(piece.residual, new)
    return Piece(guard, tuple(axes), values, residual)


def _is_loop_of(a: Axis, old: Expr, value: Expr) -> bool:
    """Whether `a` runs over the old axis, perhaps shifted."""
    if value is a:
        return True
    return isinstance(old, Axis) and old.name == a.name and a in free_leaves(value)


class PlanMemo:
    """Solutions by the structure of their problem; the oldest are forgotten."""

    def __init__(self, capacity: int = 4096) -> None:
        self._guard = Guard()
        self._memo: OrderedDict[object, tuple[tuple[Axis, ...], Solution]] = memo(
            OrderedDict(), self._guard
        )
        self._capacity = capacity

    def solve(
        self,
        outer: Sequence[Axis],
        inner: Sequence[Axis],
        conditions: Sequence[Expr],
        facts: Expr,
        solver: Callable[[], Solution],
    ) -> Solution:
        """The memoised solution over these axes, or the solver's."""
        axes = (*outer, *inner)
        numbering = Numbering(as_itself, named=False)
        numbering.axes(axes)
        roots = numbering.expressions((*conditions, facts))
        key = numbering.key(config.current().isl_operations, len(outer), len(inner), roots)
        with self._guard.lock:
            known = self._memo.get(key)
        if known is None:
            solution = solver()
            with self._guard.lock:
                self._memo[key] = (axes, solution)
                if len(self._memo) > self._capacity:
                    self._memo.popitem(last=False)
            return solution
        mapping: dict[Expr, Expr] = dict(zip(known[0], axes, strict=True))
        pieces = tuple([rename_piece(p, mapping) for p in known[1].pieces])
        return replace(known[1], pieces=pieces)
