"""Sums of a block of rows: one row a pass, and kept beside the rows while they are made.

A pass that stores a row and adds it to the sums runs from line to line of what it stores. The sums
are in step with it where they begin inside of a line where the rows do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.codegen.loops.ir import Assign, Fold, For, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.visit import all_expressions, statements
from tensorad.codegen.model import PAGE
from tensorad.ir.expr import Axis, Const, Expr, Param, add, axis, int_const, read
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reads

DIMENSIONS: Final = 2
"""Indices of what a block stores: the block, and the lane."""


def one_by_one(rows: For) -> For | None:
    """A loop over rows, several a pass of the lanes, with one row a pass; None for other loops.

    The sums are stored and read again between rows that were added in one pass: the same terms in
    the same order.
    """
    lane = rows.body[0] if len(rows.body) == 1 else None
    if not isinstance(lane, For) or lane.kind != "vector" or not isinstance(rows.axis.step, Const):
        return None
    step = int(rows.axis.step.value)
    homes = next((n for n, s in enumerate(lane.body) if not isinstance(s, Assign)), 0)
    middle = lane.body[homes : len(lane.body) - homes]
    each = len(middle) // step
    if not homes or len(middle) != step * each:
        return None
    first = middle[:each]
    for n in range(1, step):
        here = placed(first, {rows.axis: add(rows.axis, int_const(n))})
        if not all(_equal(a, b) for a, b in zip(here, middle[n * each :], strict=False)):
            return None
    row = axis(rows.axis.name, rows.axis.lower, rows.axis.upper)
    body = (*lane.body[:homes], *first, *lane.body[len(lane.body) - homes :])
    return For(row, placed((replace(lane, body=body),), {rows.axis: row}))


def _equal(a: Stmt, b: Stmt) -> bool:
    """Whether two folds add the same, or two stores store it."""
    if isinstance(a, Fold) and isinstance(b, Fold):
        pairs = [*zip(a.targets, b.targets, strict=True), *zip(a.values, b.values, strict=True)]
        return a.combiner is b.combiner and all(x is y for x, y in pairs)
    if isinstance(a, Store) and isinstance(b, Store) and a.tensors == b.tensors:
        mine, other = (*a.indices, *a.values), (*b.indices, *b.values)
        return all(x is y for x, y in zip(mine, other, strict=True))
    return False


@dataclass(frozen=True, eq=False)
class Kept:
    """The statements of a block whose sums are in scratch, and what stores them at its end."""

    heads: tuple[Stmt, ...]
    rows: For
    tail: tuple[Stmt, ...]
    scratch: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class _Home:
    """A buffer for what a block stores of a tensor, and the dimension of the block."""

    tensor: Tensor
    block: int

    def indices(self, given: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where an element is in the buffer."""
        return tuple([i for n, i in enumerate(given) if n != self.block])


def in_scratch(block: Axis, heads: Sequence[Stmt], rows: For) -> Kept | None:
    """The sums of a block in buffers, a page longer than they are; None where they stay.

    Requires: rows as `one_by_one` makes them.
    """
    (lane,) = rows.body
    assert isinstance(lane, For)  # it is a pass of the lanes
    every = [*statements((*heads, rows))]
    stores = [s for s in every if isinstance(s, Store)]
    used = reads(*all_expressions(every))
    if not all(isinstance(v, (Param, Const)) for s in stores for v in s.values):
        return None
    homes: dict[Tensor, _Home] = {}
    last = {t: s.indices for s in lane.body if isinstance(s, Store) for t in s.tensors}
    for t, indices in last.items():
        places = [s.indices for s in stores if any(u is t for u in s.tensors)]
        places += [e.indices for e in used if e.tensor is t]
        home = _home(t, indices, block, lane.axis)
        if home is None or not all(i[home.block] is block for i in places):
            return None
        homes[t] = home
    again: dict[Expr, Expr] = {
        e: read(homes[e.tensor].tensor, homes[e.tensor].indices(e.indices))
        for e in used
        if e.tensor in homes
    }
    moved = _stored_in(placed((*heads, rows), again), homes)
    fresh = axis(lane.axis.name, lane.axis.lower, lane.axis.upper)
    tail = []
    for t, home in homes.items():
        indices = tuple([block if n == home.block else fresh for n in range(DIMENSIONS)])
        value = read(home.tensor, (fresh,))
        tail.append(For(fresh, (Store((t,), indices, (value,)),), "vector", lane.width))
        fresh = axis(lane.axis.name, lane.axis.lower, lane.axis.upper)
    *first, loop = moved
    assert isinstance(loop, For)  # the loop over rows
    return Kept(tuple(first), loop, tuple(tail), tuple([h.tensor for h in homes.values()]))


def _home(t: Tensor, indices: Sequence[Expr], block: Axis, lane: Axis) -> _Home | None:
    """A buffer for the floats of one block, if that is what the indices say."""
    if len(indices) != DIMENSIONS or not t.dtype.is_float:
        return None
    for n, (i, j) in enumerate((indices, indices[::-1])):
        extent = t.shape[1 - n]
        if i is block and j is lane and isinstance(extent, int):
            more = PAGE // t.dtype.size_bytes
            return _Home(buffer(t.name, (extent + more,), t.dtype), n)
    return None


def _stored_in(body: Sequence[Stmt], homes: Mapping[Tensor, _Home]) -> tuple[Stmt, ...]:
    """The statements with these tensors stored in their buffers."""

    def store(s: Stmt) -> list[Stmt] | None:
        if not isinstance(s, Store) or not any(t in homes for t in s.tensors):
            return None
        return [
            replace(s, tensors=(t,), values=(v,))
            if t not in homes
            else Store((homes[t].tensor,), homes[t].indices(s.indices), (v,))
            for t, v in zip(s.tensors, s.values, strict=True)
        ]

    return rewrite(body, store)
