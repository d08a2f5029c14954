"""The prefix fold of whole tensors along one of their axes, as a scan."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import read
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Scan, Tensor


def prefix_scan(
    name: str,
    sources: Sequence[Tensor],
    axis: int,
    combiner: Combiner,
    exclusive: bool = False,
    reverse: bool = False,
) -> Scan:
    """out[..., i, ...] folds the elements 0..i (0..i-1 if exclusive; from the end if reverse)."""
    shape = sources[0].shape
    axes = compute_axes(shape)
    return Scan(
        name,
        (*axes[:axis], *axes[axis + 1 :]),
        (axes[axis],),
        tuple([read(t, axes) for t in sources]),
        combiner,
        combiner.identity,
        shape,
        axes,
        exclusive=exclusive,
        reverse=reverse,
        source=source_line(),
    )
