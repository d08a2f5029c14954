"""Prefetches what the next product of a batch reads and stores while this one is computed.

Its first tiles would wait for memory otherwise: a product of a batch is short, and its rows start
anew, so that the processor does not foresee them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Final

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import Mapping, digits
from tensorad.codegen.contraction.emit.reduce_strips import column_of
from tensorad.codegen.contraction.recognise import is_symbolic
from tensorad.codegen.cost.memory_model import PREFETCH_DISTANCE
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import For, Prefetch, Stmt
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import all_expressions
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import fixed_bytes, fixed_elements
from tensorad.ir.expr import ONE, ZERO, Axis, Expr, Read, add, floordiv, int_const, mod, mul
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, reads

LEAST_PART: Final = 64
"""The part of the second cache from which the processor does not foresee the next operands."""
LARGE: Final = 1 << 62
"""Bytes that a tensor of symbolic extents is thought to have."""
BESIDE: Final = 2
"""The part of the second cache that a panel and rows leave to the operand it is packed from."""
FOLLOWED: Final = 8192
"""Bytes of a piece of a row from which the processor foresees most of it: two pages."""


@dataclass(frozen=True)
class OperandPiece:
    """Neighbouring elements of an operand: all that one product reads of it."""

    tensor: Tensor
    start: tuple[Expr, ...]
    """The leading indices; the others start at 0."""
    count: int

    @property
    def size_bytes(self) -> int:
        """Of the elements."""
        return self.count * self.tensor.dtype.size_bytes


@dataclass(frozen=True)
class ProductPrefetch:
    """Pieces of operands, fetched a little in every reduce step: more at once would wait, too."""

    pieces: tuple[OperandPiece, ...]
    rows: int

    def part(self, row: Expr, rows: int, step: Expr, steps: int) -> tuple[Prefetch, ...]:
        """What one of the reduce steps of `rows` rows from `row` on prefetches."""
        found: list[Prefetch] = []
        for p in self.pieces:
            each = ceil(p.count / self.rows)
            part = ceil(rows * each / steps)
            at = add(mul(row, int_const(each)), mul(step, int_const(part)))
            inner = [ZERO] * (len(p.tensor.shape) - len(p.start) - 1)
            found.append(Prefetch(p.tensor, (*p.start, *inner, at), part))
        return tuple(found)


def product_prefetch(
    b: Blocking, values: Sequence[Expr], results: Sequence[Read], following: Expr
) -> ProductPrefetch | None:
    """What the iteration `following` needs, where it would come from behind the second cache.

    Args:
        values: the operands.
        results: as if they were read; prefetched where all has room in half of that cache.
    """
    if is_symbolic((*b.rows.axes, *b.contraction.reduced)) or not b.whole or b.inside:
        return None
    mapping = digits(following, b.outer)
    found = [[p for v in some if isinstance(v, Read) and (p := _piece(v, b.outer, mapping))]
             for some in (values, results)]  # fmt: skip
    second = machine.current().l2
    for pieces in ([*found[0], *found[1]], found[0]):
        each = sum(p.size_bytes for p in pieces)
        whole = sum([fixed_bytes(p.tensor) or LARGE for p in pieces])
        if second // LEAST_PART <= each <= second // 2 and whole > second:
            return ProductPrefetch(tuple(pieces), b.rows.extent)
    return None


def _piece(value: Read, outer: Sequence[Axis], mapping: Mapping) -> OperandPiece | None:
    """Everything behind the leading indices, which are those of the loops around.

    None where data says which: that of the iteration after the last one is not there.
    """
    if any(i.kinds & READ for i in value.indices):
        return None
    around = dict.fromkeys(outer)
    used = [[a for a in free_leaves(i) if isinstance(a, Axis)] for i in value.indices]
    leading = 0
    while leading < len(used) and used[leading] and all(a in around for a in used[leading]):
        leading += 1
    inner = value.tensor.shape[leading:]
    if leading == 0 or not inner or any(a in around for u in used[leading:] for a in u):
        return None
    count = fixed_elements(inner)
    if count is None:
        return None
    image = substitutor(mapping)
    return OperandPiece(value.tensor, tuple([image(i) for i in value.indices[:leading]]), count)


def sum_prefetches(
    b: Blocking, waiting: Callable[[Expr], Expr], row: Expr, rows: int, step: Expr, every: int
) -> tuple[Prefetch, ...]:
    """Some of the lines where the sums of the next rows wait: all of them during the steps.

    The tile that goes on with those sums would wait for its lines otherwise.

    Args:
        waiting: the sum of a row in the first lane of the tile.
        step: the number of the reduce step in its block.
        every: steps until more of them are prefetched.
    """
    first = waiting(row)
    if b.inside or len(b.rows.axes) != 1 or not isinstance(first, Read):
        return ()
    if (fixed_bytes(first.tensor) or LARGE) <= machine.current().l2 // 4:
        return ()
    line = machine.current().line // first.dtype.size_bytes
    each = ceil(b.registers * b.width / line)
    slots, apart = max(1, b.depth // every), 1
    while 2 * apart * rows * each <= slots:
        apart *= 2
    part = ceil(rows * each / slots)
    slot = mul(floordiv(step, int_const(every * apart)), int_const(part))
    prefetches: list[Prefetch] = []
    for n in range(part):
        place = add(slot, int_const(n))
        found = waiting(add(add(row, int_const(rows)), floordiv(place, int_const(each))))
        assert isinstance(found, Read)
        *outer, last = found.indices
        last = add(last, mul(mod(place, int_const(each)), int_const(line)))
        prefetches.append(Prefetch(found.tensor, (*outer, last), 1))
    return tuple(prefetches)


def sliver_prefetches(
    b: Blocking, value: Callable[[Expr], Expr], row: Expr, rows: int, sliver: Expr
) -> tuple[Prefetch, ...]:
    """What the next rows read in this step, shared by the slivers that these rows meet.

    Rows are read from behind the second cache once for each panel, in pieces as long as a block:
    the processor itself follows long ones.
    """
    own = b.rows.value
    if b.inside or b.rows_mode != "place" or len(b.rows.axes) != 1 or not isinstance(own, Read):
        return ()
    if (fixed_bytes(own.tensor) or LARGE) <= machine.current().l2 // 2:
        return ()
    uses = access(own.tensor, own.indices).uses
    if uses.get(b.contraction.reduced[-1]) != 1 or b.depth * own.dtype.size_bytes > FOLLOWED:
        return ()
    if uses.get(b.rows.axes[0]) is None:
        return ()  # which rows, data may say: that of those after the last one is not there
    each = ceil(rows / ceil(b.panel / b.sliver))
    first = add(add(row, int_const(rows)), mul(sliver, int_const(each)))
    found = [value(add(first, int_const(n))) for n in range(each)]
    return tuple([Prefetch(e.tensor, e.indices, 1) for e in found if isinstance(e, Read)])


def with_packing_prefetches(loops: Sequence[Stmt], lanes: int) -> tuple[Stmt, ...]:
    """Loops that pack a panel, with prefetches of what later reduce steps read.

    Each step reads a piece of another row, too short for the processor to follow it, and from
    behind the second cache: the tiles before have read all rows of the other operand.

    Args:
        loops: loops over the reduce steps around vector loops that read lanes side by side, in
            rows that no index from data names.
        lanes: elements of a piece, less than a page.
    """
    return tuple([c for s in loops for c in rewrite((s,), partial(_packing, steps=s, lanes=lanes))])


def _packing(s: Stmt, steps: Stmt, lanes: int) -> For | None:
    """A vector loop with prefetches of what it reads in later steps of a loop around it."""
    if not (isinstance(s, For) and isinstance(steps, For) and is_vectorised(s)):
        return None
    found: list[Prefetch] = []
    for e in reads(*all_expressions(s.body)):
        piece = lanes * e.tensor.dtype.size_bytes
        if (fixed_bytes(e.tensor) or LARGE) > machine.current().l2 // BESIDE:
            further = add(steps.axis, int_const(PREFETCH_DISTANCE // piece))
            later = substitutor({steps.axis: further})
            count = s.axis.extent or lanes
            found.append(Prefetch(e.tensor, tuple([later(i) for i in e.indices]), count))
    return replace(s, body=(*found, *s.body)) if found else None


def column_prefetches(b: Blocking, value: Expr, rows: int) -> tuple[Prefetch, ...]:
    """A line of what the next tile's rows read in this step, where each step is on another page.

    Rows that lie side by side are no streams to the processor if the steps are far apart.
    """
    place = column_of(b, machine.current())
    if place is None or not isinstance(value, Read):
        return ()
    indices = list(value.indices)
    indices[place] = add(indices[place], int_const(rows))
    return (Prefetch(value.tensor, tuple(indices), rows),)


def tile_row_prefetches(
    b: Blocking, value: Expr, loops: Sequence[Axis], rows: int
) -> tuple[Prefetch, ...]:
    """The same rows one step of the second loop from inside later, a little in every step.

    Rows that are short pieces side by side in a large tensor are no streams to the processor.
    """
    if len(loops) < 2 or not isinstance(value, Read) or len(b.rows.axes) != 1 or b.inside:
        return ()
    inner, outer, tensor = loops[-1], loops[-2], value.tensor
    if b.rows_mode != "place" or not isinstance(b.rows.value, Read):
        return ()
    if (fixed_bytes(tensor) or 0) <= machine.current().l2:
        return ()
    uses = access(tensor, value.indices).uses
    stride = access(tensor, b.rows.value.indices).uses.get(b.rows.axes[0])
    if inner.extent is None or uses.get(inner) != 1 or stride != inner.extent:
        return ()
    if not uses.get(outer):
        return ()
    further = substitutor({outer: add(outer, ONE), inner: mul(inner, int_const(rows))})
    return (Prefetch(tensor, tuple([further(i) for i in value.indices]), rows),)
