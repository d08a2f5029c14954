"""Values of record types where a call begins and ends: into native memory, and out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tensorad.codegen.runtime.arena import Array, aligned, new_bytes
from tensorad.codegen.runtime.arguments import Parameter, addresses_of
from tensorad.codegen.runtime.record_layout import (
    HANDLE,
    ROW_BITS,
    Reached,
    Rows,
    Slot,
    reached,
)
from tensorad.errors import BindError, DTypeError, LimitError, ShapeError
from tensorad.ir.analysis.sizes import bytes_text, shape_values
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, Variant, is_record
from tensorad.ir.reference.records import Record, Value, handle
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.process import memo


class Stored(NamedTuple):
    """Records of one variant in a row."""

    first: int
    size_bytes: int
    records: Sequence[Record | Value | None]
    root: Record | Value | None = None
    """The first one, if it is None among the records."""

    @property
    def end(self) -> int:
        """Where the bytes of the last one end."""
        return self.first + len(self.records) * self.size_bytes

    def at(self, address: int) -> Record | Value:
        """The record that lies there."""
        found = self.records[(address - self.first) // self.size_bytes] or self.root
        assert found is not None, "the first record is the root"
        return found


class Encoded(NamedTuple):
    """Records in native memory: the handles asked for, and where which records are."""

    handles: Array
    parts: tuple[Stored, ...]
    memory: Array


class RecordParameter(Parameter):
    """An argument that is a record, or an array of them."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.name = tensor.name
        self.dtype = HANDLE
        self.is_bool = False
        known = all(isinstance(n, int) for n in tensor.shape)
        self.shape = shape_values(tensor.shape, {}) if known else None

    def accepted(self, value: object) -> Array:
        """The records as an array of objects.

        Raises:
            DTypeError: one is no record of the tensor's type. ShapeError: the rank is wrong.
        """
        found = handle(value) if isinstance(value, (Record, Value)) else value
        if not isinstance(found, np.ndarray) or found.dtype != object:
            raise self._no_record(value)
        for r in found.flat:
            if _type_of(r) is not self.tensor.dtype:
                raise self._no_record(r)
        if found.ndim != self.tensor.ndim:
            raise self._wrong_shape(found)
        return found

    def is_ready(self, array: Array) -> bool:
        """Whether native code can read the array as it is."""
        return False

    def fitted(self, array: Array) -> Array:
        """Itself: `encoded` says where records lie, once sizes are known."""
        return array

    def _no_record(self, value: object) -> DTypeError:
        return DTypeError(
            f"argument {self.name} must be a value of {self.tensor.dtype}, got "
            f"{_type_of(value) or type(value).__name__}.",
            where=self.text,
            hint=f"pass a value of {self.tensor.dtype}.",
        )


def _type_of(value: object) -> RecordType | None:
    if isinstance(value, Record):
        return value.dtype
    return value.record_type if isinstance(value, Value) else None


def encoded(values: Array, sizes: Mapping[Expr, int], limit: int) -> Encoded:
    """Records, and all that they are made of, in native memory: each once.

    The memory of a single value that is made of numbers and values alone is kept as long as it:
    arrays may be written to, read-only ones through views that were there before.

    Raises:
        ShapeError, DTypeError: a value is none of its field. BindError: one is a part of itself.
        LimitError: it takes too much memory.
    """
    root = values.item() if values.ndim == 0 else None
    known = None if root is None else _kept.get(root)
    if known is not None:
        first, *others = known.parts
        return known._replace(parts=(first._replace(root=root), *others))
    encoding = _Encoding(reached(values.flat, sizes), limit)
    made = encoding.run(values)
    if root is not None and encoding.is_fixed:
        first, *others = made.parts
        alone = first._replace(records=(None, *first.records[1:]))
        _kept[root] = made._replace(parts=(alone, *others))
    return made


_kept: WeakKeyDictionary[Record | Value, Encoded] = memo(WeakKeyDictionary())
"""By root, which what is kept of it does not hold. Where there are no arrays, sizes have no say."""

_FIXED: Final = (int, float, np.generic, Value)
"""What stays what it is."""


