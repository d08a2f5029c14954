"""Additions, products and stores behind tensors: what ways to collect adjoints are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorad.autodiff.counting.cost import SAMPLE, count_items, runs_of, sizes_of
from tensorad.ir.analysis.levels import every_operand, loop_levels
from tensorad.ir.analysis.sizes import elements_at
from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import Call, Expr, Reduce
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Compute, Loop, Op, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import op_expressions, topological_ops

_ADDITIONS = frozenset(("add", "sub"))


@dataclass(frozen=True)
class Operations:
    """Counts of one run, symbolic sizes being 16: on floats, but for what is stored.

    Attributes:
        additions: also of sums, one for each term.
        products: multiplications, divisions and functions.
        elements: values stored; `bytes` of them.
    """

    additions: int = 0
    products: int = 0
    elements: int = 0
    bytes: int = 0

    @property
    def total(self) -> int:
        """Additions, products and stores."""
        return self.additions + self.products + self.elements

    def __str__(self) -> str:
        return f"{self.additions:,} additions, {self.products:,} products, {self.elements:,} stores"


def operations(tensors: Sequence[Tensor], given: Sequence[Tensor] = ()) -> Operations:
    """What the loops behind tensors do, each once, those of blocks as often as loops run them.

    Args:
        given: what is behind these does not count.
    """
    before = dict.fromkeys(topological_ops(given))
    runs = runs_of([op for op in topological_ops(tensors) if op not in before], ())
    sizes: dict[Expr, int] = {e: SAMPLE for op, _ in runs for e in sizes_of(op)}
    sizes.update({e: SAMPLE for _, around in runs for n in around for e in sizes_in(n)})
    sizes.update({op.counter: SAMPLE // 2 for op, _ in runs if isinstance(op, Loop)})
    additions = products = elements = stored = 0
    for op, around in runs:
        if isinstance(op, (Compute, Scatter, Scan)):
            times = elements_at(around, sizes)
            more = _computed(op, sizes)
            additions += more[0] * times
            products += more[1] * times
            for t in outputs(op):
                own = elements_at(t.shape, sizes) * times
                elements += own
                stored += own * t.dtype.bits // 8
    return Operations(additions, products, elements, stored)


def _computed(op: Op, sizes: Mapping[Expr, int]) -> tuple[int, int]:
    """(additions, products) of one run of an operation's loops."""
    assert isinstance(op, (Compute, Scatter, Scan)), "only these have loops of their own"
    axes = (*op.axes, *op.along) if isinstance(op, Scan) else op.axes
    roots = op.bodies if isinstance(op, Compute) else op_expressions(op)
    levels, sites = loop_levels(roots, axes, every_operand, conditions=True)
    additions = products = 0
    for level in levels:
        calls = [e for e in level.need if isinstance(e, Call) and e.dtype.is_float]
        times = count_items(level.items, sizes) if calls else 0
        additions += times * len([e for e in calls if e.op in _ADDITIONS])
        products += times * len([e for e in calls if is_costly(e.op)])
    folds = [s for s in sites if isinstance(s.key, Reduce)]
    additions += sum([count_items(s.points, sizes) for s in folds])
    if isinstance(op, Scatter):
        additions += len(op.updates) * count_items(op.axes, sizes)
    return additions, products
