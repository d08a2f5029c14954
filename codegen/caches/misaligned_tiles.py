"""Tiles that stream to rows which begin at different places of a line.

Only whole lines pass the caches, and the lines of such rows end at different lanes of a strip: a
register across rows never is a line of each. So a tile stores a strip to a buffer in the first
cache, with a line's lanes in front of it, and every row is copied from there: its borders of the
strip move back to lines of its own. No value changes; what lies in front is computed again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.caches.prefetch_rows import offset
from tensorad.codegen.cost.memory_model import LINE
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import For, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.target import machine
from tensorad.ir.expr import Axis, Call, Expr, axis, call, int_const, read, sub
from tensorad.ir.tensor import Tensor
from tensorad.simplify.index.linear import Linear, linear_form

REGISTERS: Final = 4
"""Registers that are copied at a time."""


def with_tile_buffers(
    body: Sequence[Stmt], streamed: Collection[Tensor]
) -> tuple[tuple[Stmt, ...], list[Tensor]]:
    """The loops whose strips stream to such rows, stored by way of buffers, and the buffers."""
    made: list[Tensor] = []

    def strip(s: Stmt) -> list[For] | None:
        return copied(s, made) if isinstance(s, For) and is_ragged(s, streamed) else None

    return rewrite(body, strip), made


def is_ragged(s: For, streamed: Collection[Tensor]) -> bool:
    """Whether a vector loop is a strip of rows, evenly apart, that do not begin alike."""
    stores, alike = _rows(s), True
    if any(t not in streamed for c in stores for t in c.tensors) or not may_be_copied(s):
        return False
    for t in stores[0].tensors:
        forms = [offset(t, c.indices) for c in stores]
        if any(form.terms.get(s.axis, 0) != 1 for form in forms):
            return False
        size = t.dtype.size_bytes
        alike &= all((form.constant - forms[0].constant) * size % LINE == 0 for form in forms)
    return not alike


def may_be_copied(s: For) -> bool:
    """Whether a loop is a strip of rows, evenly apart, for which the first cache has room."""
    stores = _rows(s)
    if s.within is None or len(stores) < 2 or not _strip_length(s):
        return False
    tensors = stores[0].tensors
    of_row = sum([(_in_front(tensors) + _strip_length(s)) * t.dtype.size_bytes for t in tensors])
    even = _evenly([c.indices for c in stores], axis("r", 0, len(stores))) is not None
    alike = all(c.tensors == tensors for c in stores)
    return alike and even and len(stores) * of_row <= machine.current().l1


def _rows(s: For) -> list[Store]:
    """The stores of a loop that does nothing else."""
    stores = [c for c in s.body if isinstance(c, Store)]
    return stores if s.kind == "vector" and len(stores) == len(s.body) else []


def _strip_length(s: For) -> int:
    """The lanes of a strip from its lower bound on; 0 where that is no number."""
    ends = s.axis.upper
    every = ends.args if isinstance(ends, Call) and ends.op == "minimum" else (ends,)
    lengths = [linear_form(sub(e, s.axis.lower)) for e in every]
    known = [form.constant for form in lengths if not form.terms]
    return known[0] if len(known) == 1 else 0


def _in_front(tensors: Sequence[Tensor]) -> int:
    """The lanes by which the borders of a strip may move back: a line's of the smallest type."""
    return max([LINE // t.dtype.size_bytes for t in tensors])


def _evenly(rows: Sequence[Sequence[Expr]], number: Axis) -> tuple[Expr, ...] | None:
    """Indices over the number of the row that are those of every row; None if there are none."""
    found: list[Expr] = []
    for indices in zip(*rows, strict=True):
        forms = [linear_form(i) for i in indices]
        first, step = forms[0], forms[1].constant - forms[0].constant
        even = [first.constant + n * step for n in range(len(forms))]
        if [f.constant for f in forms] != even or any(f.terms != first.terms for f in forms):
            return None
        found.append(first.plus(Linear({number: 1}, 0), step).to_expr())
    return tuple(found)


def copied(s: For, made: list[Tensor]) -> list[For]:
    """The strip with what lies in front of it to buffers, and the copies of its rows.

    Requires: `may_be_copied`.
    """
    stores, whole = _rows(s), s.within
    assert whole is not None  # `may_be_copied` has seen it
    tensors = stores[0].tensors
    front = _in_front(tensors)
    shape = len(stores), front + _strip_length(s)
    buffers = tuple([buffer(f"{t.name}.strip", shape, t.dtype) for t in tensors])
    made.extend(buffers)
    lower = call("maximum", whole.lower, sub(s.axis.lower, int_const(front)))
    lane = axis(s.axis.name, lower, s.axis.upper)
    before = sub(s.axis.lower, int_const(front))
    image = substitutor({s.axis: lane})
    tile = [
        Store(buffers, (int_const(n), sub(lane, before)), tuple([image(v) for v in c.values]))
        for n, c in enumerate(stores)
    ]
    pairs = zip(tensors, buffers, strict=True)
    return [
        replace(s, axis=lane, body=tuple(tile)),
        *[_copy(s, t, into, before) for t, into in pairs],
    ]


def _copy(s: For, t: Tensor, source: Tensor, before: Expr) -> For:
    """Each row from the buffer, its borders moved back to lines."""
    stores = _rows(s)
    row, lane = axis("r", 0, len(stores)), axis(s.axis.name, s.axis.lower, s.axis.upper)
    indices = _evenly([c.indices for c in stores], row)
    assert indices is not None  # `may_be_copied` has seen it
    image = substitutor({s.axis: lane})
    store = Store(
        (t,), tuple([image(i) for i in indices]), (read(source, (row, sub(lane, before))),)
    )
    width = REGISTERS * lanes_for([t])
    return For(row, (For(lane, (store,), "vector", width, within=s.within),))
