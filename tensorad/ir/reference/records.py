"""Records as values of the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


def handle(record: Record) -> Array:
    """The 0-d array that a tensor of handles has as its value."""
    made: Array = np.empty((), object)
    made[()] = record
    return made


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
