"""How a record lies in memory: its variant's number, then its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.codegen.loops.scratch import ALIGNMENT, buffer
from tensorad.ir.analysis.sizes import bytes_of, fixed_bytes, shape_values
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, Variant, is_record
from tensorad.ir.tensor import Tensor

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
        end = offsets[-1] + bytes_of(field_tensor(f), sizes)
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


def _alignment(f: Field) -> int:
    """Arrays begin at a cache line if they may fill one."""
    known = fixed_bytes(field_tensor(f))
    return ALIGNMENT if known is None or known >= ALIGNMENT else WORD


def field_tensor(f: Field) -> Tensor:
    """A tensor of the field's shape and dtype."""
    return buffer(f.name, f.shape, f.dtype)
