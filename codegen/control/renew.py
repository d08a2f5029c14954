"""New operations for each place where a block runs: a tensor is one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.expr import Expr, Read, read
from tensorad.ir.order import READ
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import (
    Block,
    Compute,
    Constant,
    Control,
    Loop,
    Op,
    Placeholder,
    Saved,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import copy_bodies, rewrite

Image = dict[Tensor, Tensor]


def renewed(block: Block, params: Sequence[Tensor], extra: Sequence[Tensor] = ()) -> Image:
    """Tensors of the block -> those of a copy over other params: its params, results, and `extra`.

    Blocks inside are shared: they are copied when they are run.
    """
    image: Image = dict(zip(block.params, params, strict=True))
    for op in ops_between((*block.results, *extra), dict(image)):
        if not isinstance(op, (Constant, Placeholder)):
            for old, new in zip(outputs(op), outputs(_renewed(op, image)), strict=True):
                image.setdefault(old, new)
    return image


def _renewed(op: Op, image: Image) -> Op:
    if isinstance(op, Control):
        operands = tuple([image.get(t, t) for t in op.operands])
        if isinstance(op, Loop) and op.count is not None:
            return replace(op, operands=operands, count=image.get(op.count, op.count))
        return replace(op, operands=operands)
    if isinstance(op, Saved):
        control = image[outputs(op.control)[0]].op
        assert isinstance(control, Control)  # the image of one
        return saved(control, op.inner, op.block).op

    def over(e: Expr) -> Expr | None:
        if isinstance(e, Read) and e.tensor in image:
            return read(image[e.tensor], e.indices)
        return None

    memo: dict[Expr, Expr] = {}

    def new(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([rewrite(e, over, memo, READ) for e in exprs])

    made = map_op(op, new, lambda t: image.get(t, t))
    if isinstance(made, Compute):
        axes, bodies = copy_bodies(made.axes, made.bodies)
        return replace(made, axes=axes, bodies=bodies)
    return replace(made)
