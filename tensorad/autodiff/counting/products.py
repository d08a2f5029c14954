"""How often the loops of tensors multiply, counted from their operations without lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.autodiff.counting.cost import listed_points
from tensorad.ir.analysis.alike import Form, Formula, form_of
from tensorad.ir.analysis.levels import FoldSite, Level, every_operand, loop_levels, split_condition
from tensorad.ir.analysis.points import count_points, possible
from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import TRUE, Axis, Call, Expr, Reduce
from tensorad.ir.tensor import Compute, Scan, Scatter, Tensor
from tensorad.ir.visit import needs, postorder, topological_ops

Items = tuple[Expr, ...]
_MOST_POINTS: Final = 1 << 17
"""A condition that needs more points listed to be counted counts as always true."""


def products(
    tensors: Sequence[Tensor], sizes: Mapping[Expr, int], given: Sequence[Tensor] = ()
) -> int:
    """Multiplications, divisions and functions in the loops behind the tensors, each once.

    Args:
        given: what is behind these does not count.
    """
    counter = _Counter(sizes)
    before = dict.fromkeys(topological_ops(given))
    for op in topological_ops(tensors):
        if op not in before and isinstance(op, (Compute, Scatter, Scan)):
            counter.operation(op)
    return counter.total


class _Counter:
    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        self.sizes = sizes
        self.total = 0
        self.runs: dict[Items, int] = {}
        self.known: dict[Form, int] = {}
        """What an operation of a form multiplies."""

    def operation(self, op: Formula) -> None:
        """Add what an operation multiplies; operations of one form are looked at once."""
        form, _ = form_of(op)
        if form in self.known:
            self.total += self.known[form]
            return
        before = self.total
        self.formula(op)
        self.known[form] = self.total - before

    def formula(self, op: Formula) -> None:
        """Add what an operation multiplies."""
        match op:
            case Compute():
                self.bounds(op.axes, ())
                self.formulas(op.bodies, tuple(op.axes))
            case Scatter():
                self.bounds(op.axes, ())
                for u in op.updates:
                    within = (*op.axes, possible(u.condition))
                    self.formulas((u.condition,), tuple(op.axes))
                    self.formulas((*u.indices, u.value), within)
            case Scan():
                within = (*op.scope, possible(op.condition))
                self.formulas((*op.sources, *op.indices), within)
                self.evaluated(op.combiner.results, within)
                self.evaluated((op.condition,), tuple(op.scope))
                self.evaluated(op.start, tuple(op.axes))
                self.bounds(op.axes, ())
                self.bounds(op.along, tuple(op.axes))

    def formulas(self, roots: Sequence[Expr], items: Items) -> None:
        """Add what formulas multiply that are evaluated inside some loops."""
        levels, sites = loop_levels(roots, items, every_operand, conditions=True)
        for level in levels:
            self.level(level)
        for site in sites:
            self.fold(site)

    def level(self, level: Level) -> None:
        under: dict[Expr, int] = {}
        for e, condition in level.need.items():
            if isinstance(e, Call) and is_costly(e.op):
                under[condition] = under.get(condition, 0) + 1
        for condition, n in under.items():
            self.total += n * self.count(level.items, condition)

    def fold(self, site: FoldSite) -> None:
        """Add a fold's bounds, its condition and what it combines."""
        e = site.key
        assert isinstance(e, Reduce)  # the key of a fold is its component 0
        outer, inner = split_condition(e.condition, e.axes)
        self.evaluated((outer,), site.uses)
        self.bounds(e.axes, (*site.uses, outer))
        self.evaluated((inner,), site.points)
        self.evaluated(e.combiner.results, (*site.points, possible(inner)))

    def bounds(self, axes: Sequence[Axis], around: Items) -> None:
        for a in axes:
            self.evaluated((a.lower, a.upper, a.step), around)
            around = (*around, a)

    def evaluated(self, roots: Sequence[Expr], items: Items) -> None:
        """Add what roots without reductions multiply, as often as these loops run."""
        order = postorder(*roots)
        if any(isinstance(e, Call) and is_costly(e.op) for e in order):
            self.level(Level(items, {e: possible(c) for e, c in needs(roots, order).items()}))

    def count(self, items: Items, condition: Expr) -> int:
        """How often loops run where a condition holds."""
        key = tuple([i for i in (*items, condition) if i is not TRUE])
        if key not in self.runs:
            dear = condition is not TRUE and listed_points(key, self.sizes) > _MOST_POINTS
            self.runs[key] = self.count(items, TRUE) if dear else count_points(key, self.sizes)
        return self.runs[key]
