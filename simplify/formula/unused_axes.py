"""Axes that a tensor's formula does not use: dropped, with the reads of the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.ir.expr import Axis, Expr, Read, read
from tensorad.ir.order import READ
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import copy_bodies, free_leaves, op_inputs, rewrite, topological_ops

Kept = dict[Tensor, tuple[Tensor, tuple[int, ...]]]
"""tensor -> the one that replaces it, and which of its dimensions that one has."""


def drop_unused_axes(results: Sequence[Tensor]) -> list[Tensor]:
    """The same tensors, over intermediates without axes that their formulas do not use.

    Ensures: results keep their shapes; a result of which nothing changed is itself.
    """
    fixed = dict.fromkeys([t.op for t in results])
    image: Kept = {}
    for op in topological_ops(results):
        new = _over(op, image)
        dims: tuple[int, ...] | None = None
        if isinstance(new, Compute) and op not in fixed:
            used = free_leaves(*new.bodies)
            dims = tuple([d for d, a in enumerate(new.axes) if a in used])
            if len(dims) < len(op.shape):
                new = _without(new, dims)
        if new is not op:
            for old, t in zip(outputs(op), outputs(new), strict=True):
                image[old] = (t, tuple(range(t.ndim)) if dims is None else dims)
    return [image[t][0] if t in image else t for t in results]


def _without(op: Compute, dims: Sequence[int]) -> Compute:
    axes, bodies = copy_bodies(tuple([op.axes[d] for d in dims]), op.bodies)
    return replace(op, axes=axes, bodies=bodies)


def _over(op: Op, image: Kept) -> Op:
    """The operation reading the replacements."""
    if not any(t in image for t in op_inputs(op)):
        return op
    memo: dict[Expr, Expr] = {}

    def renew(e: Expr) -> Expr | None:
        if isinstance(e, Read) and e.tensor in image:
            t, dims = image[e.tensor]
            return read(t, tuple([e.indices[d] for d in dims]))
        return None

    def new(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([rewrite(e, renew, memo, READ) for e in exprs])

    return map_op(op, new, lambda t: _whole(t, image))


def _whole(t: Tensor, image: Kept) -> Tensor:
    """A tensor of the old shape: one that lost axes is written out again."""
    new, dims = image.get(t, (t, tuple(range(t.ndim))))
    if len(dims) == t.ndim or not isinstance(t.op, Compute):
        return new
    axes, _ = copy_bodies(t.op.axes, ())
    picked: tuple[Axis, ...] = tuple([axes[d] for d in dims])
    return outputs(Compute(t.op.name, axes, (read(new, picked),), t.op.source))[0]
