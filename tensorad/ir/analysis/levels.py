"""Loop levels of a formula: which nodes are evaluated inside which axes and index conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tensorad.ir.analysis.points import possible
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    Reduce,
    logical_and,
    reduce_expr,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.visit import (
    children,
    conjuncts,
    either,
    needs,
    outside_reductions,
    postorder,
)

Follow = Callable[[Expr], Sequence[Expr]]
"""The operands of a node that matter to an analysis; for a reduction, those of its sources."""


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes evaluated side by side. Comparisons of data count as true everywhere.

    Attributes:
        items: the axes and conditions around, outermost first.
        need: node -> the further index condition under which its value is used. Reductions
            are leaves here; their sources are on a level of their own.
    """

    items: tuple[Expr, ...]
    need: dict[Expr, Expr]

    def around(self, e: Expr) -> tuple[Expr, ...]:
        """The axes and conditions around one node of this level."""
        condition = self.need[e]
        return self.items if condition is TRUE else (*self.items, condition)


@dataclass(frozen=True, eq=False)
class FoldSite:
    """The reductions of one fold on one level: one nest of loops.

    Attributes:
        key: component 0 of the fold.
        points: axes and conditions around the innermost body *or its residual condition*.
        uses: axes and conditions around the place where the value is used.
    """

    key: Expr
    points: tuple[Expr, ...]
    uses: tuple[Expr, ...]


def loop_levels(
    roots: Sequence[Expr],
    axes: Sequence[Expr],
    follow: Follow,
    conditions: bool,
) -> tuple[list[Level], list[FoldSite]]:
    """The levels under `roots` (evaluated inside `axes`) along the operands `follow` gives.

    Args:
        conditions: whether reductions inside conditions have loops to count as well.
    """
    found: list[Level] = []
    sites: list[FoldSite] = []
    work = [(Level(tuple(axes), {}), tuple(roots))]
    while work:
        empty, tops = work.pop()
        level = replace(empty, need=_needs(tops, follow))
        found.append(level)
        for members in _folds(level.need):
            first, key = members[0], first_component(members[0])
            uses = (*level.items, reduce(either, [level.need[e] for e in members]))
            outer, inner = split_condition(first.condition, first.axes)
            points = tuple([i for i in (*uses, outer, *first.axes) if i is not TRUE])
            uses = tuple([i for i in uses if i is not TRUE])
            sites.append(FoldSite(key, points, uses))
            sources = tuple(dict.fromkeys([s for e in members for s in follow(e)]))
            inside = points if inner is TRUE else (*points, possible(inner))
            if sources:
                work.append((Level(inside, {}), sources))
            if conditions and occurs(REDUCE, inner):
                work.append((Level(points, {}), (inner,)))
    return found, sites


def first_component(e: Reduce) -> Expr:
    """Component 0: one node for all components of a fold."""
    return reduce_expr(e.combiner, e.sources, e.axes, e.condition, 0)


def every_operand(e: Expr) -> Sequence[Expr]:
    """The `Follow` of a full evaluation."""
    return e.sources if isinstance(e, Reduce) else children(e)


def split_condition(condition: Expr, axes: Sequence[Axis]) -> tuple[Expr, Expr]:
    """The conjuncts that are index arithmetic of outer axes, and all others."""
    own = dict.fromkeys(axes)
    outer: list[Expr] = []
    inner: list[Expr] = []
    for c in conjuncts(condition):
        varies = any(e in own or isinstance(e, (Read, Reduce)) for e in postorder(c))
        (inner if varies else outer).append(c)
    return logical_and(*outer), logical_and(*inner)


def _folds(need: dict[Expr, Expr]) -> list[list[Reduce]]:
    groups: dict[Expr, list[Reduce]] = {}
    for e in need:
        if isinstance(e, Reduce):
            groups.setdefault(first_component(e), []).append(e)
    return list(groups.values())


def _needs(roots: Sequence[Expr], follow: Follow) -> dict[Expr, Expr]:
    """The index condition under which each node is used; a select narrows it for its sides."""
    memo: dict[tuple[Expr, bool], Expr] = {}

    def narrow(here: Expr, side: Expr) -> Expr:
        return logical_and(here, possible(side, memo))

    return needs(roots, outside_reductions(roots, follow), narrow, follow)
