"""What is the same in each iteration of a loop is computed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.ir.analysis.blocks import (
    block_ops,
    inner_ops,
    is_everywhere,
    op_sizes,
    ops_between,
    tells_trips,
)
from tensorad.ir.analysis.cheap import is_cheap
from tensorad.ir.expr import Expr
from tensorad.ir.records import Recursion
from tensorad.ir.tensor import (
    Block,
    Control,
    Loop,
    Op,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs
from tensorad.simplify.bounds.reads import is_safe
from tensorad.simplify.control.levels import (
    Around,
    Saves,
    in_place_of,
    like,
    rows_of,
    surely_runs,
    values_of,
)


def hoist_invariants(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
    """The values of a loop beside what its iterations need not compute again.

    Short formulas stay: their readers compute them for less than reading them costs. So do
    loops that tell how often they ran, and indices that may be out of range where the loop may
    have no iteration.
    """
    if not isinstance(op, Loop):
        return values_of(op, saves)
    block, last = op.blocks[0], op.carries + op.scanned
    inner = [t for _, t in saves]
    moved = {t: None for o in _invariant(op, inner) if not is_cheap(o) for t in outputs(o)}
    rest = ops_between((*block.results, *inner), {**moved, **dict.fromkeys(block.params)})
    read = dict.fromkeys([*block.results, *[t for o in rest for t in op_inputs(o)]])
    used = [t for t in moved if t in read]
    kept = [t for t in moved if t in inner and not tells_trips(op)]
    if not used and not kept:
        return values_of(op, saves)
    operand = dict(zip(block.params[last:], op.operands[last:], strict=True))
    before = dict(zip((*used, *kept), in_place_of((*used, *kept), operand), strict=True))
    image = {t: like(t) for t in used}
    made = in_place_of((*block.results, *inner), image, dict.fromkeys(block.params))
    results, inside = made[: op.carries], made[op.carries :]
    blocks = [Block((*block.params, *image.values()), tuple(results))]
    blocks += [replace(b, params=(*b.params, *map(like, used))) for b in op.blocks[1:]]
    loop = replace(op, operands=(*op.operands, *[before[t] for t in used]), blocks=tuple(blocks))
    rows = [
        rows_of(before[old], op.trips) if old in kept else saved(loop, new)
        for old, new in zip(inner, inside, strict=True)
    ]
    return [*outputs(loop), *rows]


def _invariant(op: Loop, inner: Sequence[Tensor]) -> list[Op]:
    """The operations of a loop's block that read neither carries nor parts nor the counter."""
    block, last = op.blocks[0], op.carries + op.scanned
    params = dict.fromkeys(block.params)
    fixed = dict.fromkeys(block.params[last:])
    ops = block_ops(block, inner)
    own: dict[Expr, None] = {op.counter: None}
    own.update({o.trips: None for o in (*ops, *inner_ops(ops)) if tells_trips(o)})
    found: dict[Op, None] = {}
    runs = surely_runs(op)
    for o in ops:
        made = [t for t in op_inputs(o) if t not in fixed]
        if any(t in params or t.op not in found for t in made):
            continue
        if any(s in own for s in op_sizes(o)):
            continue
        inside = (o, *inner_ops([o]))
        if runs or not any(isinstance(i, Recursion) or not is_safe(i) for i in inside):
            found[o] = None
    return [o for o in found if not is_everywhere(o)]
