"""How many points the loops of tensors visit, counted from their operations without lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensorad.ir.expr import Expr
from tensorad.ir.levels import every_operand, loop_levels, split_condition
from tensorad.ir.points import count_points, evaluate
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
)
from tensorad.ir.visit import op_expressions, op_inputs, reads, topological_ops

Items = tuple[Expr, ...]


class Visits:
    """The loops behind some tensors, without those behind `given`; counted for any sizes."""

    def __init__(self, tensors: Sequence[Tensor], given: Sequence[Tensor] = ()) -> None:
        before = dict.fromkeys(topological_ops(given))
        ops = [op for op in topological_ops(tensors) if op not in before]
        self.boxes: list[Op] = []
        """Operations of which every element is visited."""
        self.nests: list[Items] = []
        uses: dict[Tensor, int] = {}
        for op in ops:
            for t in op_inputs(op):
                uses[t] = uses.get(t, 0) + 1
        kept = dict.fromkeys(tensors)
        for op in ops:
            if isinstance(op, Scatter) and not _goes_on(op, uses, kept):
                self.boxes.append(op)
            self._add(op)

    def _add(self, op: Op) -> None:
        match op:
            case Placeholder() | Constant():
                return
            case Scan():
                outer, _ = split_condition(op.condition, op.along)
                self.nests.append((*op.scope, outer))
                if op.cell is not None:
                    self.nests.append(tuple(op.axes))
            case Scatter():
                self.nests.append(tuple(op.axes))
                for u in op.updates:
                    self._add_folds((*u.indices, u.value, u.condition), op.axes)
            case Compute():
                if not self._add_folds(op.bodies, op.axes):
                    self.nests.append(tuple(op.axes))

    def _add_folds(self, roots: Sequence[Expr], axes: Sequence[Expr]) -> bool:
        """Add the nests of the reductions in formulas; whether there are any."""
        _, sites = loop_levels(roots, axes, every_operand, conditions=True)
        self.nests += [s.points for s in sites]
        return bool(sites)

    def count(self, sizes: Mapping[Expr, int]) -> int:
        """The points visited for given sizes."""
        shapes = [evaluate([dim_expr(n) for n in op.shape], {}, sizes) for op in self.boxes]
        filled = sum([prod(map(int, shape)) for shape in shapes])
        return filled + sum([count_points(nest, sizes) for nest in self.nests])


def _goes_on(op: Scatter, uses: Mapping[Tensor, int], kept: Mapping[Tensor, None]) -> bool:
    """Whether the scatter adds to the tensor it starts from, which nothing else needs."""
    start = op.init
    if start is None or start in kept or uses[start] > 1:
        return False
    whole = isinstance(start.op, Scatter) or (
        isinstance(start.op, Compute) and len(start.op.bodies) == 1
    )
    return whole and not any(r.tensor is start for r in reads(*op_expressions(op)))
