"""How a record lies in memory: its variant's number, then its fields; and records in rows.

A field of which only the run tells how large it is lies elsewhere: the record has its address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.codegen.loops.scratch import ALIGNMENT, buffer
from tensorad.errors import BindError, DTypeError
from tensorad.ir.analysis.sizes import bytes_of, fixed_bytes, shape_values
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Field, RecordType, Variant, is_record
from tensorad.ir.reference.records import Record, Value
from tensorad.ir.tensor import Tensor, dim_expr

WORD: Final = 8
"""Bytes of a handle, of the variant's number, and what small fields are aligned to."""


class RecordPart(NamedTuple):
    """A number of bytes: from a record to one of its fields, or, without a number, of all of it."""

    variant: Variant
    number: int | None = None


class RecordLayout(NamedTuple):
    """Offsets of fields, and bytes of the record."""

    offsets: tuple[int, ...]
    size_bytes: int


def layout_of(variant: Variant, sizes: Mapping[Expr, int]) -> RecordLayout:
    """Where the fields lie at these sizes.

    Raises:
        LimitError: a field is larger than TENSORAD_MAX_BYTES.
    """
    end = WORD
    offsets = []
    for f in variant.fields:
        step = _alignment(f)
        offsets.append(-(-end // step) * step)
        end = offsets[-1] + (WORD if lies_apart(f) else bytes_of(field_tensor(f), sizes))
    step = alignment_of(variant)
    return RecordLayout(tuple(offsets), -(-end // step) * step)


class Slot(NamedTuple):
    """A field of records that lie in memory one after the other.

    Attributes:
        dtype: of its elements there.
        strides: in bytes, the first one from record to record.
        has_records: whether they are handles.
    """

    field: Field
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    has_records: bool


class Kind(NamedTuple):
    """A variant of a record type, and how its records lie in memory at some sizes."""

    dtype: RecordType
    tag: int
    variant: Variant
    size_bytes: int
    alignment: int
    slots: tuple[Slot, ...]


HANDLE: Final[np.dtype[Any]] = np.dtype(np.int64)
"""What the elements of a tensor of handles are in native memory: addresses."""


def native_dtype(dtype: DType) -> np.dtype[Any]:
    """The elements of a tensor as native code has them."""
    return HANDLE if is_record(dtype) else np.dtype(str(dtype))


def kinds_of(dtype: RecordType, sizes: Mapping[Expr, int]) -> list[Kind]:
    """The variants of a type at these sizes; they are remembered where they have none."""
    known: list[Kind] | None = dtype.derived.get("kinds")
    if known is not None:
        return known
    made = []
    for tag, v in enumerate(dtype.variants):
        offsets, size_bytes = layout_of(v, sizes)
        slots = []
        for f, offset in zip(v.fields, offsets, strict=True):
            shape, native = shape_values(f.shape, sizes), native_dtype(f.dtype)
            inner = np.ndarray(shape, native).strides if shape else ()
            strides = (size_bytes, *inner)
            slots.append(Slot(f, offset, shape, native, strides, is_record(f.dtype)))
        made.append(Kind(dtype, tag, v, size_bytes, alignment_of(v), tuple(slots)))
    extents = [n for v in dtype.variants for f in v.fields for n in f.shape]
    if all(isinstance(n, int) for n in extents):
        dtype.derived["kinds"] = made
    return made


def value_of(part: RecordPart, sizes: Mapping[Expr, int]) -> int:
    """The bytes at these sizes."""
    offsets, size_bytes = layout_of(part.variant, sizes)
    return size_bytes if part.number is None else offsets[part.number]


def alignment_of(variant: Variant) -> int:
    """What the address of a record is a multiple of."""
    return max([WORD, *[_alignment(f) for f in variant.fields]])


def lies_apart(f: Field) -> bool:
    """Whether only the run tells how large a field is."""
    return any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, f.shape)))


def _alignment(f: Field) -> int:
    """Arrays begin at a cache line if they may fill one."""
    if lies_apart(f):
        return WORD
    known = fixed_bytes(field_tensor(f))
    return ALIGNMENT if known is None or known >= ALIGNMENT else WORD


def field_tensor(f: Field) -> Tensor:
    """A tensor of the field's shape and dtype."""
    return buffer(f.name, f.shape, f.dtype)


# -- all records that values are made of, each once, in rows of one variant ------------------------

Inner = Callable[[Any], Sequence[Any]]
"""The values in the fields of a value."""
_leaves: Final[Inner] = attrgetter("leaves")
_values: Final[Inner] = attrgetter("values")


class Rows(NamedTuple):
    """Records of one variant in the order in which they are met.

    Attributes:
        records: all `Value`s of one class, or all `Record`s, whose fields are arrays.
        inner: None: no field has a value.
    """

    kind: Kind
    records: list[Any]
    inner: Inner | None

    @property
    def are_values(self) -> bool:
        """Whether fields without axes have numbers and values as they are."""
        return not isinstance(self.records[0], Record)

    def columns(self) -> list[tuple[Any, ...]]:
        """What the records have, field by field."""
        fields = map(_leaves if self.are_values else _values, self.records)
        return list(zip(*fields, strict=True))


ROW_BITS: Final = 40
"""A record has the number of its rows, shifted by these, and the bytes before it in them."""


class Reached(NamedTuple):
    """All records behind some, each once.

    Attributes:
        rows: the first record is the first of the roots.
        places: of records, by the number of the object.
    """

    rows: list[Rows]
    places: dict[int, int]


def reached(roots: Iterable[Any], sizes: Mapping[Expr, int]) -> Reached:
    """All records behind some.

    Raises:
        DTypeError: a field that should be a record is none.
        BindError: a value is a part of itself.
    """
    found: dict[object, tuple[Rows, _Way]] = {}
    known: dict[type, _Way] = {}
    places: dict[int, int] = {}
    is_shared = False
    stack = list(roots)[::-1]
    while stack:
        at = stack.pop()
        key = id(at)
        if key in places:
            is_shared = True
            continue
        way = known.get(type(at))
        if way is None:
            way = _way_for(at, found, sizes)
            if not isinstance(at, Record):
                known[type(at)] = way
        place, append, inner = way
        places[key] = place()
        append(at)
        if inner is not None:
            stack += inner(at)
    every = [rows for rows, _ in found.values()]
    if is_shared:
        _check_finite(every)
    return Reached(every, places)


class _Way(NamedTuple):
    """What happens to a record of some rows."""

    place: Callable[[], int]
    append: Callable[[Any], None]
    inner: Inner | None


def _way_for(at: object, found: dict[object, tuple[Rows, _Way]], sizes: Mapping[Expr, int]) -> _Way:
    """What happens to a record, which may be the first of its rows."""
    key: object
    if isinstance(at, Record):
        key, dtype, tag = (at.dtype, at.tag), at.dtype, at.tag
    elif isinstance(at, Value):
        key, dtype, tag = type(at), at.record_type, at.tag
    else:
        raise DTypeError(
            f"a field that is a record has {type(at).__name__}.",
            hint="pass values whose fields have their declared dtypes.",
        )
    if key not in found:
        kind = kinds_of(dtype, sizes)[tag]
        inner = _of_record(kind.slots) if isinstance(at, Record) else _of_value(kind.slots)
        rows = Rows(kind, [], inner)
        place = count(len(found) << ROW_BITS, kind.size_bytes).__next__
        found[key] = rows, _Way(place, rows.records.append, inner)
    return found[key][1]


def _of_value(slots: Sequence[Slot]) -> Inner | None:
    """What gives the values among leaves."""
    places = [k for k, s in enumerate(slots) if s.has_records]
    if not places:
        return None
    first, end = places[0], places[-1] + 1
    if len(places) == len(slots):
        return _leaves
    if len(places) == end - first:
        return lambda v: v.leaves[first:end]
    return lambda v: [v.leaves[k] for k in places]


def _of_record(slots: Sequence[Slot]) -> Inner | None:
    """What gives the records in arrays of handles."""
    parts = [(k, not s.shape) for k, s in enumerate(slots) if s.has_records]

    def inner(r: Record) -> list[Any]:
        found: list[Any] = []
        for k, single in parts:
            found += [r.values[k].item()] if single else r.values[k].flat
        return found

    return inner if parts else None


def _check_finite(every: Sequence[Rows]) -> None:
    """No record is a part of itself.

    Raises:
        BindError: one is.
    """
    inner = {id(r): rows.inner(r) if rows.inner else () for rows in every for r in rows.records}
    holders = dict.fromkeys(inner, 0)
    for parts in inner.values():
        for v in parts:
            holders[id(v)] += 1
    stack = [key for key, count in holders.items() if not count]
    done = 0
    while stack:
        done += 1
        for v in inner[stack.pop()]:
            holders[id(v)] -= 1
            if not holders[id(v)]:
                stack.append(id(v))
    if done < len(inner):
        dtype: RecordType = every[0].kind.dtype
        raise BindError(
            f"a value of {dtype} is a part of itself.",
            hint="make other values instead of changing what a value has.",
        )
