"""Loops that store as many states as memory is given for, where their reverse needs them most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import captures
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.snapshots import first_row, first_stored, scalar, with_row
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    Const,
    Expr,
    call,
    const,
    int_const,
    local_size,
    logical_and,
    logical_or,
    read,
    select,
)
from tensorad.ir.records import is_record
from tensorad.ir.tensor import (
    Block,
    Compute,
    Loop,
    Placeholder,
    Replay,
    Tensor,
    births,
    outputs,
    saved,
)
from tensorad.program.carries import Trips, run_loop
from tensorad.program.checkpointing.segments import Iterations, row_step
from tensorad.program.references.frames import frame
from tensorad.program.references.leaving import places_of
from tensorad.program.trees import Structure, flatten, unflatten

Bookkeeping = tuple[list[Tensor], list[Tensor], list[Tensor], Tensor]
"""Params, first values, next values of what tells where states are stored; the row of this one."""


def within_memory(loop: Iterations, init: object, memory: int) -> tuple[Any, Any]:
    """The last carry, and all that is collected; the states that are stored fit in the memory.

    Where the number of iterations is known, these are the ones of Griewank and Walther (2000,
    Algorithm 799); otherwise every 2^k-th, with k as small as fits (see Stumm and Walther 2010).

    Raises:
        DefinitionError: two states do not fit: one that is stored, one that is computed again; or
            their size is symbolic, or that of records; or the body writes references, or carries
            one that it makes.
    """
    with frame(f"the body of {loop.where}") as own:
        made = run_loop(loop.body(loop.times.counter), init, loop.scanned, loop.times)
    for cell in own.after:
        raise DefinitionError(
            f"memory of {loop.where} is a number, but its body writes {cell.described}.",
            hint="carry what the reference holds, and set it after the loop; or pass "
            'checkpoint="sqrt", or how many iterations a segment has.',
        )
    ys = unflatten(made.ys_structure, [saved(made.op, y) for y in made.ys])
    flat = flatten(made.result, "carry")
    every = [c for cells in places_of(flat.structure, "carry").values() for c in cells]
    for cell in [c for c in every if c.home is own]:
        raise DefinitionError(
            f"memory of {loop.where} is a number, but its body makes and carries {cell.described}.",
            hint="carry what the reference holds; or pass "
            'checkpoint="sqrt", or how many iterations a segment has.',
        )
    if not flat.leaves:  # nothing goes round
        return made.result, ys
    op = _storing(loop, made.op, _rows(loop, made.op, memory), flat.structure)
    ys = unflatten(made.ys_structure, [saved(op, y) for y in made.ys])
    return unflatten(flat.structure, outputs(op)[: len(flat.leaves)]), ys


def _rows(loop: Iterations, op: Loop, memory: int) -> int:
    """How many states are stored, beside the one that is computed again."""
    states = op.blocks[0].params[: op.carries]
    record = next((t for t in states if is_record(t.dtype)), None)
    if record is not None:
        raise DefinitionError(
            f"memory of {loop.where} is a number, but what its carry has is data of several kinds.",
            where=record.described,
            hint='pass checkpoint="sqrt", or how many iterations a segment has.',
        )
    extents = [n for t in states for n in t.shape]
    if not all(isinstance(n, int) for n in extents):
        raise DefinitionError(
            f"memory of {loop.where} is a number, but the size of its carry is not.",
            where=", ".join([str(n) for n in extents]),
            hint='pass checkpoint="sqrt", or how many iterations a segment has.',
        )
    size = sum([prod([int(str(n)) for n in t.shape]) * t.dtype.size_bytes for t in states])
    if memory < 2 * size:
        raise DefinitionError(
            f"memory of {loop.where} is {memory} bytes; it needs {2 * size} at least.",
            where=f"a carry has {size} bytes",
            hint="one carry is stored and one computed again; the more are stored, the fewer "
            "iterations run again.",
        )
    rows = memory // max(size, 1) - 1
    trips = op.trips
    return min(rows, max(int(trips.value), 1)) if isinstance(trips, Const) else rows


def _storing(loop: Iterations, op: Loop, rows: int, structure: Structure) -> Loop:
    """The loop with the rows of states among its carries."""
    body, n, last = op.blocks[0], op.carries, op.carries + op.scanned
    states = body.params[:n]
    order = op.trips - 1 - op.counter if op.reverse else op.counter
    stacks = [_param(f"{p.name}.stored", (rows + 1, *p.shape), p) for p in states]
    numbers = outputs(Placeholder("numbers", (rows + 1,), INT64))[0]
    is_known = isinstance(op.trips, Const)
    told = _known(op.trips, rows, order) if is_known else _thinned(numbers, rows, order)
    own, first, following, at = told
    later = [with_row(s, at, p) for s, p in zip(stacks, states, strict=True)]
    later += [with_row(numbers, at, scalar("number", order)), *following]
    more = [*stacks, numbers, *own]
    starts = [_filled(s, 0) for s in stacks] + [_filled(numbers, -1), *first]
    advance, fixed = _advance(loop, op, structure)
    found = [t for t in fixed if not any(t is x for x in op.operands[last:])]
    blocks = [
        Block((*states, *more, *body.params[n:], *found), (*body.results, *later)),
        *[Block((*states, *more, *b.params[n:], *found), b.results) for b in op.blocks[1:]],
    ]
    operands = (*op.operands[:n], *starts, *op.operands[n:], *found)
    place = {t: k for k, t in enumerate(operands) if k >= last + len(more)}
    replay = Replay(n, rows, advance, tuple([place[t] for t in fixed]))
    names = (*op.names, *[t.name for t in more])
    return replace(
        op, names=names, operands=operands, blocks=tuple(blocks), carries=n + len(more),
        replay=replay,
    )  # fmt: skip


def _known(trips: Expr, rows: int, order: Expr) -> Bookkeeping:
    """States are stored where the reverse needs them most."""
    assert isinstance(trips, Const), "the number of iterations is known"
    at = [*first_stored(int(trips.value), rows), int(trips.value)]
    table = constant(np.array(at + [at[-1]] * (rows + 1 - len(at))), INT64, "stored")
    count = outputs(Placeholder("count", (), INT64))[0]
    now = call("eq", read(table, (read(count, ()),)), order)
    row = scalar("row", select(now, read(count, ()), int_const(rows)))
    after = scalar("count", read(count, ()) + select(now, int_const(1), int_const(0)))
    return [count], [scalar("count", int_const(0))], [after], row


def _thinned(numbers: Tensor, rows: int, order: Expr) -> Bookkeeping:
    """Every stride-th state is stored, in half of the rows: the reverse needs others between them.

    Where no row is left for it, the stride doubles, and every other one may be written over.
    """
    used = (rows + 1) // 2
    stride = outputs(Placeholder("stride", (), INT64))[0]

    def left_out(by: Expr, n: Expr) -> Expr:
        return logical_or(n < 0, call("ne", n % by, int_const(0)))

    old = read(stride, ())
    empty = first_row(numbers, used, lambda n: left_out(old, n))
    is_due = call("eq", order % old, int_const(0))
    is_full = logical_and(is_due, call("eq", read(empty, ()), int_const(used)))
    after = scalar("stride", select(is_full, old * 2, old))
    new = read(after, ())
    free = first_row(numbers, used, lambda n: left_out(new, n))
    is_stored = logical_and(call("eq", order % new, int_const(0)), read(free, ()) < used)
    row = scalar("row", select(is_stored, read(free, ()), int_const(rows)))
    return [stride], [scalar("stride", int_const(1))], [after], row


def _advance(loop: Iterations, op: Loop, structure: Structure) -> tuple[Block, list[Tensor]]:
    """(number of an iteration, how many, states) -> the states after these; what else is read."""
    states = op.blocks[0].params[: op.carries]
    start = births()
    first, count = [outputs(Placeholder(name, (), INT64))[0] for name in ("first", "count")]
    own = [_param(p.name, p.shape, p) for p in states]
    trips = local_size("trips")
    counter = local_size(loop.times.counter.label, trips)
    number = read(first, ()) + counter
    at = loop.times.trips - 1 - number if loop.times.reverse else number
    body = replace(loop.body(at), test=None, step=row_step(loop, at), part_names=())
    with tracing():
        made = run_loop(body, unflatten(structure, own), [], Trips(counter, trips, count))
    results = outputs(made.op)[: len(own)]
    params = (first, count, *own)
    fixed = captures(results, params, lambda op: True, since=start)
    return Block((*params, *fixed), tuple(results)), fixed


def _param(name: str, shape: Sequence[int | Expr], like: Tensor) -> Tensor:
    return outputs(Placeholder(name, tuple(shape), like.dtype))[0]


def _filled(like: Tensor, value: int) -> Tensor:
    axes = compute_axes(like.shape)
    return outputs(Compute(like.name, axes, (const(value, like.dtype),), ""))[0]
