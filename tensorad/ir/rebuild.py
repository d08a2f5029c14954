"""An operation over changed expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_

from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import Axis, Expr, axis
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import (
    Compute,
    Control,
    Loop,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import substitute_all

Exprs = tuple[Expr, ...]


def map_op(
    op: Op,
    new: Callable[[Sequence[Expr]], Exprs],
    init: Callable[[Tensor], Tensor] = lambda t: t,
    combiner: Callable[[Combiner], Combiner] = lambda c: c,
) -> Op:
    """The operation with every expression changed; the shape stays, as axes do but for bounds.

    Args:
        new: images of expressions of the same dtypes (or of those of `combiner`'s state).
        init: the image of a tensor that is read as a whole: a scatter's start, operands (what is
            inside of blocks stays).
        combiner: the image of a scatter's or scan's combiner.
    """
    match op:
        case Compute():
            return replace(op, bodies=new(op.bodies))
        case Scatter():
            axes, renewed = _over_bounds(op.axes, new)
            updates = []
            for u in op.updates:
                value, condition, *indices = renewed(
                    (*new((u.value, u.condition)), *new(u.indices))
                )
                changed = replace(u, indices=tuple(indices), value=value, condition=condition)
                updates.append(changed)
            folded = combiner(op.combiner)
            return replace(
                op,
                dtype=folded.identity[0].dtype,
                axes=axes,
                updates=tuple(updates),
                combiner=folded,
                init=None if op.init is None else init(op.init),
            )
        case Scan():
            along, renewed = _over_bounds(op.along, new)
            (condition,) = renewed(new((op.condition,)))
            return replace(
                op,
                along=along,
                sources=renewed(new(op.sources)),
                start=new(op.start),
                indices=renewed(new(op.indices)),
                condition=condition,
                combiner=combiner(op.combiner),
                cell=None if op.cell is None else renewed(new(op.cell)),
            )
        case Loop():
            operands, count = tuple(map(init, op.operands)), op.count
            return replace(op, operands=operands, count=None if count is None else init(count))
        case Control():
            return replace(op, operands=tuple(map(init, op.operands)))
        case Saved():
            control = init(outputs(op.control)[0]).op
            if isinstance(control, Control) and control is not op.control:
                return saved(control, op.inner, op.block).op
    return op


def _over_bounds(
    axes: tuple[Axis, ...], new: Callable[[Sequence[Expr]], Exprs]
) -> tuple[tuple[Axis, ...], Callable[[Sequence[Expr]], Exprs]]:
    """Axes over changed bounds that come from data, and what puts them into expressions."""
    fresh: dict[Expr, Expr] = {}
    made: list[Axis] = []
    for a in axes:
        old = (a.lower, a.upper, a.step)
        bounds = substitute_all(new(old), fresh) if occurs(READ, *old) else old
        made.append(a if all(map(is_, bounds, old)) else axis(a.name, *bounds))
        fresh.update({} if made[-1] is a else {a: made[-1]})
    return tuple(made), lambda exprs: substitute_all(exprs, fresh)
