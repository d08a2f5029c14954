"""How many points the loops of tensors visit, counted from their operations without lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tensorad.autodiff.counting.cost import listed_points
from tensorad.ir.analysis.alike import Form, Formula, form_of
from tensorad.ir.analysis.levels import every_operand, loop_levels, split_condition
from tensorad.ir.analysis.points import count_points
from tensorad.ir.analysis.sizes import elements_at
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import (
    Compute,
    Op,
    Scan,
    Scatter,
    Shape,
    Tensor,
)
from tensorad.ir.visit import op_expressions, op_inputs, reads, topological_ops

Items = tuple[Expr, ...]


class Visits:
    """The loops behind some tensors, without those behind `given`; counted for any sizes.

    `beside`: operations whose own loops do not count.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        given: Sequence[Tensor] = (),
        beside: Mapping[Op, None] | None = None,
    ) -> None:
        before = dict.fromkeys(topological_ops(given))
        ops = [op for op in topological_ops(tensors) if op not in before]
        self.boxes: dict[Shape, int] = {}
        """Shapes -> the operations of this shape of which every element is visited."""
        self.forms: dict[Form, tuple[list[Items], int]] = {}
        """Forms -> (nests of the loops of an operation of the form, such operations)."""
        uses: dict[Tensor, int] = {}
        for op in ops:
            for t in op_inputs(op):
                uses[t] = uses.get(t, 0) + 1
        kept = dict.fromkeys(tensors)
        for op in [op for op in ops if op not in (beside or {})]:
            if isinstance(op, Scatter) and not _goes_on(op, uses, kept):
                self.boxes[op.shape] = self.boxes.get(op.shape, 0) + 1
            if isinstance(op, (Compute, Scatter, Scan)):
                form, _ = form_of(op)
                nests, times = self.forms.get(form) or (_nests(op), 0)
                self.forms[form] = nests, times + 1

    def listed(self, sizes: Mapping[Expr, int]) -> int:
        """At most so many points are listed to count those of all loops."""
        return self._sum(lambda nest: listed_points(nest, sizes))

    def count(self, sizes: Mapping[Expr, int]) -> int:
        """The points visited for given sizes."""
        filled = 0
        for shape, times in self.boxes.items():
            filled += times * elements_at(shape, sizes)
        return filled + self._sum(lambda nest: count_points(nest, sizes))

    def _sum(self, of_nest: Callable[[Items], int]) -> int:
        return sum([n * sum(map(of_nest, nests)) for nests, n in self.forms.values()])


def _nests(op: Formula) -> list[Items]:
    """The nests of the loops of an operation."""
    match op:
        case Scan():
            outer, _ = split_condition(op.condition, op.along)
            cells = [] if op.cell is None else [tuple(op.axes)]
            return [(*op.scope, outer), *cells]
        case Scatter():
            parts = [(*u.indices, u.value, u.condition) for u in op.updates]
            return [tuple(op.axes), *[nest for p in parts for nest in _folds(p, op.axes)]]
    return _folds(op.bodies, op.axes) or [tuple(op.axes)]


def _folds(roots: Sequence[Expr], axes: Sequence[Expr]) -> list[Items]:
    """The nests of the reductions in formulas."""
    _, sites = loop_levels(roots, axes, every_operand, conditions=True)
    return [s.points for s in sites]


def _goes_on(op: Scatter, uses: Mapping[Tensor, int], kept: Mapping[Tensor, None]) -> bool:
    """Whether the scatter adds to the tensor it starts from, which nothing else needs."""
    start = op.init
    if start is None or start in kept or uses[start] > 1:
        return False
    whole = isinstance(start.op, Scatter) or (
        isinstance(start.op, Compute) and len(start.op.bodies) == 1
    )
    return whole and not any(r.tensor is start for r in reads(*op_expressions(op)))
