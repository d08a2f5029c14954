"""A program with one axis more: operation by operation, what is the same in all rows left out."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.batching import arms, blocks, uneven
from tensorad.batching.dependence import of_loop
from tensorad.batching.formulas import with_rows
from tensorad.batching.level import Level
from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Control,
    FunctionCall,
    Loop,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
)


def give_images(level: Level, wanted: Sequence[Tensor]) -> None:
    """Fill in the images of tensors, and of all that they are computed from."""
    known = {**level.image, **level.plain}
    ops = ops_between([t for t in wanted if t not in known], known)
    kept = saves_of(ops)
    for op in ops:
        if isinstance(op, Control):
            _control(op, level, kept.get(op, ()))
        elif isinstance(op, (Compute, Scatter, Scan)):
            _formula(op, level)


def _formula(op: Compute | Scatter | Scan, level: Level) -> None:
    if level.differs(op):
        images, row = level.image, level.row()
    elif level.changes(op):
        images, row = level.plain, None
    else:
        return
    for old, new in zip(outputs(op), outputs(with_rows(op, level, row)), strict=True):
        if old not in level.image and old not in level.plain:
            images[old] = new


def _control(op: Control, level: Level, kept: Sequence[Saved]) -> None:
    if not level.differs(op) and not level.changes(op):
        return
    if isinstance(op, Branch) and op.operands[0] in level.image:
        arms.branch(op, level, kept)
    elif isinstance(op, (Branch, FunctionCall)):
        blocks.through(op, level, kept)
    elif isinstance(op, Loop):
        carries, _, rows_differ = of_loop(op, kept, level.moving())
        if rows_differ:
            uneven.loop(op, level, kept)
        else:
            blocks.loop(op, level, kept, carries)
    else:
        raise unknown(op)


def unknown(op: Op) -> DefinitionError:
    """An operation that no axis can be given to."""
    kind = type(op).__name__
    return DefinitionError(
        f"vmap cannot map {op.name}, an operation of kind {kind}.",
        where=outputs(op)[0].described,
        hint="map what is around it: compute it for one example at a time, outside of vmap.",
    )
