"""Fuses sums over rows into the loop over those rows, block by block (`_joined` decides).

A loop over blocks of rows that adds them up (the gradients by a scale and a shift) follows a loop
over rows that reads the same rows (the gradient by the rows themselves). Tiled alike, both run in
one loop over blocks. The sums keep their order, and everything is computed as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm

from tensorad.codegen.caches.pass_legality import with_pass
from tensorad.codegen.directives import Schedules
from tensorad.codegen.fusion.row_block_sums import in_scratch, one_by_one
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.loops.ir import Check, For, Kernel, Stmt, Store
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.expr import Axis, Const, Expr, Read, add, axis, int_const, mul
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder
from tensorad.simplify.index.linear import linear_form

FEWEST_BLOCKS = 8
"""Blocks that several threads should find."""
Indices = tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class _Blocks:
    """for block: heads; for row in steps: body; tail, which stores what was kept in scratch."""

    loop: For
    heads: tuple[Stmt, ...]
    rows: For
    size: int
    """Rows of a block."""
    step: int
    tail: tuple[Stmt, ...] = ()
    scratch: tuple[Tensor, ...] = ()
    beside: tuple[tuple[Tensor, Tensor], ...] = ()


def fuse_row_blocks(kernels: Iterable[Kernel], schedules: Schedules) -> Iterator[Kernel]:
    """The kernels, sums over blocks of rows joined to the loop over rows before them."""
    last: Kernel | None = None
    for k in kernels:
        joined = None if last is None else _joined(last, k, schedules)
        if last is not None and joined is None:
            yield last
        last = k if joined is None else joined
    if last is not None:
        yield last


def _joined(first: Kernel, second: Kernel, schedules: Schedules) -> Kernel | None:
    if any(schedules.of(t.name).fuse is False for t in (*first.writes, *second.writes)):
        return None
    if any(isinstance(s, Check) for s in statements(first.body)):
        return None  # what follows may read by any of the indices that it looks at
    loop, blocks = _main_loop(first), _blocks(second)
    if loop is None or blocks is None or not _may_run_as(loop, blocks.loop):
        return None
    shared = _shared(first, second)
    runs, count = _count(loop.axis), _count(blocks.loop.axis)
    rows = None if shared is None else _rows_per_run(loop, blocks, shared)
    if shared is None or rows is None or runs is None or count is None:
        return None
    moved, near = sum(fixed_bytes(t) or 0 for t in shared), machine.current().l2
    if moved <= near:
        return None
    each, height = moved // (runs * rows), lcm(rows, blocks.step)
    if each * height > machine.current().l1 // 2:  # rows would come from the second cache again
        blocks = _row_by_row(loop, blocks, rows) or blocks
        height = lcm(rows, blocks.step)
    if blocks.size % height or runs * rows < blocks.size * count or each * height > near // 2:
        return None
    made = [t for t in shared if t in dict.fromkeys(first.writes)]
    if not _in_step(loop, blocks, rows, made):
        return None
    if not _made_later(first.body[1:], blocks, blocks.size * count, made):
        return None
    note(
        Decision(
            second.writes, "sums of rows in strips", "beside the loop that reads the same rows"
        )
    )
    body: tuple[Stmt, ...] = (_block_by_block(loop, blocks, rows, height),)
    done = blocks.size // rows * count
    if done < runs:
        left = axis(loop.axis.name, done, runs)
        body += (For(left, placed(loop.body, {loop.axis: left})),)
    body += (*first.body[1:], *second.body[1:])
    reads = tuple(dict.fromkeys((*first.reads, *second.reads)))
    writes = (*first.writes, *second.writes)
    scratch = (*first.scratch, *second.scratch, *blocks.scratch)
    beside = (*first.beside, *second.beside, *blocks.beside)
    return Kernel(second.name, body, writes, reads, scratch, beside)


def _row_by_row(loop: For, blocks: _Blocks, rows: int) -> _Blocks | None:
    """The sums with one row a pass, if that may be the last pass over a row."""
    single = one_by_one(blocks.rows) if rows == 1 and loop.body else None
    if single is None or single.axis.lower is not blocks.rows.axis.lower:
        return None
    row = add(mul(int_const(blocks.size), blocks.loop.axis), single.axis)
    (last,) = placed(loop.body[-1:], {loop.axis: row})
    (sums,) = single.body
    if not isinstance(last, For) or not isinstance(sums, For):
        return None
    if with_pass((last,), sums, free=False) is None:
        return None
    stored = [t for s in last.body if isinstance(s, Store) for t in s.tensors]
    kept = in_scratch(blocks.loop.axis, blocks.heads, single) if stored else None
    if kept is None:
        return None
    beside = tuple([(t, stored[0]) for t in kept.scratch])
    return _Blocks(
        blocks.loop, kept.heads, kept.rows, blocks.size, 1, kept.tail, kept.scratch, beside
    )


def _may_run_as(loop: For, other: For) -> bool:
    """Whether the other loop may run as the first one does: on threads, each stores its own."""
    if loop.kind == other.kind:
        return True
    stores = [s for s in statements(other.body) if isinstance(s, Store)]
    own = all(any(i is other.axis for i in s.indices) for s in stores)
    return loop.kind == "parallel" and own and (other.axis.extent or 0) >= FEWEST_BLOCKS


def _main_loop(k: Kernel) -> For | None:
    """The first loop of a kernel; what follows it is the rest."""
    first = k.body[0] if k.body else None
    return first if isinstance(first, For) and first.kind != "vector" else None


def _blocks(k: Kernel) -> _Blocks | None:
    """A kernel's first loop, over blocks of rows, whose last statement is the loop over rows."""
    loop = _main_loop(k)
    if loop is None or not loop.body:
        return None
    *heads, last = loop.body
    if not isinstance(last, For) or last.kind != "serial":
        return None
    size, step = _count(last.axis, steps=True), last.axis.step
    if size is None or not isinstance(step, Const) or size % int(step.value):
        return None
    return _Blocks(loop, tuple(heads), last, size, int(step.value))


