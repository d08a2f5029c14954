"""Strip-mines a long reduce loop: several row tiles take a strip of it before any takes the next.

A tile that reads a line of another page in every step prefetches the lines of the next tile, which
have to stay in the second cache for a whole sum, beside the lanes that all tiles read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import Mapping
from tensorad.codegen.contraction.recognise import is_symbolic, size
from tensorad.codegen.contraction.reduce_blocks import blocks
from tensorad.codegen.contraction.register_tiles import RowTiles, enough, first_row
from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.loops.ir import For, LoopKind, Stmt
from tensorad.codegen.model import PAGE, Processor
from tensorad.codegen.nest.access import access
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.expr import Axis, Const, Expr, Read, add, axis, call, int_const, mul, sub
from tensorad.ir.visit import free_leaves

PART: Final = 2
"""The part of the second cache that holds what a tile reads, and what it prefetches."""
WAITING: Final = 4
"""The part of it that holds sums which wait for the next strip."""
LEAST_TILES: Final = 16
"""Of a group: the first tile of each strip waits for its lines."""
Tiled = Callable[[Expr, Expr, Expr], tuple[Stmt, ...]]


def column_of(b: Blocking, target: Processor) -> int | None:
    """The dimension along which rows of a large operand lie side by side, steps on other pages.

    None where rows are something else: streams, copies, or in the second cache.
    """
    own = b.rows.value
    if b.rows_mode != "place" or len(b.rows.axes) != 1 or b.inside or not isinstance(own, Read):
        return None
    uses, element = access(own.tensor, own.indices).uses, own.dtype.size_bytes
    far = (uses.get(b.contraction.reduced[-1]) or 0) * element >= PAGE
    place = [n for n, i in enumerate(own.indices) if among(b.rows.axes[0], free_leaves(i))]
    if uses.get(b.rows.axes[0]) != 1 or not far or len(place) != 1:
        return None
    whole = fixed_bytes(own.tensor)
    return place[0] if whole is not None and whole > target.l2 else None


def with_reduce_strips(b: Blocking, target: Processor) -> Blocking:
    """With strips of which two tiles' lines and all lanes take half of the second cache."""
    c = b.contraction
    if not b.whole or b.outer or len(c.reduced) > 1 or is_symbolic((*c.reduced, *b.rows.axes)):
        return b
    if b.mode == "gaps" or b.flat > b.panel or column_of(b, target) is None:
        return b
    element, rows = b.rows.value.dtype.size_bytes, min(b.most[b.registers], b.rows.extent)
    lines = ceil(rows * element / target.line) + 1
    room = target.l2 // (PART * (b.panel * element + lines * target.line))
    count = ceil(c.depth / max(1, room))
    most = target.l2 // (WAITING * rows * b.panel * element)
    groups = ceil(b.tile_rows / max(1, most))
    if b.parallel or b.rows_awake:
        groups = ceil(groups / enough(target)) * enough(target)
    tiles = ceil(b.tile_rows / groups)
    if count < 2 or tiles < LEAST_TILES:
        return b
    return replace(b, strip=ceil(c.depth / count), strip_rows=tiles * rows)


def in_strip(b: Blocking, number: Expr) -> tuple[Mapping, list[Axis]]:
    """The only reduce axis, and the axis of the strip of this number, which has its values."""
    (a,) = b.contraction.reduced
    start = mul(number, int_const(b.strip))
    end = add(start, int_const(b.strip))
    if size(a) % b.strip:
        end = call("minimum", end, a.upper)
    local = axis(a.name, start, end)
    return {a: local}, [local]


def strips_of_tiles(b: Blocking, rows: RowTiles, last: Expr, tile: Tiled) -> tuple[Stmt, ...]:
    """Groups of tiles, which threads may share, all strips of each.

    Args:
        last: where the rows end: the last tile may have to move back.
        tile: the loops of a tile, by its first row, where its sums wait, and the strip.
    """
    start, stop, step = rows
    whole = sub(stop, start)
    assert isinstance(whole, Const)
    count, most = ceil(int(whole.value) / step), b.strip_rows // step
    g = axis("g", 0, ceil(count / most))
    end: Expr = int_const(most)
    if count % most:
        end = call("minimum", end, sub(int_const(count), mul(g, int_const(most))))
    strip, t = axis("kb", 0, blocks(b)), axis("t", 0, end)
    slot = mul(t, int_const(step))
    row = add(start, add(mul(g, int_const(most * step)), slot))
    inner = tile(first_row(row, rows, last), slot, strip)
    kind: LoopKind = "parallel" if b.for_all else "serial"
    return (For(g, (For(strip, (For(t, inner),)),), kind),)
