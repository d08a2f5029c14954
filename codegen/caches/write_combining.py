"""Write combining: short or misaligned streamed rows fill a buffer, whose whole lines are copied.

Only whole lines pass the caches. Where each iteration of a loop stores the next stretch of an
output, without gaps but in short or misaligned rows, several iterations store to a buffer in the
first cache, and one loop copies its whole lines. What is left of the last one stays in front of the
buffer for the next block: a line stored in parts is read first, and all stores behind it wait.
Threads share chunks of many blocks, so that few blocks begin in the middle of lines. A loop over as
many iterations that stands before it, and whose rows it reads, becomes one with it: memory is read
and written at the same time. No value changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from tensorad.codegen.caches.prefetch_rows import digits, offset
from tensorad.codegen.cost.memory_model import LINE
from tensorad.codegen.loops.index_ranges import among, joined_digits
from tensorad.codegen.loops.ir import Check, For, Stmt, Store
from tensorad.codegen.loops.rewrite import Around, Block, rewrite, rewrite_blocks, storing
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.loops.visit import (
    all_expressions,
    nested,
    params_of,
    statements,
    targets,
)
from tensorad.codegen.nest.access import FAR, access, strides
from tensorad.codegen.schedule.emit import strips
from tensorad.ir.expr import (
    ONE,
    Axis,
    Const,
    Expr,
    Read,
    axis,
    call,
    int_const,
    mul,
    read,
)
from tensorad.ir.order import AXIS, PARAM, READ, reads
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, substitute
from tensorad.simplify.index.linear import Linear, linear_form

ALONE: Final = 1024
"""Bytes of aligned rows from which they stream by themselves."""
LEAST: Final = 256
"""Bytes of a block from which copying it pays."""
BLOCK: Final = 16384
"""Bytes that a block reads and stores: half of a first cache, and little enough that memory is read
and written at nearly the same time."""
BURST: Final = 4608
"""Bytes that a block stores: while more wait for memory, a processor has no room for reads."""
MOST_POINTS: Final = 16384
"""Elements of one iteration that are looked at one by one, to see that no two are the same."""
SMALLEST: Final = 1024
"""Bytes that a block stores of each output at least, about."""
FEWEST_BLOCKS: Final = 8
"""Blocks that threads share."""
CHUNKS: Final = 64
"""Chunks of blocks, about, where there are many: a thread that takes part gets several."""
LARGE_CHUNK: Final = 32
"""Blocks of a chunk where their number is not known."""
REGISTERS: Final = 4
"""Registers that are copied at a time."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """What an iteration stores of a tensor: `length` elements from where the last ended."""

    tensor: Tensor
    length: int
    outer: Linear
    """The offset of its first element in iteration 0, over axes outside of the loop."""


def with_write_combining(
    body: Sequence[Stmt], streamed: Collection[Tensor], scratch: Sequence[Tensor]
) -> tuple[tuple[Stmt, ...], list[Tensor]]:
    """The loops with such outputs stored in blocks, and the buffers."""
    made: list[Tensor] = []
    kept = dict.fromkeys(scratch)

    def combined(block: Block, around: Around) -> list[Stmt]:
        result: list[Stmt] = []
        for s in block:
            if not isinstance(s, For) or s.kind == "vector":
                result.append(s)
            elif not (found := _stretches(s, streamed)):
                result.append(around.inside(s))
            else:
                first = result.pop() if result and _may_interleave(result[-1], s) else None
                before = first if isinstance(first, For) else None
                result.append(_in_blocks(s, found, made, before, kept))
        return result

    return rewrite_blocks(body, combined), made


def _stretches(s: For, streamed: Collection[Tensor]) -> list[Stretch]:
    """What each iteration stores of such outputs, where blocks pay."""
    found = [x for x in (stretch(s, t) for t in streamed) if x is not None]
    return [x for x in found if _pays(s, x)]


def _may_interleave(first: Stmt, s: For) -> bool:
    """Whether a loop over as many iterations may run a few of them ahead of `s` instead of all:
    what one reads of what the other stores is of the same iteration, and no register that one of
    them sets is a register of the other."""
    if not isinstance(first, For) or first.kind != "serial" or s.kind != "serial":
        return False
    if (
        first.covering
        or not _counts_iterations(first.axis)
        or any(isinstance(c, Check) for c in statements(first.body))
    ):
        return False
    a, b = first.axis, s.axis
    if a.lower is not b.lower or a.upper is not b.upper:
        return False
    stored = [(t, c.indices) for c in _stored_by(first) for t in c.tensors]
    later = {t: None for c in _stored_by(s) for t in c.tensors}
    before = {e.tensor: None for e in _reads(first)} | {t: None for t, _ in stored}
    if any(t in before for t in later) or _has_scalar_dependence(first, s):
        return False
    rows = {t: _position(indices, a) for t, indices in stored}
    if any(_position(indices, a) != rows[t] for t, indices in stored):
        return False
    read_again = [e for e in _reads(s) if e.tensor in rows]
    return all(
        rows[e.tensor] is not None and _position(e.indices, b) == rows[e.tensor] for e in read_again
    )


def _has_scalar_dependence(first: For, s: For) -> bool:
    """Whether a register that one loop sets is used by the other."""
    own, its = ([*statements(x.body)] for x in (first, s))
    for some, others in ((own, its), (its, own)):
        scalars = targets(some)
        if any(p in scalars for c in others for p in params_of(c)):
            return True
    return False


def _stored_by(s: For) -> list[Store]:
    return [c for c in statements(s.body) if isinstance(c, Store)]


def _reads(s: For) -> list[Read]:
    return reads(*all_expressions(statements(s.body)))


def _position(indices: Sequence[Expr], a: Axis) -> int | None:
    """The dimension whose index is the axis itself."""
    return next((d for d, index in enumerate(indices) if index is a), None)


def _pays(s: For, x: Stretch) -> bool:
    size = x.tensor.dtype.size_bytes
    one = x.length * size
    rows = [_moves(c) * size for c in statements(s.body) if isinstance(c, For)]
    aligned = all(r % LINE == 0 and r >= ALONE for r in rows) and one % LINE == 0
    enough = s.axis.extent is None or one * s.axis.extent >= LEAST
    return 2 * one <= BLOCK and enough and not aligned


def _moves(loop: For) -> int:
    """The elements of a vectorised row; a multiple of all lines for other loops."""
    return (loop.axis.extent or 1) if loop.kind == "vector" else LINE * ALONE


def stretch(s: For, t: Tensor) -> Stretch | None:
    """What each iteration stores of `t`; None where that is not one stretch after another."""
    if any(isinstance(c, Check) for c in statements(s.body)):  # they stay where they are
        return None
    inside = [c for c in statements(s.body) if isinstance(c, For)]
    plain = _counts_iterations(s.axis) and all(_is_plain(c.axis) for c in inside)
    if not plain or any(c.covering or c.within for c in inside):
        return None
    terms: list[tuple[Linear, tuple[Axis, ...]]] = []
    for c, loops in _stores(s.body, t):
        form = _offset(t, c)
        if loops is None or form is None or prod([a.extent or 0 for a in loops]) > MOST_POINTS:
            return None
        terms.append((form, loops))
    return _one_stretch(s.axis, t, terms) if terms else None


def _one_stretch(
    iteration: Axis, t: Tensor, terms: Sequence[tuple[Linear, tuple[Axis, ...]]]
) -> Stretch | None:
    length = terms[0][0].terms.get(iteration, 0)
    outer = _others(terms[0][0], (iteration, *terms[0][1]))
    if not 0 < length <= MOST_POINTS or any(iteration in free_leaves(e) for e in outer):
        return None
    offsets: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for form, loops in terms:
        rest = _others(form, (iteration, *loops))
        if rest != outer or form.terms.get(iteration, 0) != length:
            return None
        if any(a in free_leaves(*rest) for a in loops):
            return None
        points = np.array([form.constant], np.int64)
        for a in loops:
            steps = np.arange(a.extent or 0) * form.terms.get(a, 0)
            points = (points[:, None] + (_lower(a) * form.terms.get(a, 0) + steps)).ravel()
            if points.size > MOST_POINTS:
                return None
        offsets.append(points)
    every = np.unique(np.concatenate(offsets))
    if every.size != sum([p.size for p in offsets]) or every.size != length:
        return None
    if int(every[-1] - every[0]) != length - 1:
        return None
    return Stretch(t, length, Linear(outer, int(every[0])))


def _others(form: Linear, axes: Sequence[Axis]) -> dict[Expr, int]:
    return {e: c for e, c in form.terms.items() if not among(e, axes)}


def _is_plain(a: Axis) -> bool:
    constant = isinstance(a.lower, Const) and isinstance(a.upper, Const)
    return constant and a.step is ONE


def _counts_iterations(a: Axis) -> bool:
    """Whether an axis counts iterations, of a number that is the same wherever the loop stands."""
    closed = isinstance(a.lower, Const) and not a.upper.kinds & (AXIS | PARAM | READ)
    return closed and a.step is ONE


def _lower(a: Axis) -> int:
    return int(a.lower.value) if isinstance(a.lower, Const) else 0


def _stores(body: Sequence[Stmt], t: Tensor) -> Iterator[tuple[Store, tuple[Axis, ...] | None]]:
    """The stores to `t` with the loops around them; None for those that may not happen."""
    for s, around in nested(body):
        if isinstance(s, Store) and any(x is t for x in s.tensors):
            loops = tuple([c.axis for c in around if isinstance(c, For)])
            yield s, loops if len(loops) == len(around) else None


def _offset(t: Tensor, s: Store) -> Linear | None:
    """Where a store goes, in elements from the start of the tensor."""
    return None if FAR in strides(t.shape) else joined_digits(offset(t, s.indices))


def _in_blocks(
    s: For,
    found: Sequence[Stretch],
    made: list[Tensor],
    first: For | None,
    scratch: Collection[Tensor],
) -> For:
    """The loop in blocks of iterations that store to buffers, each followed by the copies.

    Threads share chunks of many blocks: only these begin and end in the middle of lines.
    """
    parts = [x.length * x.tensor.dtype.size_bytes for x in found]
    loops = (s,) if first is None else (first, s)
    iterations = _iterations_per_block(s, parts, sum([_read_bytes(c, scratch) for c in loops]))
    outer, iteration = strips(s.axis, iterations)
    chunk, every = None, s.axis
    if s.kind == "parallel":
        many = LARGE_CHUNK if outer.extent is None else max(1, outer.extent // CHUNKS)
        chunk, block = strips(outer, many)
        start, end = (substitute(iteration.lower, {outer: e}) for e in (block.lower, block.upper))
        every = axis(s.axis.name, start, call("minimum", s.axis.upper, end))
        iteration = axis(
            iteration.name,
            *[substitute(e, {outer: block}) for e in (iteration.lower, iteration.upper)],
        )
        outer = block
    buffers = {}
    for x in found:
        lead = LINE // x.tensor.dtype.size_bytes
        t = buffer(f"{x.tensor.name}.lines", (lead + iterations * x.length,), x.tensor.dtype)
        buffers[x.tensor] = (x, t, lead)
        made.append(t)
    before = () if first is None else placed(first.body, {first.axis: iteration})
    stored = rewrite(s.body, lambda c: _stored(c, buffers, iteration.lower))
    after = placed(stored, {s.axis: iteration})
    copies = [c for x, t, lead in buffers.values() for c in _copies(x, t, lead, every, iteration)]
    blocks = replace(
        s, axis=outer, kind="serial", body=(For(iteration, (*before, *after)), *copies)
    )
    return blocks if chunk is None else replace(s, axis=chunk, body=(blocks,))


def _iterations_per_block(s: For, parts: Sequence[int], read: int) -> int:
    """Iterations of a block that moves so many bytes in each; all blocks alike if possible."""
    extent, stored = s.axis.extent, sum(parts)
    fitting = min(BLOCK // (stored + read), BURST // stored)
    iterations = max(fitting, SMALLEST // min(parts), 1)
    if extent is None:
        return iterations
    if s.kind == "parallel":
        iterations = max(1, min(iterations, extent // FEWEST_BLOCKS))
    iterations = min(iterations, extent)
    divisors = [n for n in range(iterations, (iterations + 1) // 2, -1) if extent % n == 0]
    return divisors[0] if divisors else iterations


def _read_bytes(s: For, made: Collection[Tensor]) -> int:
    """Bytes, about, that an iteration reads of tensors made elsewhere, beyond the one before."""
    inside = [c.axis for c in statements(s.body) if isinstance(c, For)]
    points: dict[Tensor, int] = {}
    further: dict[Tensor, int] = {}
    for e in _reads(s):
        if e.tensor not in made:
            uses = access(e.tensor, e.indices).uses
            own = prod([a.extent or 1 for a in inside if a in uses])
            step = uses.get(s.axis, 0)
            points[e.tensor] = points.get(e.tensor, 0) + own
            known = points[e.tensor] if step is None else abs(step)
            further[e.tensor] = max(further.get(e.tensor, 0), known)
    return sum([min(points[t], further[t]) * t.dtype.size_bytes for t in points])


def _stored(
    s: Stmt, buffers: Mapping[Tensor, tuple[Stretch, Tensor, int]], first: Expr
) -> list[Store] | None:
    """A store to the outputs, with the elements of iteration `first` at the start of the buffer."""
    if not isinstance(s, Store):
        return None
    result = storing(s, lambda t: t not in buffers)
    for t, value in zip(s.tensors, s.values, strict=True):
        if t in buffers:
            x, into, lead = buffers[t]
            form = _offset(t, s)
            assert form is not None  # it was looked at before
            place = form.plus(x.outer, -1).plus(linear_form(first), -x.length)
            place = place.plus(Linear({}, lead))
            result.append(Store((into,), (place.to_expr(),), (value,)))
    return result


def _copies(x: Stretch, source: Tensor, lead: int, every: Axis, iteration: Axis) -> list[For]:
    """The elements of a block, one iteration after the other, and the last of them kept in front.

    Blocks end with the last whole line, and what is left goes with the next one, within `every`.
    """
    length = int_const(x.length)
    start, stop = mul(iteration.lower, length), mul(iteration.upper, length)
    k = axis("k", start, stop)
    number = x.outer.plus(Linear({k: 1}, 0)).to_expr()
    width = REGISTERS * lanes_for([x.tensor])
    place = linear_form(k).plus(linear_form(start), -1).plus(Linear({}, lead)).to_expr()
    store = Store((x.tensor,), digits(number, x.tensor), (read(source, (place,)),))
    within = axis("k", mul(every.lower, length), mul(every.upper, length))
    kept = axis("k", 0, lead)
    behind = linear_form(kept).plus(linear_form(stop)).plus(linear_form(start), -1).to_expr()
    keep = Store((source,), (kept,), (read(source, (behind,)),))
    return [For(k, (store,), "vector", width, within=within), For(kept, (keep,), "vector")]
