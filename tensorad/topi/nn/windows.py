"""Windows that slide over the spatial axes of a tensor: the geometry of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorad import te
from tensorad.errors import ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Dim, dim_expr, dim_of

SPATIAL: Final = "zyx"
"""Names of spatial axes, innermost last."""


@dataclass(frozen=True)
class Windows:
    """One window per output position; every field has one entry per spatial axis.

    Attributes:
        extents: of the input.
        kernel: elements of a window.
        strides: input elements between neighbouring windows.
        dilation: input elements between neighbouring elements of a window.
        before, after: elements of padding.
        shape: how many windows there are.
    """

    extents: tuple[Dim, ...]
    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    shape: tuple[Dim, ...]

    def taps(self) -> list[Axis]:
        """One reduce axis per spatial axis: the position within a window."""
        names = SPATIAL[-len(self.kernel) :]
        return [te.reduce_axis(k, name=f"k{a}") for a, k in zip(names, self.kernel, strict=True)]

    def indices(self, position: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
        """The input element under one tap of the window at a position."""
        parts = zip(position, self.strides, taps, self.dilation, self.before, strict=True)
        return [p * s + k * d - b for p, s, k, d, b in parts]

    def inside(self, indices: Sequence[Expr]) -> list[Expr]:
        """The conditions that keep padded indices inside the input, as far as there is padding."""
        conditions = []
        for i, n, before, after in zip(indices, self.extents, self.before, self.after, strict=True):
            if before:
                conditions.append(i >= 0)
            if after:
                conditions.append(i < dim_expr(n))
        return conditions


def slide(
    operator: str,
    extents: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Windows:
    """All windows that lie inside the padded input.

    Raises:
        ShapeError: a window is larger than the padded input.
    """
    shape = [
        _count(operator, n, k, s, d, sum(sides))
        for n, k, s, d, sides in zip(extents, kernel, strides, dilation, padding, strict=True)
    ]
    before, after = zip(*padding, strict=True)
    return Windows(
        tuple(extents), tuple(kernel), tuple(strides), tuple(dilation), before, after, tuple(shape)
    )


def _count(
    operator: str, extent: Dim, kernel: Dim, stride: int, dilation: int, padding: int
) -> Dim:
    """(extent + padding - dilation*(kernel - 1) - 1) // stride + 1."""
    reach = dim_of(dim_expr(extent) + padding - dilation * (dim_expr(kernel) - 1) - 1)
    if isinstance(reach, int) and reach < 0 and not same_dim(extent, 0):
        raise ShapeError(
            f"{operator}: the window ({kernel}, dilation {dilation}) is larger than the padded "
            f"input ({extent} + {padding}).",
            hint="use a smaller window or more padding.",
        )
    result = dim_of(dim_expr(reach) // stride + 1)
    return max(0, result) if isinstance(result, int) else result
