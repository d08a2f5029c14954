"""Forward mode through calls, branches and loops: blocks that compute tangents beside values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.autodiff.control.activity import Around, active_inside, within
from tensorad.autodiff.control.branches import Bound, like_operation, of_slots, read_of_block
from tensorad.autodiff.control.handles import handle_tangents
from tensorad.autodiff.control.pieces import (
    batch_first,
    like,
    rows_first,
    with_dtype,
    zeros_like,
)
from tensorad.autodiff.control.record_flows import fields_tangents, inject_tangents
from tensorad.autodiff.control.recursion import Moving, Tangents, recursion_tangents
from tensorad.autodiff.control.residuals import residuals
from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.analysis.calls import has_recursion
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.records import Fields, Inject, Recursion
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Control,
    FunctionCall,
    Loop,
    Op,
    Placeholder,
    Shape,
    Tensor,
    dim_of,
    outputs,
    saved,
)


def control_tangents(op: Op, given: Moving) -> dict[Tensor, Tensor]:
    """The tangents of outputs and of what is saved, as far as they move."""
    if isinstance(op, Loop):
        return _loop(op, given)
    if isinstance(op, (Branch, FunctionCall)):
        return _branch(op, given)
    match op:
        case Compute():
            return handle_tangents(op, given.tangents, given.batch)
        case Inject():
            tangents = inject_tangents(op, given.tangents, given.batch)
            return dict(zip(outputs(op), tangents, strict=True))
        case Fields():
            return fields_tangents(op, given.tangents, given.batch)
        case Recursion():
            return recursion_tangents(op, given)
    raise InternalError(f"{type(op).__name__} has no derivative")


def _branch(op: Control, given: Moving) -> dict[Tensor, Tensor]:
    """A branch of as many blocks, by the same index, which make tangents alone."""
    around, made = Around.of(op, given.rules), outputs(op)
    operands = around.operands
    moving = [k for k, t in enumerate(operands) if t in given.tangents]
    found: list[Tangents] = []
    params: list[tuple[Tensor, ...]] = []
    for n, block in enumerate(op.blocks):
        inner = around.params(n)
        own = {inner[k]: like(inner[k], given.batch) for k in moving}
        roots = [*block.results, *[s.inner for s in given.kept if s.block == n]]
        found.append(given.jvp(own, roots, given.batch, within(inner, given.rules)))
        params.append((*inner, *own.values()))
    ways = list(zip(op.blocks, found, params, strict=True))
    moved = [k for k in range(len(made)) if any(b.results[k] in f for b, f, _ in ways)]
    if moved and has_recursion(op):
        return _branch_of_saved(around, ways, moved, given)
    blocks = []
    for b, f, p in ways:
        tangents = [_tangent(b.results[k], f, given.batch) for k in moved]
        blocks.append(Block(p, tuple(tangents) or b.results))
    names = tuple([f"d{made[k].name}" for k in moved]) or op.names
    read = read_outside(blocks)
    kept = _values(op, blocks[0].results, params[0][len(operands) :])
    blocks = [Block((*b.params, *read, *kept), b.results) for b in blocks]
    bound = (*operands, *[given.tangents[operands[k]] for k in moving], *read, *kept.values())
    forward = like_operation(op, names, bound, tuple(blocks))
    result = dict(zip([made[k] for k in moved], outputs(forward), strict=False))
    for s in given.kept:
        if s.inner in found[s.block]:
            result[outputs(s)[0]] = saved(forward, found[s.block][s.inner], s.block)
    return result


def _values(op: Control, made: Sequence[Tensor], own: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """What tangents read of a checkpoint: values that it computes anyway, not computed again."""
    if not isinstance(op, Checkpoint) or op.again:
        return {}
    needed = residuals(op, 0, made, own, op.blocks[0].params, store_all=True)
    return {t: saved(op, t) for t in needed.stored}


def _branch_of_saved(
    around: Around,
    ways: Sequence[tuple[Block, Tangents, Sequence[Tensor]]],
    moved: Sequence[int],
    given: Moving,
) -> dict[Tensor, Tensor]:
    """The same, of values that the operation saves: its blocks are not computed again."""
    op, made = around.op, outputs(around.op)
    count = len(around.operands)
    again = isinstance(op, Checkpoint) and op.again
    bound: list[Bound] = []
    results = []
    for n, (b, f, p) in enumerate(ways):
        own = p[count:]
        tangents = [_tangent(b.results[k], f, given.batch) for k in moved]
        outside = [given.tangents[t] for t in around.operands if t in given.tangents]
        pairs = zip(own, outside, strict=True)
        heads: Bound = {("tangent", k): pair for k, pair in enumerate(pairs)}
        inner = [f[s.inner] for s in given.kept if s.block == n and s.inner in f]
        stored = read_of_block(around, n, [*tangents, *inner], own, store_all=not again)
        bound.append({**heads, **stored})
        results.append(tangents)
    forward = of_slots(op, [f"d{made[k].name}" for k in moved], bound, results)
    result = dict(zip([made[k] for k in moved], outputs(forward), strict=True))
    for s in given.kept:
        inside = ways[s.block][1]
        if s.inner in inside:
            result[outputs(s)[0]] = saved(forward, inside[s.inner], s.block)
    return result


def read_outside(blocks: Sequence[Block]) -> list[Tensor]:
    """The inputs that the formulas of rules read, which are no params of their blocks."""
    found: dict[Tensor, None] = {}
    for b in blocks:
        params = dict.fromkeys(b.params)
        ops = [op for op in ops_between(b.results, params) if isinstance(op, Placeholder)]
        found.update({t: None for op in ops for t in outputs(op) if t not in params})
    return list(found)


def _tangent(t: Tensor, found: Tangents, batch: Shape) -> Tensor:
    return with_dtype(found[t], t.dtype) if t in found else zeros_like(t, batch)


def _loop(op: Loop, given: Moving) -> dict[Tensor, Tensor]:
    """The loop with a tangent beside every carry that moves."""
    body, batch = op.blocks[0], given.batch
    active = active_inside(op, dict.fromkeys(given.tangents), given.rules)[0]
    around = Around.of(op, given.rules)
    inner, outside = around.params(), around.operands
    last = op.carries + op.scanned
    groups = [range(op.carries), range(op.carries, last), range(last, len(outside))]
    moving = [[k for k in group if inner[k] in active] for group in groups]
    own = {k: like(inner[k], batch) for group in moving for k in group}
    roots = [*[body.results[k] for k in moving[0]], *[s.inner for s in given.kept]]
    rules = within(inner, given.rules)
    found = given.jvp({inner[k]: d for k, d in own.items()}, roots, batch, rules)

    def first(k: int) -> Tensor:
        tangent = given.tangents.get(outside[k])
        if tangent is None:
            return zeros_like(outside[k], batch)
        return rows_first(tangent, batch) if k in groups[1] else tangent

    operands: list[Tensor] = []
    params: list[Tensor] = []
    tested: list[Tensor] = []
    for group, moved in zip(groups, moving, strict=True):
        operands += [*[outside[k] for k in group], *[first(k) for k in moved]]
        params += [*[inner[k] for k in group], *[own[k] for k in moved]]
    results = [*body.results, *[_tangent(body.results[k], found, batch) for k in moving[0]]]
    read = read_outside([Block(tuple(params), tuple(results))])
    if len(op.blocks) > 1:
        test = (*op.blocks[1].params, *around.outer)
        tested += [*test[: op.carries], *[own[k] for k in moving[0]]]
        tested += [*test[op.carries :], *[own[k] for k in moving[2]], *read]
    tests = [Block(tuple(tested), b.results) for b in op.blocks[1:]]
    forward = replace(
        op,
        names=(*op.names, *[f"d{op.names[k]}" for k in moving[0]]),
        operands=(*operands, *read),
        blocks=(Block((*params, *read), tuple(results)), *tests),
        carries=op.carries + len(moving[0]),
        scanned=op.scanned + len(moving[1]),
        replay=None,
    )
    made = outputs(op)
    result = dict(zip([made[k] for k in moving[0]], outputs(forward)[op.carries :], strict=True))
    for s in given.kept:
        if s.inner in found:
            rows = saved(forward, found[s.inner])
            result[outputs(s)[0]] = batch_first(rows, batch, dim_of(op.trips))
    return result
