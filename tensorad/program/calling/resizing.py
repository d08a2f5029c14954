"""Extents that differ from call to call of a function that calls itself: sizes that calls give."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Expr, LocalSize, local_size
from tensorad.ir.tensor import Dim, Shape, dim_expr
from tensorad.program.calling.arguments import Extents, size_name


class Resizing:
    """The shapes that the parameters of a function have, whichever call of it runs.

    Attributes:
        shapes: sizes where extents differ, one for those that are equal in each call.
        sizes: these.
        ranks: how many extents each of the shapes has.
    """

    def __init__(self, shapes: Sequence[Shape], sizes: Sequence[LocalSize] = ()) -> None:
        self.shapes = tuple(shapes)
        self.sizes = tuple(sizes)
        self.ranks = [len(s) for s in self.shapes]
        self._sizes: dict[Dim, None] = dict.fromkeys(sizes)

    def values(self, given: Extents) -> dict[LocalSize, Expr] | None:
        """What the sizes are in a call with arguments of these extents; None if it does not fit."""
        known: dict[Dim, Dim] = {}
        for shape, own in zip(self.shapes, given, strict=True):
            if len(shape) != len(own):
                return None
            for extent, n in zip(shape, own, strict=True):
                wanted = known.setdefault(extent, n) if extent in self._sizes else extent
                if not same_dim(wanted, n):
                    return None
        return {s: dim_expr(known[s]) for s in self.sizes}

    def widened(self, given: Extents, paths: Sequence[str]) -> Resizing:
        """Shapes that hold for these arguments, too: further sizes where they do not fit."""
        known: dict[Dim, Dim] = {}
        new: dict[tuple[Dim, Dim], LocalSize] = {}
        shapes: list[Shape] = []
        for path, shape, own in zip(paths, self.shapes, given, strict=True):
            made: list[Dim] = []
            for d, (extent, n) in enumerate(zip(shape, own, strict=True)):
                wanted = known.setdefault(extent, n) if extent in self._sizes else extent
                if same_dim(wanted, n):
                    made.append(extent)
                    continue
                pair = (extent, n)
                if pair not in new:
                    new[pair] = local_size(size_name(path, d))
                made.append(new[pair])
            shapes.append(tuple(made))
        return Resizing(shapes, (*self.sizes, *new.values()))
