"""One row per lane: pieces of rows are loaded or stored, and transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.llvm.context import Address, Lowering
from tensorad.codegen.llvm.ops import is_constant
from tensorad.codegen.llvm.strided import shuffle
from tensorad.codegen.llvm.text import Value, memory_suffix, memory_type
from tensorad.codegen.target import machine
from tensorad.ir.dtypes import BOOL, FLOAT32, DType
from tensorad.ir.expr import Read
from tensorad.ir.tensor import Tensor

LEAST_PIECE: Final = 16
"""Bytes of a row that are loaded at least."""
CROWDED: Final = 2048
"""Bytes between rows, or a multiple, from which they share few places of a first cache: a line is
gone before many pieces of it are loaded."""


@dataclass(frozen=True)
class OffsetWindow:
    """Reads of one tensor in one block of statements, their offsets being low, ..., high."""

    low: int
    high: int
    reads: dict[int, list[Read]]
    """By their constant offsets."""


def load_block(
    values: Lowering, e: Read, place: Address, window: OffsetWindow, level: int, mask: int
) -> Value:
    """One row per lane, transposed: every read of the window at once."""
    t = e.tensor
    lanes = values.lanes
    n, rows = lanes.lanes, window.high - window.low + 1
    columns: list[list[str]] = [[] for _ in range(rows)]
    for r in range(lanes.count):
        starts = [_start(values, e, place, window, r * n + lane, level) for lane in range(n)]
        for k, name in enumerate(_columns(values, t, starts, rows, place.stride, level)):
            if t.dtype is BOOL:
                name = values.code.put(f"icmp ne {memory_type(BOOL, n)} {name}, zeroinitializer",
                                       level)  # fmt: skip
            columns[k].append(name)
    for c, same in window.reads.items():
        value = Value(tuple(columns[c - window.low]), t.dtype, n, level, mask)
        for other in same:
            if other is not e:
                values.keep(other, value)
            else:
                result = value
    return result


def _start(
    values: Lowering, e: Read, place: Address, window: OffsetWindow, lane: int, level: int
) -> str | None:
    """Where the row of one lane starts; None for a lane that is not active."""
    t = e.tensor
    lanes = values.lanes
    code = values.code
    pointer = values.shifted(t, place.pointer.name, window.low, level)
    if lanes.mask is None or (is_constant(lanes.left) and lane < int(lanes.left)):
        return row_pointer(values, t, pointer, place, lane, level)
    if is_constant(lanes.left):
        return None
    if lane:  # the last active lane's row once more: lanes beyond it are not stored
        inside = code.put(f"icmp slt i64 {lane}, {lanes.left}", level)
        last = code.put(f"sub i64 {lanes.left}, 1", level)
        chosen = code.put(f"select i1 {inside}, i64 {lane}, i64 {last}", level)
        offset = code.put(f"mul i64 {chosen}, {place.step}", level)
        element = memory_type(t.dtype)
        pointer = code.put(f"getelementptr {element}, ptr {pointer}, i64 {offset}", level)
    return pointer


def row_pointer(
    values: Lowering, t: Tensor, pointer: str, place: Address, lane: int, level: int
) -> str:
    """The pointer as many rows further as the number of a lane."""
    if place.rows is None or not lane:
        return values.shifted(t, pointer, lane * place.stride, level)
    put, rows = values.code.put, place.rows
    offset = put(f"mul i64 {rows.name}, {lane}", rows.level)
    return put(f"getelementptr {memory_type(t.dtype)}, ptr {pointer}, i64 {offset}", level)


def _columns(
    values: Lowering, t: Tensor, starts: Sequence[str | None], rows: int, stride: int, level: int
) -> list[str]:
    """`rows` registers, lane l of register k being element k from the start of row l.

    A register takes the same piece of several rows, so that only blocks as wide as a piece are
    left to exchange: a piece is put beside another while it is loaded.
    """
    n = len(starts)
    piece = _piece(t, n, rows, stride)
    result: list[str] = []
    pieces: dict[tuple[int, int], str] = {}
    for r in range(piece):  # all of a line while it is near
        for first in range(0, rows, piece):
            for lane in range(r, n, piece):
                pieces[first, lane] = _load_piece(
                    values, t, starts[lane], first, piece, min(piece, rows - first), level
                )
    for first in range(0, rows, piece):
        group = [
            _joined(values, t, [pieces[first, lane] for lane in range(r, n, piece)], level)
            for r in range(piece)
        ]
        result.extend(transposed(values, t.dtype, group, n, level))
    return result[:rows]


def _piece(t: Tensor, n: int, rows: int, stride: int) -> int:
    """Elements of a row that are loaded at a time: half of a register of the machine, but
    `LEAST_PIECE`: less than that is loaded no faster. Fewer where fewer are wanted."""
    size = t.dtype.size_bytes
    crowded = stride != 0 and stride * size % CROWDED == 0  # 0: not known
    half = max(machine.current().vector_bytes // 2, LEAST_PIECE * (2 if crowded else 1))
    wide, least = min(n, half // size), min(n, LEAST_PIECE // size)
    while wide > least and wide // 2 >= rows:
        wide //= 2
    return wide


def _load_piece(
    values: Lowering, t: Tensor, start: str | None, first: int, piece: int, wanted: int, level: int
) -> str:
    """`wanted` elements from `first` on; those behind them are not touched."""
    if start is None:
        return "poison"
    pointer = values.shifted(t, start, first, level)
    flags = ", ".join(["i1 true" if k < wanted else "i1 false" for k in range(piece)])
    return values.load_vector(t, pointer, piece, None if wanted == piece else f"<{flags}>", level)


def _joined(values: Lowering, t: Tensor, parts: Sequence[str], level: int) -> str:
    """Pieces side by side in one register, two neighbours at a time."""
    lanes = values.lanes
    current, width = list(parts), lanes.lanes // len(parts)
    while len(current) > 1:
        ty = memory_type(t.dtype, width)
        pairs = zip(current[::2], current[1::2], strict=True)
        width *= 2
        current = [shuffle(values, ty, pair, range(width), level) for pair in pairs]
    return current[0]


def transposed(
    values: Lowering, dtype: DType, rows: Sequence[str], n: int, level: int
) -> list[str]:
    """Lane b + l of register k from lane b + k of register l, b in steps of as many registers.

    Blocks of 1, 2, 4, ... lanes change places across the diagonal of the blocks twice as large:
    every shuffle is one instruction, most of them inside `LEAST_PIECE` bytes. For each shuffle LLVM
    searches all those before it for some that could be one, which takes longer than all else it
    does: there are such only inside these bytes, so that a fence keeps the others apart.
    """
    size, current, ty = 1, list(rows), memory_type(dtype, n)
    while size < len(rows):
        if size * dtype.size_bytes == LEAST_PIECE:
            current = [_fenced(values, dtype, name, n, level) for name in current]
        for i in [i for i in range(len(rows)) if not i & size]:
            pair = (current[i], current[i + size])
            current[i], current[i + size] = (
                shuffle(values, ty, pair, _exchange(n, size, half), level) for half in (0, 1)
            )
        size *= 2
    return current


def _fenced(values: Lowering, dtype: DType, name: str, n: int, level: int) -> str:
    """The same register, which LLVM does not see through; there is no instruction for it."""
    code, lanes = values.code, n * dtype.size_bytes // FLOAT32.size_bytes
    ty, opaque = memory_type(dtype, n), memory_type(FLOAT32, lanes)
    fence = f"llvm.arithmetic.fence.{memory_suffix(FLOAT32, lanes)}"
    if ty == opaque:
        return code.put(code.called(fence, opaque, (opaque, name)), level)
    bits = code.put(f"bitcast {ty} {name} to {opaque}", level)
    kept = code.put(code.called(fence, opaque, (opaque, bits)), level)
    return code.put(f"bitcast {opaque} {kept} to {ty}", level)


def _exchange(n: int, size: int, half: int) -> list[int]:
    """Of a pair of registers: every second block of `size` lanes, of the first and the second."""
    order: list[int] = []
    for start in range(half * size, n, 2 * size):
        order.extend(range(start, start + size))
        order.extend(range(n + start, n + start + size))
    return order


def pieces_of_rows(constants: Sequence[int], size_bytes: int, lanes: int) -> list[list[int]]:
    """Positions of neighbouring offsets, in order: as many as are stored at once in each row, or
    one alone. Empty where two offsets are equal: then their order matters."""
    order = sorted(range(len(constants)), key=constants.__getitem__)
    if len(dict.fromkeys(constants)) < len(constants):
        return []
    result: list[list[int]] = []
    while order:
        first, most = constants[order[0]], 1
        while most < len(order) and constants[order[most]] == first + most:
            most += 1
        wide = min(lanes, 1 << (most.bit_length() - 1))
        count = wide if wide * size_bytes >= LEAST_PIECE else 1
        result.append(order[:count])
        order = order[count:]
    return result


def store_rows(
    values: Lowering, t: Tensor, pointer: str, columns: Sequence[str], stride: int
) -> None:
    """pointer[l * stride + m] = columns[m][l], the columns being 2^k: a piece of each row."""
    lanes, code = values.lanes, values.code
    n, count, depth = lanes.lanes, len(columns), code.depth
    ty, part, align = memory_type(t.dtype, n), memory_type(t.dtype, count), t.dtype.size_bytes
    for r, name in enumerate(transposed(values, t.dtype, columns, n, depth)):
        for first in range(0, n, count):
            piece = shuffle(values, ty, (name, name), range(first, first + count), depth)
            where = values.shifted(t, pointer, (first + r) * stride, depth)
            code.line(f"store {part} {piece}, ptr {where}, align {align}")