class _Encoding:
    """Records on their way into native memory."""

    def __init__(self, found: Reached, limit: int) -> None:
        """Find a place for each."""
        every, self.places = found
        self.every = every
        self.is_fixed = True
        """Whether nothing that was seen can change."""
        offsets = []
        end = 0
        for rows in every:
            step = rows.kind.alignment
            offsets.append(-(-end // step) * step)
            end = offsets[-1] + len(rows.records) * rows.kind.size_bytes
        if end > limit:
            raise LimitError(
                f"a value of {every[0].kind.dtype} takes {bytes_text(end)} together with all that "
                f"it is made of; the limit is {bytes_text(limit)}.",
                hint="use smaller values, or raise the limit with the environment variable "
                "TENSORAD_MAX_BYTES.",
            )
        self.memory = aligned(new_bytes(end), end)
        self.offsets = offsets
        (address,) = addresses_of([self.memory])
        self.first = np.array(offsets) + address
        self.moved = self.first - (np.arange(len(every)) << ROW_BITS)
        """What is added to the place of a record in some rows to have its address."""

    def run(self, values: Array) -> Encoded:
        """All of them stored, and the handles of some."""
        for rows, offset in zip(self.every, self.offsets, strict=True):
            self.store(rows, offset)
        handles = self.handles(values.flat, values.size) if values.ndim else self.first[:1].copy()
        pairs = zip(self.first.tolist(), self.every, strict=True)
        parts = [Stored(a, rows.kind.size_bytes, rows.records) for a, rows in pairs]
        return Encoded(handles.reshape(values.shape), tuple(parts), self.memory)

    def handles(self, records: Iterable[Any], count: int) -> Array:
        """The addresses of records."""
        places = np.fromiter(map(self.places.__getitem__, map(id, records)), np.int64, count)
        found: Array = self.moved[places >> ROW_BITS] + places
        return found

    def store(self, rows: Rows, first: int) -> None:
        """All records of one variant, field by field."""
        count, kind = len(rows.records), rows.kind
        memory = self.memory.data

        def store(s: Slot, values: Array) -> None:
            place = np.ndarray((count, *s.shape), s.dtype, memory, first + s.offset, s.strides)
            place[...] = values

        tags: Array = np.ndarray(count, HANDLE, memory, first, kind.size_bytes)
        tags[...] = kind.tag
        inner: list[Sequence[Any]] = []
        handles: list[Slot] = []
        for slot, values in zip(kind.slots, rows.columns(), strict=True):
            self.is_fixed &= all(issubclass(c, _FIXED) for c in set(map(type, values)))
            if 0 in slot.shape:
                continue
            if slot.has_records:
                handles.append(slot)
                inner.append(_children(kind.variant, slot, values, rows.are_values))
            else:
                store(slot, self.numbers(kind.variant, slot, values, rows.are_values))
        if handles:
            found = self.handles(chain(*inner), sum(map(len, inner)))
            begin = 0
            for slot in handles:
                end = begin + count * prod(slot.shape)
                store(slot, found[begin:end].reshape(count, *slot.shape))
                begin = end

    def numbers(
        self, variant: Variant, slot: Slot, values: Sequence[Any], are_values: bool
    ) -> Array:
        """The values of one field of several records.

        Raises:
            ShapeError, DTypeError: a value is none of the field.
        """
        if not are_values or slot.shape:
            return _together(variant, slot, values)
        found = np.array(values, slot.dtype)  # each was looked at when it was made
        if found.ndim > 1:
            _check_shapes(variant, slot, values)
        return found


def _children(
    variant: Variant, slot: Slot, values: Sequence[Any], are_values: bool
) -> Sequence[Any]:
    """The records in one field of several records."""
    children = values
    if not are_values:
        _check_shapes(variant, slot, values)
        single = not slot.shape
        children = [v.item() for v in values] if single else [r for v in values for r in v.flat]
    classes: set[Any] = set(map(type, children))
    given = [r.dtype for r in children if type(r) is Record] if Record in classes else []
    given += [c.record_type for c in classes if c is not Record]
    for dtype in given:
        if dtype is not slot.field.dtype:
            raise _unfit(variant, slot.field, f"a value of {dtype}")
    return children


def _together(variant: Variant, slot: Slot, values: Sequence[Array]) -> Array:
    """The values of one field of several records.

    Raises:
        ShapeError, DTypeError: a value is none of the field.
    """
    _check_shapes(variant, slot, values)
    found = np.array(values)
    f, target = slot.field, slot.dtype
    if found.dtype.kind == "f" and f.dtype.is_float:
        return found  # what the interpreter has of any float
    if not np.can_cast(found.dtype, target, "same_kind"):
        raise _unfit(variant, f, f"{found.dtype} elements")
    made = found.astype(target)
    if made.dtype.kind in "iu" and not np.array_equal(made, found):
        raise _unfit(variant, f, f"{found.dtype} elements that do not fit")
    return made


def _check_shapes(variant: Variant, slot: Slot, values: Sequence[Array]) -> None:
    wrong = next((v for v in values if np.shape(v) != slot.shape), None)
    if wrong is not None:
        f = slot.field
        raise ShapeError(
            f"the field {f.name} of {variant.name} has the shape {np.shape(wrong)}, expected "
            f"{slot.shape}.",
            where=_declared(variant, f),
            hint="pass values whose fields have their declared shapes.",
        )


def _declared(variant: Variant, f: Field) -> str:
    return f"{variant.name}.{f.name} : {f.dtype} {format_shape(f.shape)}"


def _unfit(variant: Variant, f: Field, what: str) -> DTypeError:
    return DTypeError(
        f"the field {f.name} of {variant.name} has {what}, expected {f.dtype}.",
        where=_declared(variant, f),
        hint="pass values whose fields have their declared dtypes.",
    )


def refuse_out(out: object, outputs: Sequence[Tensor]) -> None:
    """Results that are records are made by the call.

    Raises:
        BindError: they were to be stored somewhere.
    """
    records = [t for t in outputs if is_record(t.dtype)]
    if out is not None and records:
        raise BindError(
            f"out cannot take the result {records[0].name}, which is a value of "
            f"{records[0].dtype}.",
            hint="leave out= away: the result is made by the call.",
        )
