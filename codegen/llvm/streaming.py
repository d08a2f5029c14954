"""Vector loops over memory behind the caches: stores that stream, and reads that are prefetched.

A store that streams must be aligned, or it is slower than a plain one. So the loop starts with
a masked register up to the first aligned element, found at run time; where the addresses of
several tensors never become aligned together, that part takes the whole loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from tensorad.codegen.cost.memory_model import LINE, PREFETCH_DISTANCE, ROWS_AHEAD, SHORTEST
from tensorad.codegen.cost.store_groups import are_neighbours
from tensorad.codegen.llvm.addresses import Offset, side_by_side
from tensorad.codegen.llvm.context import Lanes
from tensorad.codegen.llvm.expressions import Expressions
from tensorad.codegen.llvm.row_transposes import row_pointer
from tensorad.codegen.llvm.text import Code, Value, memory_type
from tensorad.codegen.llvm.windows import of_axes
from tensorad.codegen.loops.ir import For, If, Prefetch, Store
from tensorad.codegen.loops.visit import all_expressions, direct, expressions, statements
from tensorad.codegen.model import PAGE
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Call, Const, Expr, Read, Size, axis, int_const, mul, sub
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder, reads, substitute

SHORTEST_COMPUTED: Final = 2048
"""The same where loops inside compute each register: an end takes as long as a whole one."""
NEAR: Final = 2
"""The cache that short rows are prefetched into: more of them are on their way to the second than
the first can wait for."""
LINES_AHEAD: Final = 4
"""Lines of a row between a read one and what is prefetched where rows are read side by side."""
AHEAD_ROWS: Final = 2
"""Registers of rows between a read across rows and what is prefetched."""


@dataclass(frozen=True)
class Stream:
    """The stores to one tensor: side by side in every register, all equally aligned."""

    tensor: Tensor
    first: tuple[Expr, ...]
    """Indices of the lowest of them."""
    step: int
    """Bytes from one iteration to the next."""
    align: int
    """What all of them are aligned to when the first is, and rows are."""
    rows: tuple[Expr, ...] = ()
    """Elements between rows of symbolic length."""

    @property
    def steps_of_line(self) -> int:
        """Iterations that fill a line."""
        return LINE // self.step


def streams_of(values: Expressions, s: For, width: int) -> list[Stream]:
    """The tensors whose stores in a vector loop may stream.

    Not those that loops or branches inside store, too: other rows may be aligned differently.
    """
    where: dict[Tensor, list[tuple[Expr, ...]]] = {}
    for c in direct(s.body):
        if isinstance(c, Store) and c.streaming:
            for t in c.tensors:
                where.setdefault(t, []).append(c.indices)
    found: list[Stream] = []
    if not where:
        return found
    base = axis(s.axis.name, s.axis.lower, s.axis.upper)
    values.vector = Lanes(s.axis, base, width, 1, None, "", values.code.depth)
    shortest = SHORTEST_COMPUTED if any(isinstance(c, For) for c in s.body) else SHORTEST
    inside = statements([c for c in s.body if isinstance(c, (For, If))])
    elsewhere = dict.fromkeys([t for c in inside if isinstance(c, Store) for t in c.tensors])
    for t, stores in where.items():
        if t in elsewhere:
            continue
        stream = _stream(t, stores, [values.addresses.plan(t, i) for i in stores], width)
        if stream is not None and (s.axis.extent or shortest) * stream.step >= shortest:
            found.append(stream)
    values.vector = None
    return found


def _stream(
    t: Tensor, stores: Sequence[tuple[Expr, ...]], plans: Sequence[Offset], lanes: int
) -> Stream | None:
    groups, rows = side_by_side(plans), _lengths_of_rows(plans)
    if not groups and rows and plans[0].stride == 1:
        groups = [[n] for n in range(len(plans))]
    size, stride = t.dtype.size_bytes, plans[0].stride
    if not groups or stride not in (1, 2, 4) or any(len(g) != stride for g in groups):
        return None
    if not all(of_axes(unit) for unit in plans[0].units):
        return None
    starts = [plans[g[0]].constant * size for g in groups]
    align = LINE
    for start in starts:
        align = gcd(align, start - starts[0]) if start != starts[0] else align
    step = stride * size
    align = min(align, lanes * step)
    if align < min(LINE, lanes * step):  # parts of a line are slower than plain stores
        return None
    return Stream(t, stores[groups[0][0]], step, align, rows)


def _lengths_of_rows(plans: Sequence[Offset]) -> tuple[Expr, ...]:
    """By what offsets differ beside numbers, where that is products of sizes; nothing elsewhere."""
    every = dict.fromkeys([unit for plan in plans for unit in plan.units])
    found = [u for u in every if len({plan.units.get(u, 0) for plan in plans}) > 1]
    sizes = all(isinstance(e, (Size, Const, Call)) for u in found for e in postorder(u))
    alike = len({plan.stride for plan in plans}) == 1
    return tuple(found) if sizes and alike else ()


def head_length(values: Expressions, s: For, streams: Sequence[Stream], extent: str) -> str:
    """How many iterations come before the first aligned one: all where there is none."""
    put = values.code.put
    head, bad = "0", "false"
    for number, stream in enumerate(streams):
        start: dict[Expr, Expr] = {s.axis: s.axis.lower if s.within is None else s.within.lower}
        indices = tuple([substitute(i, start) for i in stream.first])
        place = values.addresses.place(stream.tensor, indices)
        pointer = values.element(stream.tensor, place)
        address = put(f"ptrtoint ptr {pointer} to i64")
        if s.within is None:
            further = put(f"mul i64 {extent}, {ROWS_AHEAD * stream.step}")
            edge = put(f"getelementptr i8, ptr {pointer}, i64 {further}")
            prefetch(values.code, edge, write=True)
        if number == 0:
            missing = put(f"and i64 {put(f'sub i64 0, {address}')}, {LINE - 1}")
            head = put(f"udiv i64 {missing}, {stream.step}")
        skipped = put(f"mul i64 {head}, {stream.step}")
        rest = put(f"and i64 {put(f'add i64 {address}, {skipped}')}, {stream.align - 1}")
        for length in stream.rows:
            size_bytes = put(
                f"mul i64 {values.value(length).name}, {stream.tensor.dtype.size_bytes}"
            )
            apart = put(f"and i64 {size_bytes}, {stream.align - 1}")
            rest = put(f"or i64 {rest}, {apart}")
        wrong = put(f"icmp ne i64 {rest}, 0")
        bad = put(f"or i1 {bad}, {wrong}")
    longer = put(f"icmp sgt i64 {head}, {extent}")
    everything = put(f"or i1 {bad}, {longer}")
    return put(f"select i1 {everything}, i64 {extent}, i64 {head}")


def start_of_head(values: Expressions, s: For, lower: str, start: str, lanes: int) -> str:
    """Where the register begins that ends before the first line, which is `start`.

    A masked store that reaches into a line is a store of that line, which is then read from
    memory though it streams. So the register ends with the line before, its first lanes masked,
    if it holds all of the part. Masked lanes in a page that is not there take 200 ns: what may be
    read at the same place for many rows must not cross into the page before.
    """
    put, addresses = values.code.put, values.addresses
    if not are_neighbours(s):
        return lower
    head = put(f"sub i64 {start}, {lower}")
    short = put(f"icmp slt i64 {head}, {lanes}")
    good = put(f"and i1 {short}, {put(f'icmp sgt i64 {head}, 0')}")
    before = put(f"sub i64 {head}, {lanes}")
    own = axis(s.axis.name, s.axis.lower, s.axis.upper)
    values.keep(own, Value((lower,), INT64, 0, values.code.depth, 0))
    for e in reads(*all_expressions(s.body)):
        if not access(e.tensor, e.indices).stride(s.axis) or _moves_with_rows(e, s):
            continue
        place = addresses.place(e.tensor, tuple([substitute(i, {s.axis: own}) for i in e.indices]))
        pointer = values.element(e.tensor, place)
        size = e.tensor.dtype.size_bytes
        address = put(
            f"add i64 {put(f'ptrtoint ptr {pointer} to i64')}, {put(f'mul i64 {before}, {size}')}"
        )
        within = put(f"and i64 {address}, {PAGE - 1}")
        fits = put(f"icmp ule i64 {within}, {PAGE - lanes * size}")
        good = put(f"and i1 {good}, {fits}")
    begin = put(f"sub i64 {start}, {lanes}")
    return put(f"select i1 {good}, i64 {begin}, i64 {lower}")


def _moves_with_rows(e: Read, s: For) -> bool:
    """Whether a read goes on to another row with each row that is stored.

    Not where some loops leave it at its row, which may be the first one, nor where an index from
    data names it.
    """
    stored = [access(t, c.indices) for c in s.body if isinstance(c, Store) for t in c.tensors]
    rows = dict.fromkeys([x for a in stored for x in a.uses if x is not s.axis])
    uses = access(e.tensor, e.indices).uses
    return bool(rows) and all(uses.get(x) for x in rows)


def ahead_of_line(values: Expressions, s: For, step: str) -> str:
    """How many elements before its lower bound a covering loop starts, so that rows are read by
    whole lines; 0 where rows start at different places of a line."""
    put, addresses = values.code.put, values.addresses
    lane = next((c for c in s.body if isinstance(c, For) and c.kind == "vector"), None)
    found = None if lane is None else _across(s, lane)
    if lane is None or found is None:
        return "0"
    start: dict[Expr, Expr] = {s.axis: s.axis.lower, lane.axis: lane.axis.lower}
    indices = tuple([substitute(i, start) for i in found.indices])
    place, size = addresses.place(found.tensor, indices), found.tensor.dtype.size_bytes
    address = put(f"ptrtoint ptr {values.element(found.tensor, place)} to i64")
    past = put(f"lshr i64 {put(f'and i64 {address}, {LINE - 1}')}, {size.bit_length() - 1}")
    return put(f"urem i64 {past}, {step}")


def _across(s: For, lane: For) -> Read | None:
    """The first element of a row that a tile reads, rows being whole lines apart."""
    for c in direct(lane.body):
        for e in reads(*expressions(c)):
            x = access(e.tensor, e.indices)
            stride = x.stride(lane.axis)
            if x.stride(s.axis) == 1 and stride and stride * e.tensor.dtype.size_bytes % LINE == 0:
                return e
    return None


def prefetch_stores(values: Expressions, s: For) -> None:
    """Prefetch, before a register group's inner loops, the lines that it stores after them."""
    lanes, addresses, code = values.lanes, values.addresses, values.code
    wanted = dict.fromkeys(s.prefetched)
    stores = [c for c in direct(s.body) if isinstance(c, Store)]
    for t, indices in [(t, c.indices) for c in stores for t in c.tensors if t in wanted]:
        if not all(of_axes(unit) for unit in addresses.plan(t, indices).units):
            continue
        place = addresses.place(t, indices)
        if place.offsets is not None or place.stride != 1:
            continue
        for at in range(
            0, lanes.lanes * lanes.count, max(1, machine.current().line // t.dtype.size_bytes)
        ):
            where = values.shifted(t, place.pointer.name, place.constant + at, code.depth)
            prefetch(code, where, write=True)


def prefetch_ahead(values: Expressions, s: For) -> None:
    """Prefetch, at the start of a register group, the lines that a later one will read."""
    addresses = values.addresses
    wanted = dict.fromkeys(s.prefetched)
    spans: dict[object, tuple[Read, list[int], int]] = {}
    for c in direct(s.body):
        for e in reads(*expressions(c)) if wanted else ():
            if e.tensor not in wanted:
                continue
            plan = addresses.plan(e.tensor, e.indices)
            if (plan.stride or plan.has_row_per_lane) and all(of_axes(unit) for unit in plan.units):
                key = (e.tensor, tuple(plan.units.items()), plan.stride)
                spans.setdefault(key, (e, [], plan.stride))[1].append(plan.constant)
    for e, constants, stride in spans.values():
        _prefetch_read(values, s, e, sorted(dict.fromkeys(constants)), stride)


def _prefetch_read(
    values: Expressions, s: For, e: Read, constants: Sequence[int], stride: int
) -> None:
    addresses, lanes = values.addresses, values.lanes
    size = e.tensor.dtype.size_bytes
    far = addresses.plan(e.tensor, e.indices).has_row_per_lane
    place = addresses.place(e.tensor, e.indices) if stride else addresses.rows_apart(e)
    if place.offsets is not None:
        return
    count = lanes.lanes * lanes.count
    line = max(1, machine.current().line // size)
    code, pointer = values.code, place.pointer.name

    def prefetch_at(row: int, at: int) -> None:
        start = row_pointer(values, e.tensor, pointer, place, row, code.depth)
        prefetch(code, values.shifted(e.tensor, start, at, code.depth), near=NEAR)

    few = s.axis.extent is not None and s.axis.extent <= 2 * AHEAD_ROWS * count
    if far and (few or s.within is not None):  # what follows in each row
        for lane in range(count):
            prefetch_at(lane, constants[0] + LINES_AHEAD * line)
    elif far:  # a line of every row that comes AHEAD_ROWS registers later
        for lane in range(count):
            prefetch_at(AHEAD_ROWS * count + lane, constants[-1])
    else:
        stretches = _stretches(constants, abs(stride) * count)
        first = constants[0] if stride > 0 else constants[-1] - (count - 1) * -stride
        reach = (PREFETCH_DISTANCE // size) * (1 if stride > 0 else -1)
        wanted = [first + reach + at for at in range(0, stretches * abs(stride) * count, line)]
        if stretches > 1:  # all of these rows, one after the other
            done = sub(lanes.base, s.axis.lower)
            more = values.value(mul(done, int_const((stretches - 1) * stride))).name
            pointer = code.put(
                f"getelementptr {memory_type(e.tensor.dtype)}, ptr {pointer}, i64 {more}"
            )
        for at in wanted:
            prefetch_at(0, at)


def emit_prefetch(values: Expressions, s: Prefetch) -> None:
    """Prefetch the lines of a `Prefetch`, into the second cache, or load its first element now.

    Each line is prefetched at its last element: in rows that begin inside of a line, the line of
    the first element was prefetched with the row before, and nobody else prefetches that of the
    last. None of what the loop stores past the caches is brought into one. Where lanes move, no
    more is prefetched than the registers that are filled at a time: the rest of a loop takes fewer
    of them.
    """
    lanes, addresses, code = values.vector, values.addresses, values.code
    if lanes is not None and s.tensor in lanes.streams:
        return
    place, count = addresses.place(s.tensor, s.indices), s.count
    if lanes is not None and place.stride:
        count = min(count, abs(place.stride) * lanes.lanes * lanes.count)
    step = max(1, machine.current().line // s.tensor.dtype.size_bytes)
    if s.now:
        where = values.element(s.tensor, place)
        code.put(f"load volatile {memory_type(s.tensor.dtype)}, ptr {where}")
    elif place.offsets is None:
        for at in range(0, count, step):
            last = place.constant + min(at + step, count) - 1
            where = values.shifted(s.tensor, place.pointer.name, last, code.depth)
            prefetch(code, where, near=2)


def prefetch(code: Code, pointer: str, write: bool = False, near: int = 3) -> None:
    """Prefetch a line, into the first cache (3) or the second (2); it never faults."""
    how = [("i32", n) for n in (int(write), near, 1)]
    code.line(code.called("llvm.prefetch.p0", "void", ("ptr", pointer), *how))


def _stretches(constants: Sequence[int], width: int) -> int:
    """How many separate stretches of `width` elements the offsets start."""
    starts = [c for n, c in enumerate(constants) if n == 0 or c - constants[n - 1] >= width]
    return len(starts)
