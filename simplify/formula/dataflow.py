"""Who reads a tensor, and moving its formula into its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorad.ir.expr import Axis, Expr, Read, Reduce, read
from tensorad.ir.order import READ
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    free_leaves,
    op_expressions,
    op_inputs,
    outside_reductions,
    reads,
    rewrite,
    rewrite_all,
    substitute,
    topological_ops,
    with_fresh_reductions,
)

Definition = tuple[Sequence[Axis], Expr]
"""A formula over axes."""


def count_uses(order: Sequence[Op]) -> dict[Tensor, int]:
    """Distinct reads; a reader that is no compute counts as two, for it needs a tensor."""
    count: dict[Tensor, int] = {}
    for op in order:
        found = [r.tensor for r in reads(*op_expressions(op))]
        if not isinstance(op, Compute):
            found = [*op_inputs(op), *op_inputs(op)]
        for t in found:
            count[t] = count.get(t, 0) + 1
    return count


def unfold(definition: Definition, indices: Sequence[Expr]) -> Expr:
    axes, body = definition
    pairs = zip(axes, indices, strict=True)
    values: dict[Expr, Expr] = {a: i for a, i in pairs if a is not i}
    return substitute(with_fresh_reductions(body), values)


def loops_around(axes: Sequence[Axis], body: Expr) -> dict[Expr, tuple[Axis, ...] | None]:
    """For every read: the axes around it that take more than one value; None if it occurs
    in several reductions, or inside and outside of one."""
    found: dict[Expr, tuple[Axis, ...] | None] = {}
    stack: list[tuple[Expr, tuple[Axis, ...]]] = [(body, tuple(axes))]
    while stack:
        root, around = stack.pop()
        for e in outside_reductions([root]):
            if isinstance(e, Read):
                found[e] = None if e in found else tuple([a for a in around if a.extent != 1])
            elif isinstance(e, Reduce):
                stack += [(s, (*around, *e.axes)) for s in (*e.sources, e.condition)]
    return found


def is_pointwise(e: Read, loops: Mapping[Expr, tuple[Axis, ...] | None]) -> bool:
    """Whether the loops around the read visit each element at most once."""
    indices = [i for i in e.indices if isinstance(i, Axis)]
    around = loops.get(e)
    return (
        around is not None
        and all(isinstance(i, Axis) or not free_leaves(i) for i in e.indices)
        and len(dict.fromkeys(indices)) == len(indices)
        and all(any(a is i for i in indices) for a in around)
    )


def over_inputs(op: Op, image: Mapping[Tensor, Tensor]) -> Op:
    """The operation with reads of some tensors turned into reads of others; itself if of none."""
    if all(image.get(t, t) is t for t in op_inputs(op)):
        return op

    def renew(e: Expr) -> Expr | None:
        if isinstance(e, Read) and e.tensor in image:
            return read(image[e.tensor], e.indices)
        return None

    memo: dict[Expr, Expr] = {}

    def new(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return rewrite_all(exprs, renew, memo, READ)

    return on_fresh_axes(map_op(op, new, lambda t: image.get(t, t)))


def on_fresh_axes(op: Op) -> Op:
    """A changed operation; a compute over axes of its own."""
    if not isinstance(op, Compute):
        return op
    axes, bodies = copy_bodies(op.axes, op.bodies)
    return replace(op, axes=axes, bodies=bodies)


def nest(results: Sequence[Tensor], stages: Mapping[Tensor, None]) -> list[Tensor]:
    """Stages read once, at the points of their reader, written into it."""
    if not stages:
        return list(results)
    order = [op for op in topological_ops(results) if op_inputs(op)]
    uses = count_uses(order)
    kept = dict.fromkeys(results)
    image: dict[Tensor, Tensor] = {}
    for op in order:
        if not isinstance(op, Compute) or not any(t in stages for t in op_inputs(op)):
            new = over_inputs(op, image)
        else:
            new = _nested(op, stages, kept, uses, image)
        if new is not op:
            for old, t in zip(outputs(op), outputs(new), strict=True):
                image[old] = t
    return [image.get(t, t) for t in results]


def _nested(
    op: Compute,
    stages: Mapping[Tensor, None],
    kept: Mapping[Tensor, None],
    uses: Mapping[Tensor, int],
    image: Mapping[Tensor, Tensor],
) -> Op:
    body = op.bodies[0]
    loops = loops_around(op.axes, body)
    inside = isinstance(body, Reduce)

    def write_out(e: Expr) -> Expr | None:
        if not isinstance(e, Read):
            return None
        t = image.get(e.tensor, e.tensor)
        single = e.tensor in stages and e.tensor not in kept and uses[e.tensor] == 1
        if single and not inside and isinstance(t.op, Compute) and is_pointwise(e, loops):
            return unfold((t.op.axes, t.op.bodies[0]), e.indices)
        return None if t is e.tensor else read(t, e.indices)

    new = rewrite(body, write_out, kinds=READ)
    if new is body:
        return op
    return on_fresh_axes(replace(op, bodies=(new,)))
