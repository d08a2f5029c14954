"""Where arrays of a call live: sizes in numbers, one arena for temporaries, kept large outputs."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import insort
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorad import config
from tensorad.errors import InternalError, LimitError, ShapeError
from tensorad.ir.expr import Axis, Call, Const, Expr, Select, Size
from tensorad.ir.tensor import Shape, Tensor, format_shape
from tensorad.ir.visit import postorder

Array = np.ndarray[Any, np.dtype[Any]]
ALIGNMENT: Final = 64
LARGE_BYTES: Final = 1 << 21
"""Outputs from this size on come from kept blocks: fresh pages are 3 to 11 times slower."""
LARGE_PAGE: Final = 1 << 21
"""Bytes of a large page of x86-64, and of aarch64 with pages of 4 KiB otherwise."""
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
KEPT_BLOCKS: Final = 3
KEPT_BYTES: Final = 1 << 30


def size_value(root: Expr, sizes: Mapping[Expr, int]) -> int:
    """An extent in numbers, or a bound of a loop; `sizes` has the axes outside of it then."""
    if isinstance(root, Const):
        return int(root.value)
    if isinstance(root, Size):
        return sizes[root]
    memo: dict[Expr, int] = {}
    for e in postorder(root):
        match e:
            case Const():
                memo[e] = int(e.value)
            case Size() | Axis():
                memo[e] = sizes[e]
            case Call():
                memo[e] = _operation(e.op, [memo[a] for a in e.args])
            case Select():
                memo[e] = memo[e.then] if memo[e.cond] else memo[e.orelse]
            case _:
                raise InternalError(f"{root} is no extent")
    return memo[root]


def _operation(op: str, args: list[int]) -> int:
    match op, args:
        case "add", [x, y]:
            return x + y
        case "sub", [x, y]:
            return x - y
        case "mul", [x, y]:
            return x * y
        case "neg", [x]:
            return -x
        case "floordiv", [x, y]:
            return x // y if y else 0
        case "mod", [x, y]:
            return x % y if y else 0
        case "maximum", [x, y]:
            return max(x, y)
        case "minimum", [x, y]:
            return min(x, y)
        case (("lt" | "le" | "gt" | "ge" | "eq" | "ne"), [x, y]):
            comparisons = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y}
            return int(comparisons.get(op, x != y))
    raise InternalError(f"an extent uses the operation {op!r}")


def shape_values(shape: Shape, sizes: Mapping[Expr, int]) -> tuple[int, ...]:
    """A shape in numbers."""
    return tuple([n if isinstance(n, int) else size_value(n, sizes) for n in shape])


def _negative(t: Tensor, shape: tuple[int, ...], sizes: Mapping[Expr, int]) -> ShapeError:
    values = ", ".join([f"{s.name} = {n}" for s, n in sizes.items() if isinstance(s, Size)])
    return ShapeError(
        f"{t.name} would have the shape {shape} at {values}.",
        where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
        hint="pass larger arrays, or state the smallest size with ta.assume.",
    )


def bytes_of(t: Tensor, sizes: Mapping[Expr, int]) -> int:
    """The size of a tensor in bytes.

    Raises:
        LimitError: it is larger than TENSORAD_MAX_BYTES.
        ShapeError: an extent is negative for these sizes.
    """
    shape = shape_values(t.shape, sizes)
    if min(shape, default=0) < 0:
        raise _negative(t, shape, sizes)
    size_bytes = prod(shape) * t.dtype.size_bytes
    limit = config.current().max_bytes
    if size_bytes > limit:
        raise LimitError(
            f"{t.name} of shape {shape} and dtype {t.dtype} takes {size_bytes} bytes; "
            f"the limit is {limit}.",
            hint="use smaller sizes, or raise the limit with the environment variable "
            "TENSORAD_MAX_BYTES.",
        )
    return size_bytes


def bytes_text(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


class Lifetime:
    """When a temporary is first written and last used (positions of kernels)."""

    def __init__(self, tensor: Tensor, first: int) -> None:
        self.tensor = tensor
        self.first = first
        self.last = first


def plan_arena(lifetimes: Sequence[Lifetime], sizes: Mapping[Expr, int]) -> tuple[list[int], int]:
    """Offsets of temporaries that do not overlap while alive, and the bytes needed.

    First fit over the free gaps; `lifetimes` are in order of their first use.

    Raises:
        LimitError: one of them or all together exceed TENSORAD_MAX_BYTES.
    """
    offsets: list[int] = []
    taken: list[tuple[int, int, int]] = []  # (last use, offset, bytes)
    gaps: list[tuple[int, int]] = []  # (offset, bytes), by offset
    end = 0
    for life in lifetimes:
        while taken and taken[0][0] < life.first:
            _, offset, size_bytes = taken.pop(0)
            _free(gaps, offset, size_bytes)
        need = -(-bytes_of(life.tensor, sizes) // ALIGNMENT) * ALIGNMENT
        offset, end = _fit(gaps, need, end)
        offsets.append(offset)
        if need:
            insort(taken, (life.last, offset, need))
    limit = config.current().max_bytes
    if end > limit:
        raise LimitError(
            f"the temporaries of this call take {end} bytes together; the limit is {limit}.",
            hint="use smaller sizes, or raise the limit with the environment variable "
            "TENSORAD_MAX_BYTES.",
        )
    return offsets, end


def _fit(gaps: list[tuple[int, int]], need: int, end: int) -> tuple[int, int]:
    """Take `need` bytes from the first gap that has them, or from the end."""
    for n, (offset, size_bytes) in enumerate(gaps):
        if size_bytes >= need:
            if size_bytes == need:
                del gaps[n]
            else:
                gaps[n] = (offset + need, size_bytes - need)
            return offset, end
    if gaps and sum(gaps[-1]) == end:
        offset, _ = gaps.pop()
        return offset, offset + need
    return end, end + need


def _free(gaps: list[tuple[int, int]], offset: int, size_bytes: int) -> None:
    """Return bytes, joined with the gaps beside them."""
    insort(gaps, (offset, size_bytes))
    at = gaps.index((offset, size_bytes))
    if at + 1 < len(gaps) and offset + size_bytes == gaps[at + 1][0]:
        size_bytes += gaps.pop(at + 1)[1]
        gaps[at] = (offset, size_bytes)
    if at > 0 and sum(gaps[at - 1]) == offset:
        before, bytes_before = gaps[at - 1]
        gaps[at - 1 : at + 1] = [(before, bytes_before + size_bytes)]


def new_bytes(size_bytes: int) -> Array:
    """A block that owns at least this many bytes from its first aligned address on.

    Raises:
        LimitError: the system has not that much memory.
    """
    try:
        return np.empty(size_bytes + ALIGNMENT, np.uint8)
    except MemoryError as error:
        raise LimitError(
            f"the system gives no {size_bytes} bytes of memory.",
            hint="use smaller sizes, or lower TENSORAD_MAX_BYTES to be told earlier.",
        ) from error


def aligned(block: Array, size_bytes: int, alignment: int = ALIGNMENT) -> Array:
    """The bytes of a block from its first address that is a multiple of `alignment`."""
    start = -block.ctypes.data % alignment
    return block[start : start + size_bytes]


def scratch_block(size_bytes: int) -> Array:
    """Bytes for scratch memory; from half a large page on they start at a large page.

    Panels as large as the second cache then lie in it without gaps, and need one entry of the
    table of pages. NumPy asks for large pages, where there are some, for blocks of 4 MiB and more.
    """
    if size_bytes < LARGE_PAGE // 2:
        return aligned(new_bytes(size_bytes), size_bytes)
    block = new_bytes(max(size_bytes + LARGE_PAGE, 2 * LARGE_PAGE))
    return aligned(block, size_bytes, LARGE_PAGE)


_lock = threading.Lock()
"""Held while blocks are looked through; one for all, so that a forked child can have a new one."""


def _forget_threads() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_threads)


class Block:
    """Memory that one array at a time may have."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._memory = new_bytes(size_bytes).data
        self._lent: weakref.ref[Array] | None = None

    @property
    def is_free(self) -> bool:
        """Whether the array that had it last, and all views of it, are gone."""
        return self._lent is None or self._lent() is None

    def lend(self) -> Array:
        """Its bytes as an array that all views refer to: NumPy looks for the array that owns what
        they see, and finds this one, as a memoryview is no array."""
        lent = np.frombuffer(self._memory, np.uint8)
        self._lent = weakref.ref(lent)
        return aligned(lent, self.size_bytes)


class OutputBlocks:
    """Large arrays of one output, given out again when the caller has dropped them."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._blocks: list[Block] = []

    def array(self, shape: tuple[int, ...]) -> Array:
        """An uninitialised array; large ones reuse memory nobody refers to any more."""
        size_bytes = prod(shape) * self.dtype.itemsize
        if size_bytes < LARGE_BYTES:
            return np.empty(shape, self.dtype)
        with _lock:
            return self._block(size_bytes).lend().view(self.dtype).reshape(shape)

    def _block(self, size_bytes: int) -> Block:
        for block in self._blocks:
            if block.size_bytes == size_bytes and block.is_free:
                return block
        block = Block(size_bytes)
        if size_bytes * KEPT_BLOCKS <= KEPT_BYTES:
            self._blocks.append(block)
            del self._blocks[:-KEPT_BLOCKS]
        return block
