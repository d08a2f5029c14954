"""Which tensors of a program differ from row to row, told without writing anything down."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tensorad.ir.analysis.blocks import op_sizes, ops_between, saves_of
from tensorad.ir.expr import Size
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import (
    Block,
    Branch,
    Control,
    FunctionCall,
    Loop,
    Op,
    Saved,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_inputs

Differing = dict[Tensor, None]


@dataclass
class Moving:
    """What differs from row to row at one level.

    Attributes:
        tensors: that do.
        sizes: that do.
    """

    tensors: Differing
    sizes: dict[Size, None] = field(default_factory=dict)

    def any_size(self, op: Op) -> bool:
        """Whether an operation, or what is in its blocks, rests on a size that does."""
        return any(s in self.sizes for s in op_sizes(op))


def differing(wanted: Sequence[Tensor], params: Collection[Tensor], moving: Moving) -> Differing:
    """Those of the tensors of a block that differ, if some of its params do."""
    found = Moving(dict(moving.tensors), dict(moving.sizes))
    ops = ops_between(wanted, dict.fromkeys(params))
    kept = saves_of(ops)
    for op in ops:
        if isinstance(op, Saved):
            continue
        if isinstance(op, Control):
            found.tensors.update(of_control(op, kept.get(op, ()), found))
        elif found.any_size(op) or any(t in found.tensors for t in op_inputs(op)):
            found.tensors.update(dict.fromkeys(outputs(op)))
    return found.tensors


def of_control(op: Control, kept: Sequence[Saved], moving: Moving) -> Differing:
    """The outputs that differ, and what is saved that does; sizes that do are added."""
    saves = {s: outputs(s)[0] for s in kept}
    if isinstance(op, Loop):
        carries, inner, rows_differ = of_loop(op, list(saves), moving)
        if rows_differ:
            moving.sizes.update(dict.fromkeys(_sizes(op)))
        found = {t: None for k, t in enumerate(outputs(op)) if k in carries}
        found.update({saves[s]: None for s in saves if rows_differ or s.inner in inner})
        return found
    if not moving.any_size(op) and not any(t in moving.tensors for t in op.operands):
        return {}
    if isinstance(op, Branch) and op.operands[0] in moving.tensors:
        return dict.fromkeys([*outputs(op), *saves.values()])
    if isinstance(op, FunctionCall) and op.rule is not None:
        return dict.fromkeys([*outputs(op), *saves.values()])
    found = {}
    for n, block in enumerate(op.blocks):
        inner = of_block(op, n, [s.inner for s in saves if s.block == n], moving)
        pairs = zip(outputs(op), block.results, strict=True)
        found.update({t: None for t, r in pairs if r in inner})
        found.update({t: None for s, t in saves.items() if s.block == n and s.inner in inner})
    return found


def of_block(op: Control, n: int, more: Sequence[Tensor], moving: Moving) -> Differing:
    """The tensors that differ in a block of a call or branch."""
    operands = op.operands[isinstance(op, Branch) :]
    block = op.blocks[n]
    own = [p for p, t in zip(block.params, operands, strict=True) if t in moving.tensors]
    inside = Moving(dict.fromkeys(own), moving.sizes)
    return differing((*block.results, *more), block.params, inside)


def _sizes(op: Loop) -> list[Size]:
    return [s for s in sizes_in(op.trips) if s is op.trips]


def of_loop(
    op: Loop, saves: Sequence[Saved], moving: Moving
) -> tuple[dict[int, None], Mapping[Tensor, None], bool]:
    """(carries that differ by number, tensors of the block that do, whether some rows go on
    longer than others)."""
    own = [k for k, t in enumerate(op.operands) if t in moving.tensors]
    every = dict.fromkeys(range(op.carries))
    ragged = any(s in moving.sizes for s in sizes_in(op.trips))
    if ragged or (op.count is not None and op.count in moving.tensors):
        return every, {}, True
    if not own and not moving.any_size(op):
        return {}, {}, False
    body = op.blocks[0]
    moved = dict.fromkeys(own)
    while True:
        inside = Moving({body.params[k]: None for k in moved}, moving.sizes)
        inner = differing((*body.results, *[s.inner for s in saves]), body.params, inside)
        new = [k for k, t in enumerate(body.results) if t in inner and k not in moved]
        if not new:
            break
        moved.update(dict.fromkeys(new))
    carries = {k: None for k in moved if k < op.carries}
    if len(op.blocks) > 1 and _test_differs(op, op.blocks[1], moved, moving):
        return every, {}, True
    return carries, inner, False


def _test_differs(op: Loop, test: Block, moved: Collection[int], moving: Moving) -> bool:
    last = op.carries + op.scanned
    numbers = [k for k in range(len(op.operands)) if not op.carries <= k < last]
    own = [p for k, p in zip(numbers, test.params, strict=True) if k in moved]
    inside = Moving(dict.fromkeys(own), moving.sizes)
    return test.results[0] in differing(test.results, test.params, inside)
