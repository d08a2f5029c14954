"""Functions of Python: called for one row after the other, in one step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorad.batching.level import Level
from tensorad.batching.rows import like
from tensorad.ir.arrays.foreign import Array, Foreign, Run
from tensorad.ir.tensor import Block, outputs


@dataclass(frozen=True)
class RowsRun:
    """The function for all rows.

    Attributes:
        run: that of one; `differ`: which of its arguments have a row for each.
    """

    run: Run
    differ: Collection[int]

    def __call__(
        self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]
    ) -> Sequence[Array]:
        own = [shape[1:] for shape in shapes]
        results = [self.run(self.row(arrays, r), own) for r in range(shapes[0][0])]
        if not results:
            return [np.empty(shape) for shape in shapes]
        return [np.stack(rows) for rows in zip(*results, strict=True)]

    def row(self, arrays: Sequence[Array], r: int) -> list[Array]:
        """The arguments of one row, which may be changed."""
        return [a[r] if k in self.differ else a.copy() for k, a in enumerate(arrays)]


def through(op: Foreign, level: Level) -> None:
    """Images of the results of a function of Python.

    Requires: its sizes are the same in all rows.
    """
    differ = [k for k, t in enumerate(op.operands) if t in level.image]
    operands = tuple(map(level.of, op.operands))
    (block,) = op.blocks
    params = tuple([like(t, t.shape) for t in operands])
    lead = (level.rows,) if differ else ()
    results = tuple([like(t, (*lead, *level.shape(t.shape))) for t in block.results])
    run = RowsRun(op.run, tuple(differ)) if differ else op.run
    made = replace(op, operands=operands, blocks=(Block(params, results),), run=run)
    images = level.image if differ else level.plain
    images.update(zip(outputs(op), outputs(made), strict=True))
