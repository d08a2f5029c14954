"""Where arrays of a call live: sizes in numbers, one arena for temporaries, kept large outputs."""

from __future__ import annotations

import weakref
from bisect import insort
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorad import config
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.errors import LimitError
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.process import Guard

Array = np.ndarray[Any, np.dtype[Any]]
LARGE_BYTES: Final = 1 << 21
"""Outputs from this size on come from kept blocks: fresh pages are 3 to 11 times slower."""
KEPT_BLOCKS: Final = 3
KEPT_BYTES: Final = 1 << 30


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


def aligned(block: Array, size_bytes: int) -> Array:
    """The bytes of a block from its first address that is a multiple of `ALIGNMENT`."""
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size_bytes]


_guard = Guard()
"""Held while blocks are looked through; one for all, so that a forked child can have a new one."""


class _Keeper:
    """Keeps memory for an array, and shows it to nobody else."""

    __slots__ = ("__array_interface__", "_memory")
    __array_interface__: Mapping[str, Any]
    _memory: Array


def _kept(memory: Array) -> Array:
    """The memory as an array, by a keeper that shows it this once."""
    keeper = _Keeper()
    keeper._memory = memory
    keeper.__array_interface__ = memory.__array_interface__
    made = np.asarray(keeper)
    del keeper.__array_interface__
    return made


class Block:
    """Memory that one array at a time may have.

    Whoever sees it has that array: views and buffers of views refer to it, and what it refers to
    shows no memory. So nobody sees the memory when a weak reference to the array is dead, which
    Python promises of one when the last reference is gone and not before. (The collector of cycles
    may clear those to what it looks through earlier; arrays of numbers are not among that.)
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._memory = new_bytes(size_bytes)
        self._lent: weakref.ref[Array] | None = None

    @property
    def is_free(self) -> bool:
        """Whether the array that had it last, and all views of it, are gone."""
        return self._lent is None or self._lent() is None

    def lend(self) -> Array:
        """Its bytes as an array that all views refer to: NumPy looks for the array that owns what
        they see, and finds this one, as a keeper is no array."""
        lent = _kept(self._memory)
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
        with _guard.lock:
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
