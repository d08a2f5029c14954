"""Data types for tests of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.records import Field, RecordType, Variant, inject
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Tensor

List: Final = RecordType("List")
"""Nil, or Cons(head, tail) of float64 numbers."""
List.complete(
    [Variant("Nil", ()), Variant("Cons", (Field("head", (), FLOAT64), Field("tail", (), List)))]
)


def list_of(values: Sequence[float]) -> Record:
    """A list as the interpreter has it."""
    made = Record(List, 0, ())
    for v in reversed(values):
        made = Record(List, 1, (np.array(v, np.float64), handle(made)))
    return made


def cons_list(values: Sequence[Tensor]) -> Tensor:
    """A list that a program makes."""
    made = inject(List, 0, ())
    for v in reversed(values):
        made = inject(List, 1, (v, made))
    return made
