"""A program with one axis more: operation by operation, what is the same in all rows left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.batching import arms, blocks, nested, python, singly, uneven
from tensorad.batching.dependence import of_loop
from tensorad.batching.formulas import with_rows
from tensorad.batching.level import Level
from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.records import Fields, Inject, Recursion, Tag
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
)

_LEFT_OUT: Final = (Placeholder, Constant, Saved)
"""Inputs; what is saved of an operation has its image with this."""


def give_images(level: Level, wanted: Sequence[Tensor]) -> None:
    """Fill in the images of tensors, and of all that they are computed from."""
    for mapped in nested.maps_behind(wanted, {**level.image, **level.plain}):
        nested.through(mapped, level)
    known = {**level.image, **level.plain}
    ops = ops_between([t for t in wanted if t not in known], known)
    kept = saves_of(ops)
    for op in singly.in_regions(ops, wanted, level):
        if isinstance(op, singly.Region):
            singly.through(op, level)
        else:
            _image(op, level, kept)


def _image(op: Op, level: Level, kept: Mapping[Control, Sequence[Saved]]) -> None:
    if isinstance(op, Control):
        _control(op, level, kept.get(op, ()))
    elif isinstance(op, (Compute, Scatter, Scan)):
        _formula(op, level)
    elif type(op) not in _LEFT_OUT:
        _refuse_if_mapped(op, level)


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
    elif isinstance(op, Foreign) and level.used(op):
        _refuse_if_mapped(op, level)
    elif isinstance(op, Foreign):
        python.through(op, level)
    elif isinstance(op, (Branch, FunctionCall)):
        blocks.through(op, level, kept)
    elif isinstance(op, (Inject, Tag, Fields, Recursion)):
        singly.same(op, level)
    elif isinstance(op, Loop):
        carries, _, rows_differ = of_loop(op, kept, level.moving())
        if rows_differ:
            uneven.loop(op, level, kept)
        else:
            blocks.loop(op, level, kept, carries)
    else:
        _refuse_if_mapped(op, level)


def _refuse_if_mapped(op: Op, level: Level) -> None:
    """An operation of a kind that no axis can be given to stays as it is, where it may.

    Raises:
        DefinitionError: it reads what differs from row to row.
    """
    if level.differs(op) or level.changes(op):
        raise DefinitionError(
            f"vmap cannot map {op.name}, an operation of kind {type(op).__name__}.",
            where=outputs(op)[0].described,
            hint="compute it for one example at a time, outside of vmap.",
        )
