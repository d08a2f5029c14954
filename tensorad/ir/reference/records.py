"""Records as values of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tensorad.errors import DTypeError
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Record:
    """A value of a record type: its variant, and what its fields have."""

    dtype: RecordType
    tag: int
    values: tuple[Array, ...]

    def __repr__(self) -> str:
        variant = self.dtype.variants[self.tag]
        named = zip(variant.fields, self.values, strict=True)
        return f"{variant.name}({', '.join([f'{f.name}={v!r}' for f, v in named])})"


class Value:
    """A value of a record type as an object of a class of its own, which never changes.

    Attributes:
        record_type: the type; `tag` the number of the variant.
        leaves: what the fields have: numbers, arrays, values.
    """

    record_type: ClassVar[RecordType]
    tag: ClassVar[int]
    leaves: tuple[Any, ...]


def handle(record: Record | Value) -> Array:
    """The 0-d array that a tensor of handles has as its value."""
    made: Array = np.empty((), object)
    made[()] = record
    return made


Column = Array | list[Any]
"""One field of several records: an array with an element or part for each; or a list of the
records, or arrays of records, that the field has."""


class Maker(NamedTuple):
    """How objects for records of one variant are made.

    Attributes:
        new: makes one that has no fields yet.
        fill: gives fields to several of them.
    """

    new: Callable[[], Any]
    fill: Callable[[Sequence[Any], Sequence[Column]], None]


Makers = Callable[[RecordType], Sequence[Maker]]
"""For each variant of a type."""


def records(dtype: RecordType) -> list[Maker]:
    """What makes `Record`s."""

    def fill(tag: int, made: Sequence[Record], columns: Sequence[Column]) -> None:
        values = [[_array(c, k) for k in range(len(made))] for c in columns]
        rows = zip(*values, strict=True) if values else [()] * len(made)
        for r, own in zip(made, rows, strict=True):
            r.__dict__.update(dtype=dtype, tag=tag, values=own)

    return [Maker(partial(Record.__new__, Record), partial(fill, n)) for n in _tags(dtype)]


def _tags(dtype: RecordType) -> range:
    return range(len(dtype.variants))


def _array(column: Column, k: int) -> Array:
    """What one record has in a field."""
    if isinstance(column, np.ndarray):
        found: Array = column[k, ...]
        return found
    return column[k] if isinstance(column[k], np.ndarray) else handle(column[k])


def bound_record(t: Tensor, value: object) -> Array:
    """The value of a tensor of handles.

    Raises:
        DTypeError: it is no record of the tensor's type.
    """
    if isinstance(value, np.ndarray) and value.shape:
        return _bound_records(t, value)
    made = value.item() if isinstance(value, np.ndarray) else value
    made = made.as_record() if hasattr(made, "as_record") else made
    if not isinstance(made, Record) or made.dtype is not t.dtype:
        raise DTypeError(
            f"{t.name} of the data type {t.dtype} was given {type(made).__name__}.",
            hint=f"pass a value of {t.dtype}.",
        )
    return handle(made)


def _bound_records(t: Tensor, values: Array) -> Array:
    found = np.empty(values.shape, object)
    for where in np.ndindex(values.shape):
        found[where] = bound_record(t, values[where]).item()
    return found
