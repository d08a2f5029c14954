"""Strip-mines transposing copies of symbolic extents, where a call's sizes leave the caches.

Those of fixed extents are strip-mined by their plan (`transpose.strip_width`). With symbolic
extents loops that stay in the caches need none; those for tensors beyond them get theirs here: few
rows are read side by side from end to end, each line once, and whole lines are stored. Where a
call's extents are too short for that, the loops run as they were. No value changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorad.codegen.caches.misaligned_tiles import copied, may_be_copied
from tensorad.codegen.cost.memory_model import LINE
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import For, Stmt, Store
from tensorad.codegen.loops.rewrite import Around, Block, mapped, rewrite_blocks
from tensorad.codegen.loops.substitute import placed, where
from tensorad.codegen.loops.vector_loops import is_vectorised, lanes_for
from tensorad.codegen.nest.access import access
from tensorad.codegen.schedule.emit import strips
from tensorad.codegen.schedule.transpose import (
    BUFFERED_STRIP,
    FEWEST_STRIPS,
    SHORTEST_STRIP,
    are_followed,
    short_strip,
)
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    Axis,
    Const,
    Expr,
    add,
    axis,
    call,
    int_const,
    mod,
    mul,
    sub,
)
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.visit import free_leaves, reads


def with_symbolic_strips(
    body: Sequence[Stmt], streamed: Collection[Tensor]
) -> tuple[tuple[Stmt, ...], list[Tensor]]:
    """The loops, tiles across rows of symbolic extents that stream in strips, and their buffers.

    Requires: loops as `schedule.emit` writes them, whole tiles first, then the rows left.
    """
    made: list[Tensor] = []

    def stripped(block: Block, around: Around) -> list[Stmt]:
        result: list[Stmt] = []
        left = [*block]
        while left:
            s = left.pop(0)
            if not isinstance(s, For) or s.kind == "vector":
                result.append(s)
                continue
            rows = _tile(s, streamed)
            after = left[0] if rows and left and _goes_on(s, left[0]) else None
            if not rows:
                result.append(around.inside(s))
            elif isinstance(after, For):
                left.pop(0)
                result.extend(_strips(s, rows, after, made))
            elif isinstance(s.axis.upper, Const):
                result.extend(_strips(s, rows, None, made))
            else:
                result.append(s)
        return result

    return rewrite_blocks(body, stripped), made


def _tile(s: For, streamed: Collection[Tensor]) -> list[Store]:
    """The rows of a tile: the only statements in its lanes, alike but for the row; or none."""
    inner = s.body[0]
    if len(s.body) > 1 or not isinstance(inner, For) or not is_vectorised(inner) or s.covering:
        return []
    lane, rows = inner.axis, [c for c in inner.body if isinstance(c, Store)]
    symbolic = lane.extent is None or not isinstance(s.axis.upper, Const)
    if not symbolic or len(rows) != len(inner.body) or s.axis.step is not int_const(len(rows)):
        return []
    tensors = [*rows[0].tensors, *[e.tensor for e in reads(*rows[0].values)]]
    if len(rows) == 1 or len(rows) != lanes_for(tensors) or inner.within is not None:
        return []
    if any(t not in streamed for t in rows[0].tensors) or s.axis in free_leaves(*_bounds(lane)):
        return []
    if any(access(t, rows[0].indices).stride(lane) != 1 for t in rows[0].tensors):
        return []
    places = [access(e.tensor, e.indices) for e in reads(*rows[0].values)]
    across = any(x.stride(lane) and x.stride(s.axis) == 1 for x in places)
    if not across or not are_followed([x.stride(lane) for x in places]):
        return []
    moves = [substitutor({s.axis: add(s.axis, int_const(k))}) for k in range(len(rows))]
    copies = [mapped(rows[0], image) for image in moves]
    return rows if all(_same(c, r) for c, r in zip(copies, rows, strict=True)) else []


def _bounds(a: Axis) -> tuple[Expr, ...]:
    return a.lower, a.upper, a.step


def _same(s: Store, other: Store) -> bool:
    pairs = zip((*s.indices, *s.values), (*other.indices, *other.values), strict=True)
    return s.tensors == other.tensors and all(x is y for x, y in pairs)


def _goes_on(s: For, after: Stmt) -> bool:
    """Whether a loop takes the rows behind whole tiles, one by one."""
    if not isinstance(after, For) or after.axis.lower is not s.axis.upper:
        return False
    inner, own = after.body[0], s.body[0]
    if after.axis.step is not ONE or len(after.body) > 1 or not isinstance(inner, For):
        return False
    assert isinstance(own, For)  # `_tile` has seen that
    row, first = inner.body[0], own.body[0]
    same = all(x is y for x, y in zip(_bounds(inner.axis), _bounds(own.axis), strict=True))
    if not same or len(inner.body) > 1 or not isinstance(row, Store):
        return False
    assert isinstance(first, Store)  # `_tile` has seen that
    return _same(mapped(first, substitutor({s.axis: after.axis, own.axis: inner.axis})), row)


def _strips(s: For, rows: Sequence[Store], after: For | None, made: list[Tensor]) -> list[Stmt]:
    """Strips where a call's extents are long enough, and the loops as they were.

    Rows of symbolic length begin alike in some calls only: there are strips for both.
    """
    inner = s.body[0]
    assert isinstance(inner, For)  # `_tile` has seen that
    lane, count = inner.axis, len(rows)
    upper = s.axis.upper if after is None else after.axis.upper
    spare = call(
        "minimum",
        sub(sub(upper, s.axis.lower), int_const(count)),
        sub(sub(lane.upper, lane.lower), int_const(FEWEST_STRIPS * SHORTEST_STRIP * count)),
    )
    enough = call("gt", spare, int_const(-1))
    tiles = axis(s.axis.name, s.axis.lower, sub(upper, int_const(count - 1)), count)
    least = min([t.dtype.size_bytes for t in rows[0].tensors])

    def of_width(width: int, buffered: bool) -> For:
        number, strip = strips(lane, width)
        body = placed(inner.body, {s.axis: tiles, lane: strip})
        taken = For(strip, body, "vector", inner.width, within=lane)
        parts = copied(taken, made) if buffered and may_be_copied(taken) else [taken]
        return For(number, (For(tiles, tuple(parts), covering=True),), s.kind)

    alike = _begin_alike(rows[0].tensors)
    found: list[For] = []
    if alike is not FALSE:
        found.append(where(alike, of_width(short_strip(least, count), buffered=False), run=True))
    if alike is not TRUE:
        found.append(where(alike, of_width(BUFFERED_STRIP * count, buffered=True), run=False))
    others = [s] if after is None else [s, after]
    return [
        *[where(enough, c, run=True) for c in found],
        *[where(enough, c, run=False) for c in others],
    ]


def _begin_alike(tensors: Sequence[Tensor]) -> Expr:
    """Whether rows of all of them are whole lines."""
    past: Expr = int_const(0)
    for t in tensors:
        size_bytes = mul(dim_expr(t.shape[-1]), int_const(t.dtype.size_bytes))
        past = add(past, mod(size_bytes, int_const(LINE)))
    return call("eq", past, int_const(0))
