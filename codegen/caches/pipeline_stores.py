"""Rows whose last pass streams: each is stored in pieces beside a long pass over the row after it.

Stores that pass the caches wait for memory, which waits in turn while the next row is computed.
So a row is stored about a kilobyte at a time, between equal pieces of the next row's longest pass.
Every element is computed as before, and no sum changes its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.codegen.caches.pass_legality import lanes_of_loop, same_bounds
from tensorad.codegen.cost.memory_model import ROWS_AHEAD
from tensorad.codegen.cost.operation_costs import takes_long
from tensorad.codegen.cost.store_groups import group_of
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import all_expressions, params_of, statements, targets
from tensorad.codegen.nest.access import access
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import ONE, Call, Const, Expr, add, axis, call, int_const, mul, sub
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, reads

ROWS: Final = 16
"""Rows of a block of a thread's, the last of which is stored alone."""
FEWEST_BLOCKS: Final = 16
PIECE: Final = 1024
"""Bytes that are stored at a time: as many as stores may wait for memory."""
FEWEST_PIECES: Final = 4


def with_rows_overlapped(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with rows stored beside the computation of the rows after them.

    Requires: stores that stream are marked, passes over a row joined.
    """
    if any(schedules.of(t.name).passes is False for t in kernel.writes):
        return kernel
    found = [_parts(s) if isinstance(s, For) else None for s in kernel.body]
    if not any(found):
        return kernel
    body: list[Stmt] = []
    for s, p in zip(kernel.body, found, strict=True):
        body.extend([s] if p is None else _blocks(p))
    note(Decision(kernel.writes, "a row is stored beside the next one", "stores wait for memory"))
    return replace(kernel, body=tuple(body))


@dataclass(frozen=True, eq=False)
class _Parts:
    """for row: before; longest; after; last."""

    loop: For
    before: tuple[Stmt, ...]
    longest: For
    after: tuple[Stmt, ...]
    last: For
    store: Store
    """What the last pass does."""
    rows: int
    columns: int

    @property
    def out(self) -> Tensor:
        """What streams."""
        return self.store.tensors[0]


def _parts(s: For) -> _Parts | None:
    """The passes over a row of which the last may wait for the next row; None without."""
    rows, last = s.axis.extent or 0, s.body[-1] if s.body else None
    if s.kind == "vector" or s.axis.step is not ONE or not isinstance(s.axis.lower, Const):
        return None
    if rows < ROWS * FEWEST_BLOCKS or not isinstance(last, For):
        return None
    store = last.body[0]
    if not isinstance(store, Store) or not _streams(last, store):
        return None
    rest = s.body[:-1]
    if any(isinstance(c, Check) for c in statements(rest)):
        return None
    long = [c for c in rest if isinstance(c, For) and _is_long(c, last)]
    if len(long) != 1:
        return None
    at = rest.index(long[0])
    columns = last.axis.extent or 0
    found = _Parts(s, rest[:at], long[0], rest[at + 1 :], last, store, rows, columns)
    return found if _may_wait(found) else None


def _streams(last: For, store: Store) -> bool:
    """Whether a pass only stores a long row of one tensor, past the caches."""
    if not is_vectorised(last) or len(last.body) > 1 or last.within is not None or last.prefetched:
        return False
    if not store.streaming or len(store.tensors) > 1 or last.axis.extent is None:
        return False
    t = store.tensors[0]
    row_bytes = last.axis.extent * t.dtype.size_bytes
    together = access(t, store.indices).stride(last.axis) == 1
    return together and row_bytes >= FEWEST_PIECES * PIECE and isinstance(last.axis.lower, Const)


def _is_long(s: For, last: For) -> bool:
    """Whether a pass over the same elements computes for as long as memory needs for them."""
    if not is_vectorised(s) or s.within is not None or not same_bounds(s.axis, last.axis):
        return False
    if not all(isinstance(c, (Assign, Fold, Store, Prefetch)) for c in s.body):
        return False
    order = postorder(*all_expressions(s.body))
    return any(isinstance(e, Call) and takes_long(e) for e in order)


def _may_wait(p: _Parts) -> bool:
    """Whether the last pass sees what it saw after the next row's statements up to the longest
    pass, and piece by piece beside that."""
    every = [*statements((*p.before, p.longest, *p.after))]
    stores = [c for c in every if isinstance(c, Store)]
    if any(c.streaming or p.out in c.tensors for c in stores):
        return False
    changed = targets(every)
    if any(x in changed for x in params_of(p.store)):
        return False
    early = [t for c in statements(p.before) if isinstance(c, Store) for t in c.tensors]
    made = {t: c for c in p.longest.body if isinstance(c, Store) for t in c.tensors}
    (mine,) = placed((p.store,), {p.last.axis: p.longest.axis})
    for e in reads(*all_expressions((mine,))):
        if e.tensor in early:
            return False
        if e.tensor in made and not _same_element(p, e.indices, made[e.tensor]):
            return False
    return True


def _same_element(p: _Parts, indices: Sequence[Expr], store: Store) -> bool:
    """Whether a read sees what is stored for its own lane, in every row at the same place."""
    same = all(i is j for i, j in zip(indices, store.indices, strict=True))
    if not same or p.loop.axis in free_leaves(*indices):
        return False
    return access(store.tensors[0], store.indices).stride(p.longest.axis) == 1


def _blocks(p: _Parts) -> list[Stmt]:
    """The loop over blocks of rows, and the rows that fill none."""
    a = p.loop.axis
    block, row = axis(a.name, 0, p.rows // ROWS), axis(f"{a.name}r", 1, ROWS)
    first = add(a.lower, mul(int_const(ROWS), block))
    body = (
        *placed(p.loop.body[:-1], {a: first}),
        For(row, _next_row(p, add(first, row))),
        *placed((p.last,), {a: add(first, int_const(ROWS - 1))}),
    )
    made: list[Stmt] = [replace(p.loop, axis=block, body=body)]
    if p.rows % ROWS:
        left = axis(a.name, add(a.lower, int_const(p.rows - p.rows % ROWS)), a.upper)
        made.append(replace(p.loop, axis=left, body=placed(p.loop.body, {a: left})))
    return made


def _next_row(p: _Parts, row: Expr) -> tuple[Stmt, ...]:
    """One row, beside which the one before it is stored."""
    a, lower = p.loop.axis, p.last.axis.lower
    width = max(p.longest.width, lanes_of_loop(p.longest))
    size = max(1, PIECE // (width * p.out.dtype.size_bytes)) * width
    number = axis("piece", 0, -(-p.columns // size))
    later: dict[Expr, Expr] = {a: add(row, int_const(ROWS_AHEAD)), p.last.axis: lower}
    beside = (_stored(p, sub(row, ONE), size, add(number, ONE)), _piece(p, row, size, number))
    return (
        *placed((Prefetch(p.out, p.store.indices, 1),), later),
        *placed(p.before, {a: row}),
        _stored(p, sub(row, ONE), size, int_const(0)),
        For(number, beside),
        *placed(p.after, {a: row}),
    )


def _stored(p: _Parts, row: Expr, size: int, number: Expr) -> For:
    """A piece of the last pass; the code generator lets pieces begin with lines."""
    whole, lanes = p.last.axis, lanes_of_loop(p.last)
    starts = [
        call("minimum", add(whole.lower, mul(int_const(size), n)), whole.upper)
        for n in (number, add(number, ONE))
    ]
    lane = axis(whole.name, *starts)
    width = group_of(p.last, lanes) * lanes
    return For(lane, placed((p.store,), {p.loop.axis: row, whole: lane}), "vector", width, whole)


def _piece(p: _Parts, row: Expr, size: int, number: Expr) -> For:
    """A piece of the longest pass; the last one may be shorter."""
    whole = p.longest.axis
    start = add(whole.lower, mul(int_const(size), number))
    if p.columns % size:
        lane = axis(whole.name, start, call("minimum", add(start, int_const(size)), whole.upper))
        at: Expr = lane
    else:
        lane = axis(whole.name, 0, size)
        at = add(start, lane)
    return replace(p.longest, axis=lane, body=placed(p.longest.body, {p.loop.axis: row, whole: at}))
