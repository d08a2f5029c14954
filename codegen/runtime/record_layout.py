"""How a record lies in memory: its variant's number, then its fields.

A field of which only the run tells how large it is lies elsewhere: the record has its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tensorad.codegen.loops.scratch import ALIGNMENT, buffer
from tensorad.ir.analysis.sizes import bytes_of, fixed_bytes
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Field, Variant
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
