"""New operations for each place where a block runs: a tensor is one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.tensor import Block, Constant, Op, Placeholder, Tensor, outputs
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs

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


def again(t: Tensor) -> Tensor:
    """The tensor, computed by another operation."""
    return outputs(_renewed(t.op, {}))[t.index]


def _renewed(op: Op, image: Image) -> Op:
    """Another operation that does the same with the images of its inputs."""
    made = over_inputs(op, image)
    return replace(on_fresh_axes(op)) if made is op else made
