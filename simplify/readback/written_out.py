"""Tensors written out as formulas over the tensors that they are compared over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tensorad.ir.expr import (
    Axis,
    Expr,
    Read,
    call,
    cast,
    const,
    logical_and,
    read,
    reduce_expr,
    select,
)
from tensorad.ir.nominal import Combiner
from tensorad.ir.order import READ
from tensorad.ir.tensor import Compute, Scan, Scatter, Tensor
from tensorad.ir.visit import copy_bodies, fresh_axes, rewrite, substitute, substitute_all
from tensorad.simplify.certify.outcomes import Undecided

_MOST_NODES = 4000


def written_out(root: Expr, stop: Callable[[Tensor], bool]) -> Expr:
    """The formula without reads of tensors that have formulas and are not to stop at.

    Raises:
        Undecided: it would be too long.
    """
    left = _MOST_NODES
    memo: dict[Expr, Expr] = {}

    def open_(e: Expr) -> Expr | None:
        nonlocal left
        if not isinstance(e, Read) or stop(e.tensor):
            return None
        found = element(e.tensor, e.indices)
        if found is None:
            return None
        left -= 1
        if left < 0:
            raise Undecided("written out, the formula is too long")
        return rewrite(found, open_, kinds=READ)

    return rewrite(root, open_, memo, READ)


def element(t: Tensor, indices: Sequence[Expr]) -> Expr | None:
    """An element of a tensor by its formula; None if it has none."""
    op = t.op
    if isinstance(op, Compute):
        axes, bodies = copy_bodies(op.axes, op.bodies)
        return substitute(bodies[t.index], dict(zip(axes, indices, strict=True)))
    if isinstance(op, Scatter) and op.combiner.is_sum:
        return _scattered(op, indices)
    if isinstance(op, Scan) and is_never_changed(t):
        start = op.start[t.index % op.combiner.arity]
        return substitute(start, dict(zip(op.axes, indices, strict=True)))
    return None


def is_never_changed(t: Tensor) -> bool:
    """Whether it is the last state of a scan whose steps all leave the state as it is."""
    op = t.op
    if not isinstance(op, Scan):
        return False
    kind, component = divmod(t.index, op.combiner.arity)
    return kind == 2 and op.combiner.results[component] is op.combiner.lhs[component]


def _scattered(op: Scatter, indices: Sequence[Expr]) -> Expr:
    """What was there, and the sum of the updates that go to these indices."""
    total: Expr = const(0, op.dtype) if op.init is None else read(op.init, tuple(indices))
    for u in op.updates:
        new = fresh_axes(op.axes)
        *there, value, condition = substitute_all((*u.indices, u.value, u.condition), new)
        loops = tuple([a for a in map(new.__getitem__, op.axes) if isinstance(a, Axis)])
        total = total + summed_where(op.combiner, loops, there, indices, value, condition)
    return total


def summed_where(
    combiner: Combiner,
    loops: tuple[Axis, ...],
    there: Sequence[Expr],
    indices: Sequence[Expr],
    value: Expr,
    condition: Expr,
) -> Expr:
    """The sum of a value over the points of loops that go to some indices."""
    hits = logical_and(*[call("eq", x, i) for i, x in zip(there, indices, strict=True)])
    source = select(condition, value, const(0, value.dtype))
    return reduce_expr(combiner, (cast(source, combiner.identity[0].dtype),), loops, hits)


def stops_at(tensors: Collection[Tensor]) -> Callable[[Tensor], bool]:
    known = dict.fromkeys(tensors)
    return lambda t: t in known
