"""Which tensors are 0 where their inputs are: what makes a function of constant slope linear."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorad.autodiff.local.overrides import is_free
from tensorad.ir.analysis.blocks import block_ops, ops_between
from tensorad.ir.expr import Apply, Call, Cast, Const, Expr, Param, Read, Reduce, Select
from tensorad.ir.order import postorder
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Constant,
    Control,
    Loop,
    MaybeTensors,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_inputs, topological_ops
from tensorad.simplify.control.unused import drop_unused

Tensors = dict[Tensor, None]
Inside = dict[Control, list[Tensors]]
"""What is 0 in each block of operations."""


def vanish(tensors: Sequence[Tensor], inputs: Collection[Tensor]) -> bool:
    """Whether the tensors are 0 where all inputs are, as their formulas are written.

    A tensor that is 0 for another reason (a difference of equal values) counts as one that is not.
    """
    zero = _zero_among(ops_between(tensors, dict.fromkeys(inputs)), dict.fromkeys(inputs))
    return all(t in zero for t in tensors)


def freed(made: MaybeTensors, inputs: Sequence[Tensor]) -> MaybeTensors | None:
    """Tensors that follow from the values of linear formulas, computed without their inputs; None
    where that cannot be.

    A loop that carries values beside what is linear in the inputs is one of the values alone.
    """
    if is_free(made, inputs):
        return made
    live = [t for t in made if t is not None]
    moving: Tensors = dict.fromkeys(inputs)
    fixed: Tensors = {}
    for op in topological_ops(live):
        moves = any(t in moving for t in (*outputs(op), *op_inputs(op)))
        (moving if moves else fixed).update(dict.fromkeys(outputs(op)))
    found = iter(drop_unused(live, list(fixed)))
    again = [None if t is None else next(found) for t in made]
    return again if is_free(again, inputs) else None


def _zero_among(ops: Sequence[Op], given: Tensors) -> Tensors:
    """What is 0 of what the operations make, producers first, and what is given."""
    zero = dict(given)
    inside: Inside = {}
    for op in ops:
        zero.update(dict.fromkeys([t for t in outputs(op) if _is_zero(op, t, zero, inside)]))
    return zero


def _is_zero(op: Op, t: Tensor, zero: Tensors, inside: Inside) -> bool:
    match op:
        case Placeholder():
            return False
        case Constant():
            return not op.array.any()
        case Compute():
            return _are_zero([op.bodies[t.index]], zero)
        case Scatter():
            starts = op.init is None or op.init in zero
            return op.combiner.is_sum and starts and _are_zero([u.value for u in op.updates], zero)
        case Scan():
            results = _are_zero(op.combiner.results, zero)
            return results and _are_zero([*op.sources, *op.start], zero)
        case Saved():
            return op.inner in inside[op.control][op.block]
        case Loop():
            if op not in inside:
                inside[op] = [_in_loop(op, zero)]
            return op.operands[t.index] in zero and op.results[t.index] in inside[op][0]
        case _:
            if op not in inside:
                inside[op] = _in_blocks(op, zero)
            pairs = zip(op.blocks, inside[op], strict=True)
            return all(b.results[t.index] in own for b, own in pairs)


def _in_blocks(op: Control, zero: Tensors) -> list[Tensors]:
    operands = op.operands[1:] if isinstance(op, Branch) else op.operands
    return [_in_block(op, n, b, [t in zero for t in operands]) for n, b in enumerate(op.blocks)]


def _in_block(op: Control, n: int, block: Block, flags: Sequence[bool]) -> Tensors:
    given = {p: None for p, z in zip(block.params, flags, strict=True) if z}
    ops = block_ops(block, [inner for inner, b in op.kept if b == n])
    return _zero_among(ops, given)


def _in_loop(op: Loop, zero: Tensors) -> Tensors:
    """What is 0 in every iteration: carries that begin as 0 and stay so."""
    flags = [t in zero for t in op.operands]
    while True:
        found = _in_block(op, 0, op.blocks[0], flags)
        lost = [k for k in range(op.carries) if flags[k] and op.results[k] not in found]
        if not lost:
            return found
        for k in lost:
            flags[k] = False


def _are_zero(roots: Sequence[Expr], zero: Mapping[Tensor, None]) -> bool:
    """Whether formulas are 0 where these tensors, and the operands of combiners, are."""
    known: dict[Expr, bool] = {}
    for e in postorder(*roots):
        known[e] = _vanishes(e, known, zero)
    return all(known[r] for r in roots)


def _vanishes(e: Expr, known: Mapping[Expr, bool], zero: Mapping[Tensor, None]) -> bool:
    match e:
        case Const(value=value):
            return not value
        case Read(tensor=t):
            return t in zero
        case Param():
            return True
        case Cast(value=value):
            return known[value]
        case Select(then=a, orelse=b):
            return known[a] and known[b]
        case Call(op="mul", args=args):
            return any(known[a] for a in args)
        case Call(op="div", args=(a, _)):
            return known[a]
        case Call(op="add" | "sub" | "neg", args=args):
            return all(known[a] for a in args)
        case Apply(function=f, args=(a,)):
            return known[a] and _are_zero([f.result], zero)
        case Reduce():
            sources = all(known[s] for s in e.sources)
            return sources and _are_zero(e.combiner.results, zero)
    return False