def _count(a: Axis, steps: bool = False) -> int | None:
    """n of [0, n), by one unless steps are allowed."""
    from_zero = isinstance(a.lower, Const) and a.lower.value == 0
    by_one = steps or (isinstance(a.step, Const) and a.step.value == 1)
    if not from_zero or not by_one or not isinstance(a.upper, Const):
        return None
    return int(a.upper.value)


def _shared(first: Kernel, second: Kernel) -> list[Tensor] | None:
    """What the second reads of the first's reads and results; None where they are in the way."""
    made, again = dict.fromkeys(second.writes), dict.fromkeys(second.reads)
    if any(t in made for t in (*first.reads, *first.writes)):
        return None
    found = [t for t in dict.fromkeys((*first.reads, *first.writes)) if t in again]
    return found or None


def _accesses(body: Iterable[Stmt], t: Tensor) -> Iterator[Indices]:
    """The indices of all reads and stores of a tensor."""
    for s in statements(body):
        if isinstance(s, Store):
            yield from [s.indices for u in s.tensors if u is t]
        for e in postorder(*expressions(s)):
            if isinstance(e, Read) and e.tensor is t:
                yield e.indices


def _rows_per_run(loop: For, blocks: _Blocks, shared: Sequence[Tensor]) -> int | None:
    """How many rows one run of the first loop takes, by what both read."""
    for t in shared:
        for indices in _accesses(blocks.rows.body, t):
            d = _row_dimension(indices, blocks)
            if d is None:
                continue
            for other in _accesses(loop.body, t):
                rows = linear_form(other[d]).terms.get(loop.axis, 0)
                if rows > 0:
                    return rows
    return None


def _row_dimension(indices: Indices, blocks: _Blocks) -> int | None:
    """The dimension with an index size * block + row + c, 0 <= c < step."""
    for d, index in enumerate(indices):
        form = linear_form(index)
        wanted = {blocks.loop.axis: blocks.size, blocks.rows.axis: 1}
        if dict(form.terms) == wanted and 0 <= form.constant < blocks.step:
            return d
    return None


def _in_step(loop: For, blocks: _Blocks, rows: int, made: Sequence[Tensor]) -> bool:
    """Whether all the second part reads of the first's results are rows of its own tile."""
    inner = [s.axis for s in statements(loop.body) if isinstance(s, For)]
    ranges = Ranges(inner)
    for t in made:
        if any(True for _ in _accesses(blocks.heads, t)):
            return False
        dimensions = {_row_dimension(i, blocks) for i in _accesses(blocks.rows.body, t)}
        if len(dimensions) != 1 or None in dimensions:
            return False
        (d,) = dimensions
        assert d is not None  # excluded
        for indices in _accesses(loop.body, t):
            form = linear_form(indices[d])
            if form.terms.pop(loop.axis, 0) != rows:
                return False
            low, high = ranges.of_linear(form)
            if low < 0 or high >= rows:
                return False
    return True


def _made_later(body: tuple[Stmt, ...], blocks: _Blocks, end: int, made: Sequence[Tensor]) -> bool:
    """Whether statements that now run after all blocks have no part in their rows [0, end)."""
    ranges = Ranges([s.axis for s in statements(body) if isinstance(s, For)])
    for t in made:
        (d, *_) = [_row_dimension(i, blocks) for i in _accesses(blocks.rows.body, t)]
        assert d is not None  # all of them are rows of the second part
        if any(ranges.of(indices[d])[0] < end for indices in _accesses(body, t)):
            return False
    return True


def _block_by_block(loop: For, blocks: _Blocks, rows: int, height: int) -> For:
    """The loop over blocks with both bodies, `height` rows of each in turn."""
    a, b = loop.axis, blocks.loop.axis
    number = axis(a.name, 0, blocks.size // height)
    base = add(
        mul(int_const(blocks.size // rows), b),
        mul(int_const(height // rows), number),
    )
    if height == rows:
        body = placed(loop.body, {a: base})
    else:
        within = axis(f"{a.name}i", 0, height // rows)
        body = (For(within, placed(loop.body, {a: add(base, within)})),)
    start = mul(int_const(height), number)
    if height == blocks.step:
        sums = placed(blocks.rows.body, {blocks.rows.axis: start})
    else:
        row = axis(blocks.rows.axis.name, start, add(start, int_const(height)), blocks.step)
        sums = (For(row, placed(blocks.rows.body, {blocks.rows.axis: row})),)
    whole = For(number, (*body, *sums))
    return replace(blocks.loop, body=(*blocks.heads, whole, *blocks.tail), kind=loop.kind)
