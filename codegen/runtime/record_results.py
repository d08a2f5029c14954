"""Calls with records: what they make, as values, out of native memory before it is free again."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tensorad import config
from tensorad.codegen.entry.checks_ir import READY
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.runtime.arena import Array, OutputBlocks
from tensorad.codegen.runtime.arguments import Parameter, addresses_of
from tensorad.codegen.runtime.executable import Executable, Layout
from tensorad.codegen.runtime.frames import Words
from tensorad.codegen.runtime.record_layout import WORD, Kind, kinds_of
from tensorad.codegen.runtime.record_values import RecordParameter, Stored, encoded
from tensorad.collector import old_objects_at_rest
from tensorad.errors import InternalError
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.records import RecordType, is_record
from tensorad.ir.reference.records import Column, Makers, Record, Value, handle, records
from tensorad.ir.tensor import Tensor

Handles = tuple[Array, RecordType]
"""Addresses of records, and their type."""
CallBlock = ctypes.Array[ctypes.c_int64]


def decoded(
    outputs: Sequence[tuple[Array, DType]], call: CallBlock, given: Sequence[Stored],
    sizes: Mapping[Expr, int], makers: Makers = records,
) -> list[Array]:  # fmt: skip
    """Arrays of records for arrays of addresses, each record once.

    Args:
        call: the block of the call that made them.
        given: where what it was given lies: these records are themselves.
        makers: what makes objects of a type's variants.
    """
    reading = _Reading(_chunks(call[block.RECORDS]), _Given(given), sizes, makers)
    pairs = [(array, dtype) for array, dtype in outputs if isinstance(dtype, RecordType)]
    with old_objects_at_rest():  # none of the new ones is garbage
        reading.reach([(int(a), dtype) for array, dtype in pairs for a in array.flat])
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
    """All that the call has filled."""
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

    def find(self, address: int) -> Record | Value:
        """The record that lies there."""
        n = bisect_right(self._starts, address) - 1
        if n < 0 or address >= self._parts[n].end:
            raise InternalError(f"no record lies at {address:#x}")
        return self._parts[n].at(address)


class _Row(NamedTuple):
    """New records of one variant in a chunk.

    Attributes:
        links: offsets in words, numbers of elements and types of fields that have handles.
        addresses: in the order in which they are found.
    """

    kind: Kind
    links: Sequence[tuple[int, int, RecordType]]
    addresses: list[int]


class _Reading:
    """Records on their way out of native memory."""

    def __init__(
        self, chunks: Sequence[_Chunk], given: _Given, sizes: Mapping[Expr, int], makers: Makers
    ) -> None:
        self.chunks = sorted(chunks, key=lambda c: c.first)
        self.starts = [c.first for c in self.chunks]
        self.given = given
        self.sizes = sizes
        self.makers = makers
        self.rows: dict[tuple[_Chunk, RecordType], list[_Row]] = {}
        self.made: dict[int, Any] = {}

    def chunk_of(self, address: int) -> _Chunk | None:
        """The chunk in which a record lies, if it is a new one."""
        n = bisect_right(self.starts, address) - 1
        return self.chunks[n] if n >= 0 and address < self.chunks[n].end else None

    def rows_in(self, chunk: _Chunk, dtype: RecordType) -> list[_Row]:
        """Rows for records of a type, by variant."""
        found = self.rows.get((chunk, dtype))
        if found is None:
            kinds = kinds_of(dtype, self.sizes)
            found = self.rows[chunk, dtype] = [_Row(kind, _links(kind), []) for kind in kinds]
        return found

    def reach(self, stack: list[tuple[int, RecordType]]) -> None:
        """Find all records that are new, and what they are."""
        made = self.made
        chunk: _Chunk | None = None
        first = end = 0
        words = memoryview(b"")
        known: dict[RecordType, list[_Row]] = {}
        while stack:
            address, dtype = stack.pop()
            if address in made:
                continue
            if not first <= address < end:
                chunk = self.chunk_of(address)
                if chunk is None:
                    made[address] = self.given.find(address)
                    first = end = 0
                    continue
                first, end, words, known = chunk.first, chunk.end, chunk.words, {}
            made[address] = None
            rows = known.get(dtype)
            if rows is None:
                assert chunk is not None, "the address lies in it"
                rows = known[dtype] = self.rows_in(chunk, dtype)
            at = (address - first) >> 3
            _, links, addresses = rows[words[at]]
            addresses.append(address)
            for offset, count, inner in links:
                begin = at + offset
                if count == 1:
                    stack.append((words[begin], inner))
                else:
                    stack += [(a, inner) for a in words[begin : begin + count]]

    def make(self) -> None:
        """Make the records: all of them before any has its fields."""
        found = []
        for (chunk, _), rows in self.rows.items():
            for row in rows:
                maker = self.makers(row.kind.dtype)[row.kind.tag]
                records = [maker.new() for _ in row.addresses]
                self.made.update(zip(row.addresses, records, strict=True))
                found.append((chunk, row, maker, records))
        for chunk, row, maker, records in found:
            if records:
                maker.fill(records, self.columns(row.kind, row.addresses, chunk))

    def columns(self, kind: Kind, addresses: Sequence[int], chunk: _Chunk) -> list[Column]:
        """What the records have, field by field."""
        where = np.array(addresses, np.int64)
        found: list[Column] = []
        for s in kind.slots:
            column = chunk.column(where, s.offset, s.dtype, prod(s.shape))
            if not s.has_records:
                found.append(column.reshape(len(addresses), *s.shape))
            elif s.shape:
                found.append([self.objects(a) for a in column.reshape(len(addresses), *s.shape)])
            else:
                found.append(list(map(self.made.__getitem__, column[:, 0].tolist())))
        return found

    def objects(self, addresses: Array) -> Array:
        """Records for addresses."""
        found = np.empty(addresses.shape, object)
        for where in np.ndindex(addresses.shape):
            found[where] = self.made[int(addresses[where])]
        return found


def _links(kind: Kind) -> list[tuple[int, int, RecordType]]:
    """Where handles lie in a record."""
    own = [(s.field.dtype, s) for s in kind.slots]
    return [(s.offset // WORD, prod(s.shape), d) for d, s in own if isinstance(d, RecordType)]


class RecordCalls:
    """The calls of one function."""

    def __init__(
        self,
        executable: Executable,
        parameters: Sequence[Parameter],
        outputs: Sequence[Tensor],
        blocks: Sequence[OutputBlocks],
    ) -> None:
        self._executable = executable
        self._parameters = parameters
        self._has_records = [isinstance(p, RecordParameter) for p in parameters]
        self._types = [t.dtype for t in outputs]
        self._blocks = blocks
        self._handles = [n for n, d in enumerate(self._types) if is_record(d)]

    def ready(self, values: Sequence[Any]) -> list[Array] | None:
        """The arguments as `Parameter.accepted` has them, where a look at each tells that native
        code may have it as it is; the shapes of all have to be numbers."""
        found: list[Array] = []
        for p, v in zip(self._parameters, values, strict=True):
            if isinstance(v, Value):
                if v.record_type is not p.tensor.dtype or p.shape:
                    return None
                found.append(handle(v))
                continue
            if type(v) is not np.ndarray or v.dtype is not p.dtype or v.shape != p.shape:
                return None
            if p.is_bool or v.flags.num & READY != READY:
                return None
            found.append(v)
        return found

    def run(
        self,
        layout: Layout,
        arrays: Sequence[Array],
        shapes: Sequence[tuple[int, ...]],
        then: int,
        makers: Makers,
    ) -> list[Array]:
        """The results, records being made by `makers`.

        Args:
            arrays: accepted ones; `shapes` those of the results.
            then: the version of the settings.
        Raises:
            ShapeError, DTypeError, BindError, LimitError, BoundsError: see `encoded` and
                `Executable.run`.
        """
        numbers, limit = layout.numbers, config.current().max_bytes
        given: list[Stored] = []
        inputs = []
        kept = []
        for p, a, has_records in zip(self._parameters, arrays, self._has_records, strict=True):
            if has_records:
                made = encoded(a, numbers, limit)
                given += made.parts
                kept.append(made)
                inputs.append(made.handles)
            else:
                inputs.append(p.fitted(a))
        found: list[Array] = [b.array(s) for b, s in zip(self._blocks, shapes, strict=True)]

        def read(call: Words) -> None:
            wanted = [(found[n], self._types[n]) for n in self._handles]
            made = decoded(wanted, call, given, numbers, makers)
            for n, a in zip(self._handles, made, strict=True):
                found[n] = a

        addresses = addresses_of((*inputs, *found))
        self._executable.run(layout, addresses, then, read if self._handles else None)
        return found
