"""Records that a call makes, as values: out of native memory before it is free again."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.record_layout import WORD, layout_of
from tensorad.codegen.runtime.record_values import Kind, Stored, native_dtype
from tensorad.errors import InternalError
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, is_record
from tensorad.ir.reference.records import Record, handle

Handles = tuple[Array, RecordType]
"""Addresses of records, and their type."""
CallBlock = ctypes.Array[ctypes.c_int64]


def decoded(
    outputs: Sequence[tuple[Array, DType]], call: CallBlock, given: Sequence[Stored],
    sizes: Mapping[Expr, int],
) -> list[Array]:  # fmt: skip
    """Arrays of records for arrays of addresses, each record once.

    Args:
        call: the block of the call that made them.
        given: where what it was given lies: these records are themselves.
    """
    reading = _Reading(_chunks(call[block.RECORDS]), _Given(given), sizes)
    reading.reach([(int(a), dtype) for array, dtype in outputs for a in array.flat])
    reading.make()
    return [reading.objects(array) for array, _ in outputs]


class _Chunk:
    """A stretch of the call's memory of records."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.first, self.end = address, address + size_bytes
        raw = (ctypes.c_char * size_bytes).from_address(address)
        self.bytes = memoryview(raw).cast("B")
        self.words = self.bytes.cast("q")

    def column(self, addresses: Array, offset: int, dtype: np.dtype[Any], count: int) -> Array:
        """So many elements behind each address, not of the call's memory any more."""
        elements = np.frombuffer(self.bytes, dtype, (self.end - self.first) // dtype.itemsize)
        first = (addresses + (offset - self.first)) // dtype.itemsize
        found: Array = elements[first[:, None] + np.arange(count)]
        return found


def _chunks(first: int) -> list[_Chunk]:
    """In the order in which they are filled: what a record holds is older than itself."""
    found = []
    while first:
        head = (ctypes.c_int64 * 2).from_address(first)
        size_bytes = head[block.CHUNK_BYTES]
        found.append(_Chunk(first, size_bytes // WORD * WORD))
        first = head[block.NEXT_CHUNK]
    return found


class _Given:
    """Records that the call was given, by their addresses."""

    def __init__(self, parts: Sequence[Stored]) -> None:
        by_start = {p.first: p for p in parts}
        self._starts = sorted(by_start)
        self._parts = [by_start[s] for s in self._starts]

    def find(self, address: int) -> Record | None:
        """The record that lies there, if it was given."""
        n = bisect_right(self._starts, address) - 1
        if n < 0 or address >= self._parts[n].end:
            return None
        return self._parts[n].at(address)


class _Part(NamedTuple):
    """A field: where it is in a record, and what it has."""

    offset: int
    dtype: DType
    native: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))


class _Reading:
    """Records on their way out of native memory."""

    def __init__(self, chunks: Sequence[_Chunk], given: _Given, sizes: Mapping[Expr, int]) -> None:
        self.chunks = chunks
        self.by_start = sorted(range(len(chunks)), key=lambda n: chunks[n].first)
        self.starts = [chunks[n].first for n in self.by_start]
        self.given = given
        self.sizes = sizes
        self.parts: dict[Kind, list[_Part]] = {}
        self.found: dict[int, Kind] = {}
        self.made: dict[int, Record] = {}

    def chunk_of(self, address: int) -> int:
        """The number of the chunk in which a record lies."""
        n = bisect_right(self.starts, address) - 1
        if n < 0 or address >= self.chunks[self.by_start[n]].end:
            raise InternalError(f"no record lies at {address:#x}")
        return self.by_start[n]

    def reach(self, stack: list[tuple[int, DType]]) -> None:
        """Find all records that are new, and what they are."""
        found, made = self.found, self.made
        links: dict[Kind, list[tuple[int, int, DType]]] = {}
        while stack:
            address, dtype = stack.pop()
            if address in found or address in made:
                continue
            known = self.given.find(address)
            if known is not None:
                made[address] = known
                continue
            assert isinstance(dtype, RecordType), "only handles are followed"
            chunk = self.chunks[self.chunk_of(address)]
            at = (address - chunk.first) // WORD
            kind = (dtype, chunk.words[at])
            if kind not in links:
                parts = [p for p in self.parts_of(kind) if is_record(p.dtype)]
                links[kind] = [(p.offset // WORD, p.elements, p.dtype) for p in parts]
            found[address] = kind
            for offset, count, inner in links[kind]:
                begin = at + offset
                stack += [(a, inner) for a in chunk.words[begin : begin + count]]

    def parts_of(self, kind: Kind) -> list[_Part]:
        """The fields of a variant."""
        if kind not in self.parts:
            variant = kind[0].variants[kind[1]]
            offsets = layout_of(variant, self.sizes).offsets
            self.parts[kind] = [
                self.part(f, offset) for f, offset in zip(variant.fields, offsets, strict=True)
            ]
        return self.parts[kind]

    def part(self, f: Field, offset: int) -> _Part:
        return _Part(offset, f.dtype, native_dtype(f.dtype), shape_values(f.shape, self.sizes))

    def make(self) -> None:
        """Make the records, those first that others hold."""
        by_chunk: dict[int, list[int]] = {}
        for address in self.found:
            by_chunk.setdefault(self.chunk_of(address), []).append(address)
        for n in sorted(by_chunk):
            addresses = sorted(by_chunk[n])
            by_kind: dict[Kind, list[int]] = {}
            for a in addresses:
                by_kind.setdefault(self.found[a], []).append(a)
            rows = {kind: self.rows(kind, own, self.chunks[n]) for kind, own in by_kind.items()}
            for a in addresses:
                kind = self.found[a]
                self.made[a] = Record(*kind, tuple([take() for take in rows[kind]]))

    def rows(
        self, kind: Kind, addresses: Sequence[int], chunk: _Chunk
    ) -> list[Callable[[], Array]]:
        """For each field what gives its values, record after record."""
        where = np.array(addresses, np.int64)
        found: list[Callable[[], Array]] = []
        for p in self.parts_of(kind):
            column = chunk.column(where, p.offset, p.native, p.elements)
            values = iter(column.reshape(len(addresses), *p.shape)) if p.shape else None
            if is_record(p.dtype):
                found.append(self.children(column, p.shape))
            elif values is not None:
                found.append(values.__next__)
            else:
                found.append(iter([column[k, 0, ...] for k in range(len(addresses))]).__next__)
        return found

    def children(self, column: Array, shape: tuple[int, ...]) -> Callable[[], Array]:
        """What gives the records in a field, which are made when they are asked for."""
        if not shape:
            made, single = self.made, iter(column[:, 0].tolist())
            return lambda: handle(made[next(single)])
        several = iter(column.reshape(len(column), *shape))
        return lambda: self.objects(next(several))

    def objects(self, addresses: Array) -> Array:
        """Records for addresses."""
        found = np.empty(addresses.shape, object)
        for where in np.ndindex(addresses.shape):
            found[where] = self.made[int(addresses[where])]
        return found
