"""Which tensors of a program differ from row to row, told without writing anything down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorad.ir.analysis.blocks import op_sizes, ops_between, saves_of
from tensorad.ir.expr import Size
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Fields, Inject, Recursion, Tag, is_record
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
        known: what was found of operations, by what differs of what they are given; one for all
            levels.
    """

    tensors: Differing
    sizes: dict[Size, None] = field(default_factory=dict)
    known: dict[object, Any] = field(default_factory=dict)

    def inside(self, params: Iterable[Tensor]) -> Moving:
        """What differs in a block, if these params do."""
        return Moving(dict.fromkeys(params), self.sizes, self.known)

    def key(self, op: Control, kept: Sequence[Saved]) -> object:
        """What is found of an operation rests on this."""
        own = tuple([k for k, t in enumerate(op.inputs) if t in self.tensors])
        return op, tuple(kept), own, tuple([s for s in op_sizes(op) if s in self.sizes])

    def any_size(self, op: Op) -> bool:
        """Whether an operation, or what is in its blocks, rests on a size that does."""
        return any(s in self.sizes for s in op_sizes(op))


def differing(wanted: Sequence[Tensor], params: Collection[Tensor], moving: Moving) -> Differing:
    """Those of the tensors of a block that differ, if some of its params do."""
    found = Moving(dict(moving.tensors), dict(moving.sizes), moving.known)
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
    found = _of_control(op, kept, moving)
    given = [t for t in op.inputs if t in moving.tensors]
    made = [*outputs(op), *[outputs(s)[0] for s in kept]]
    if (found or given) and is_single(op, [*given, *made]):
        return dict.fromkeys(made)
    return found


def is_single(op: Op, differ: Sequence[Tensor]) -> bool:
    """Whether an operation is done row by row, all of it, if these are the tensors that it is given
    and differ, and those that it makes."""
    return isinstance(op, (Inject, Tag, Fields, Recursion)) or any(
        is_record(t.dtype) for t in differ
    )


def _of_control(op: Control, kept: Sequence[Saved], moving: Moving) -> Differing:
    saves = {s: outputs(s)[0] for s in kept}
    if isinstance(op, Loop):
        carries, inner, rows_differ = of_loop(op, kept, moving)
        if rows_differ:
            moving.sizes.update(dict.fromkeys(_sizes(op)))
        found = {t: None for k, t in enumerate(outputs(op)) if k in carries}
        found.update({saves[s]: None for s in saves if rows_differ or s.inner in inner})
        return found
    key = moving.key(op, kept)
    if key not in moving.known:
        moving.known[key] = _of_blocks(op, saves, moving)
    return dict(moving.known[key])


def _of_blocks(op: Control, saves: Mapping[Saved, Tensor], moving: Moving) -> Differing:
    """`of_control`, of what is no loop."""
    if not moving.any_size(op) and not any(t in moving.tensors for t in op.operands):
        return {}
    if isinstance(op, Branch) and op.operands[0] in moving.tensors:
        return dict.fromkeys([*outputs(op), *saves.values()])
    if not isinstance(op, (Branch, FunctionCall)) or _has_rule(op):
        return dict.fromkeys([*outputs(op), *saves.values()])
    found: Differing = {}
    for n, block in enumerate(op.blocks):
        inner = of_block(op, n, [s.inner for s in saves if s.block == n], moving)
        pairs = zip(outputs(op), block.results, strict=True)
        found.update({t: None for t, r in pairs if r in inner})
        found.update({t: None for s, t in saves.items() if s.block == n and s.inner in inner})
    return found


def _has_rule(op: Control) -> bool:
    """Whether a call has a derivative of its own: then all that it returns differs, so that heads
    do."""
    return isinstance(op, FunctionCall) and op.rule is not None


def of_block(op: Control, n: int, more: Sequence[Tensor], moving: Moving) -> Differing:
    """The tensors that differ in a block of a call or branch."""
    operands = op.operands[isinstance(op, Branch) :]
    block = op.blocks[n]
    own = [p for p, t in zip(block.params, operands, strict=True) if t in moving.tensors]
    return differing((*block.results, *more), block.params, moving.inside(own))


def _sizes(op: Loop) -> list[Size]:
    return [s for s in sizes_in(op.trips) if s is op.trips]


Found = tuple[dict[int, None], Mapping[Tensor, None], bool]


def of_loop(op: Loop, saves: Sequence[Saved], moving: Moving) -> Found:
    """(carries that differ by number, tensors of the block that do, whether some rows go on
    longer than others)."""
    key = moving.key(op, saves)
    if key not in moving.known:
        moving.known[key] = _of_loop(op, saves, moving)
    found: Found = moving.known[key]
    return found


def _of_loop(op: Loop, saves: Sequence[Saved], moving: Moving) -> Found:
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
        wanted = (*body.results, *[s.inner for s in saves])
        inner = differing(wanted, body.params, moving.inside([body.params[k] for k in moved]))
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
    return test.results[0] in differing(test.results, test.params, moving.inside(own))
