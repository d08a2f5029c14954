"""Where the fields of a record lie."""

from __future__ import annotations

from tensorad.codegen.runtime.record_layout import (
    RecordPart,
    alignment_of,
    field_tensor,
    layout_of,
    value_of,
)
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64
from tensorad.ir.expr import size_var
from tensorad.ir.records import Field, Variant
from tests.support.records import List

N = size_var("n")


def test_small_fields_follow_the_number_of_the_variant() -> None:
    flags = Variant(
        "Flags", (Field("a", (), BOOL), Field("b", (3,), FLOAT32), Field("c", (), List))
    )
    assert layout_of(flags, {}) == ((8, 16, 32), 40)
    assert alignment_of(flags) == 8
    assert layout_of(List.variants[0], {}) == ((), 8)


def test_arrays_begin_at_a_cache_line() -> None:
    wide = Variant("Wide", (Field("x", (), FLOAT64), Field("row", (N,), FLOAT64)))
    assert alignment_of(wide) == 64
    assert layout_of(wide, {N: 9}) == ((8, 64), 192)
    parts = [RecordPart(wide, 1), RecordPart(wide)]
    assert [value_of(p, {N: 9}) for p in parts] == [64, 192]
    assert field_tensor(wide.fields[1]).shape == (N,)
