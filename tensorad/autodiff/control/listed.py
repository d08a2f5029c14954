"""Carries of which an iteration changes listed rows: these are stored in place of the whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.listed import kept_rows
from tensorad.ir.expr import Expr, Read, read
from tensorad.ir.order import READ
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Op, Scatter, Tensor, outputs
from tensorad.ir.visit import loop_bounds, op_expressions, op_inputs, reads, rewrite
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs


def in_lists(
    made: Sequence[Tensor], given: Collection[Tensor], results: Mapping[Tensor, Tensor]
) -> tuple[list[Tensor], dict[Tensor, Tensor]]:
    """Tensors made in an iteration, reading of carries what was stored of listed rows.

    Args:
        given: all that they read of the block, behind which nothing is looked at.
        results: carries -> the next ones.
    Returns:
        the tensors, and what is stored of carries; these are not read any more.
    """
    lists = {p: at for p, t in results.items() if (at := _list_of(p, t)) is not None}
    order = ops_between(made, given) if lists else []
    for op in order:
        for p in [t for t in op_inputs(op) if t in lists]:
            if not _reads_listed(op, p, lists[p]):
                del lists[p]
    read_of = dict.fromkeys([t for op in order for t in op_inputs(op)])
    stored = {p: kept_rows(p, at) for p, at in lists.items() if p in read_of}
    if not stored:
        return list(made), {}

    def renew(e: Expr) -> Expr | None:
        own = isinstance(e, Read) and e.tensor in stored
        return read(stored[e.tensor], e.indices) if own and isinstance(e, Read) else None

    image: dict[Tensor, Tensor] = {}
    for op in order:
        new = op
        if any(t in stored for t in op_inputs(op)):
            new = map_op(op, lambda exprs: tuple([rewrite(e, renew, kinds=READ) for e in exprs]))
        new = over_inputs(on_fresh_axes(new) if new is not op else op, image)
        if new is not op:
            image.update(zip(outputs(op), outputs(new), strict=True))
    return [image.get(t, t) for t in made], stored


def _list_of(carry: Tensor, result: Tensor) -> Tensor | None:
    """The numbers of the rows of a carry that the next one has anew, if all are different."""
    op = result.op
    if not isinstance(op, Scatter) or op.init is not carry or not op.distinct:
        return None
    found = [u.indices[0] for u in op.updates]
    one = found[0]
    if len(found) > 1 or not isinstance(one, Read) or len(one.indices) > 1:
        return None
    return one.tensor if one.indices[0] in op.axes else None


def _reads_listed(op: Op, carry: Tensor, at: Tensor) -> bool:
    """Whether an operation reads rows of the list alone, in formulas."""
    if isinstance(op, Scatter) and op.init is carry:
        return False
    found = [r for r in reads(*op_expressions(op)) if r.tensor is carry]
    first = [r.indices[0] for r in found]
    bounds = any(r.tensor is carry for r in reads(*loop_bounds(op)))
    return bool(found) and not bounds and all(isinstance(i, Read) and i.tensor is at for i in first)
