"""An operation over changed expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor

Exprs = tuple[Expr, ...]


def map_op(
    op: Op,
    new: Callable[[Sequence[Expr]], Exprs],
    init: Callable[[Tensor], Tensor] = lambda t: t,
    combiner: Callable[[Combiner], Combiner] = lambda c: c,
) -> Op:
    """The operation with every expression changed; axes and shape stay.

    Args:
        new: images of expressions of the same dtypes (or of those of `combiner`'s state).
        init: the image of a scatter's start.
        combiner: the image of a scatter's or scan's combiner.
    """
    match op:
        case Compute():
            return replace(op, bodies=new(op.bodies))
        case Scatter():
            updates = []
            for u in op.updates:
                value, condition = new((u.value, u.condition))
                updates.append(replace(u, indices=new(u.indices), value=value, condition=condition))
            folded = combiner(op.combiner)
            return replace(
                op,
                dtype=folded.identity[0].dtype,
                updates=tuple(updates),
                combiner=folded,
                init=None if op.init is None else init(op.init),
            )
        case Scan():
            (condition,) = new((op.condition,))
            return replace(
                op,
                sources=new(op.sources),
                start=new(op.start),
                indices=new(op.indices),
                condition=condition,
                combiner=combiner(op.combiner),
            )
    return op
