"""Carries, outputs and operands that nothing depends on go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from tensorad.ir.analysis.blocks import (
    block_ops,
    is_everywhere,
    op_sizes,
    ops_between,
    saves_of,
    tells_trips,
)
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, const
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Control,
    Loop,
    Op,
    Placeholder,
    Saved,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs
from tensorad.simplify.formula.dataflow import over_inputs


class _Needed(NamedTuple):
    """What is needed of an operation: outputs, operands, tensors of its blocks that are saved."""

    outs: Sequence[int]
    operands: Sequence[int]
    saves: Sequence[Saved]


def drop_unused(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """The results, computed by operations with blocks that make what is read of them alone.

    Where only what would go comes after the loop that tells a size, and others use the size, all
    of a block, or of the results, stays as it is.
    """
    known = dict.fromkeys(given)
    ops = ops_between(results, known)
    needed = _needed(ops, results)
    image: dict[Tensor, Tensor] = {}
    for op in ops:
        if isinstance(op, Saved):
            continue
        new = over_inputs(op, image)
        if new is op and not isinstance(op, Control):
            continue
        if isinstance(op, Control) and isinstance(new, Control):
            found = _without(op, new, needed[op]) if op in needed else {}
        else:
            found = dict(zip(outputs(op), outputs(new), strict=True))
        image.update({a: b for a, b in found.items() if a is not b and a not in known})
    left = [image.get(t, t) for t in results]
    return left if _tell_as_much(ops, left, known) else list(results)


def _tell_as_much(ops: Sequence[Op], left: Sequence[Tensor], given: Collection[Tensor]) -> bool:
    """Whether what is left of operations comes after the loops that tell its sizes."""
    told = dict.fromkeys([op.trips for op in ops if tells_trips(op)])
    if not told:
        return True
    own = ops_between(left, given)
    there = dict.fromkeys([op.trips for op in own if tells_trips(op)])
    return all(s in there for op in own for s in op_sizes(op) if s in told)


def _needed(ops: Sequence[Op], results: Sequence[Tensor]) -> dict[Control, _Needed]:
    """What the results need of each operation with blocks."""
    kept = saves_of(ops)
    read = dict.fromkeys(results)
    found: dict[Control, _Needed] = {}
    sizes: dict[Expr, None] = {}
    """Of what comes after an operation."""
    for op in ops[::-1]:
        if isinstance(op, Control):
            saves = [s for s in kept.get(op, ()) if outputs(s)[0] in read]
            outs = [k for k, t in enumerate(outputs(op)) if t in read]
            if tells_trips(op) and op.trips in sizes:  # who runs as often reads the first one
                outs = list(dict.fromkeys([0, *outs]))
            if outs or saves:
                found[op] = _use(op, outs, saves)
                read.update({op.operands[k]: None for k in found[op].operands})
                if isinstance(op, Loop) and op.count is not None:
                    read[op.count] = None
                sizes.update(dict.fromkeys(op_sizes(op)))
        elif not isinstance(op, Saved) and any(t in read for t in outputs(op)):
            read.update(dict.fromkeys(op_inputs(op)))
            sizes.update(dict.fromkeys(op_sizes(op)))
    return found


def _use(op: Control, outs: Sequence[int], saves: Sequence[Saved]) -> _Needed:
    every = _Needed(range(len(op.names)), range(len(op.operands)), saves)
    # a record, or a call of a definition, which others call as well, or of Python's code
    if not op.blocks or isinstance(op, Foreign):
        return every
    linked = _linked(op)
    if isinstance(op, Loop):
        linked_carries = [k for k in linked if k < op.carries]
        outs = sorted(live_carries(op, [*outs, *linked_carries], saves))
    outs = outs or _idle(op)
    first = isinstance(op, Branch)
    places: dict[int, None] = {0: None} if first else {}
    for n, block in enumerate(op.blocks):
        results = block.results if isinstance(op, Loop) and n else [block.results[k] for k in outs]
        left = (*results, *[s.inner for s in saves if s.block == n])
        if not _tell_as_much(block_ops(block), left, dict.fromkeys(block.params)):
            return every
        for k in params_read(block, left):
            skipped = op.scanned if isinstance(op, Loop) and n and k >= op.carries else 0
            places[k + first + skipped] = None
    if isinstance(op, Loop):
        places = dict.fromkeys([k for k in places if k >= op.carries]) | dict.fromkeys(outs)
    return _Needed(outs, sorted(places | dict.fromkeys(linked)), saves)


def _linked(op: Control) -> list[int]:
    """Operands from loops that tell a size which the operation uses: it comes after them."""
    sizes = op_sizes(op)
    found = []
    for k, t in enumerate(op.operands):
        made = t.op.control if isinstance(t.op, Saved) else t.op
        if tells_trips(made) and any(s is made.trips for s in sizes):
            found.append(k)
    return found


def _idle(op: Control) -> list[int]:
    """An output that costs nothing, if there is one: an operation has an output."""
    if isinstance(op, Loop):
        pairs = zip(op.blocks[0].results, op.blocks[0].params, strict=False)
        return [k for k, (a, b) in enumerate(pairs) if a is b][:1]
    each = zip(*[b.results for b in op.blocks], strict=True)
    return [k for k, made in enumerate(each) if all(is_everywhere(t.op) for t in made)][:1]


def live_carries(op: Loop, outs: Collection[int], saves: Sequence[Saved]) -> dict[int, None]:
    """The carries that outputs which are read, rows that are saved or the test depend on."""
    block = op.blocks[0]
    more = [*outs, *params_read(block, [s.inner for s in saves])]
    more += [k for test in op.blocks[1:] for k in params_read(test, test.results)]
    found: dict[int, None] = {}
    while more:
        found.update({k: None for k in more if k < op.carries})
        read = params_read(block, [block.results[k] for k in found])
        more = [k for k in read if k < op.carries and k not in found]
    return found


def params_read(block: Block, results: Sequence[Tensor]) -> list[int]:
    """Which of its params tensors of a block depend on."""
    params = dict.fromkeys(block.params)
    found = dict.fromkeys(results)
    for op in ops_between(results, params):
        found.update(dict.fromkeys(op_inputs(op)))
    return [k for k, p in enumerate(params) if p in found]


def _without(op: Control, new: Control, needed: _Needed) -> dict[Tensor, Tensor]:
    """Tensors of an operation -> those of one that does what is needed.

    Args:
        new: the operation over other operands.
    """
    outs, places, saves = needed
    if len(outs) == len(op.names) and len(places) == len(op.operands):
        made = new
    elif isinstance(new, Loop):
        made = _loop(new, outs, places)
    else:
        made = _branch(new, outs, places)
    found = {outputs(op)[k]: outputs(made)[n] for n, k in enumerate(outs)}
    found.update({outputs(s)[0]: saved(made, s.inner, s.block) for s in saves})
    return found


def _branch(op: Control, outs: Sequence[int], places: Sequence[int]) -> Control:
    first = isinstance(op, Branch)
    blocks = []
    for block in op.blocks:
        params = tuple([block.params[k - first] for k in places if k >= first])
        results = tuple([block.results[k] for k in outs]) or (_nothing(),)
        blocks.append(Block(params, results))
    names = tuple([op.names[k] for k in outs]) or ("nothing",)
    operands = tuple([op.operands[k] for k in places])
    return replace(op, names=names, operands=operands, blocks=tuple(blocks))


def _loop(op: Loop, outs: Sequence[int], places: Sequence[int]) -> Loop:
    last = op.carries + op.scanned
    names = tuple([op.names[k] for k in outs])
    operands = tuple([op.operands[k] for k in places])
    blocks = []
    for n, block in enumerate(op.blocks):
        numbers = [k for k in range(len(op.operands)) if not n or not op.carries <= k < last]
        param = dict(zip(numbers, block.params, strict=True))
        params = tuple([param[k] for k in places if k in param])
        results = block.results if n else tuple([block.results[k] for k in outs])
        blocks.append(Block(params, results))
    if not outs:  # a loop has a carry
        names, operands = ("nothing",), (_nothing(), *operands)
        for n, block in enumerate(blocks):
            carry = outputs(Placeholder("nothing", (), INT64))[0]
            results = block.results if n else (carry,)
            blocks[n] = Block((carry, *block.params), results)
    scanned = len([k for k in places if op.carries <= k < last])
    return replace(
        op, names=names, operands=operands, blocks=tuple(blocks), carries=len(names),
        scanned=scanned,
    )  # fmt: skip


def _nothing() -> Tensor:
    return outputs(Compute("nothing", (), (const(0, INT64),), ""))[0]
