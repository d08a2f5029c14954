"""Stretches of formulas between control operations."""

from __future__ import annotations

import tensorad as ta
from tensorad.codegen.control.in_place import in_order
from tensorad.codegen.control.stretches import FORMULAS, copied, has_memory, stretches
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.records import recursion
from tests.support.programs.recursive import given, power


def test_formulas_run_before_the_first_operation_that_needs_them() -> None:
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    before = ta.compute((), lambda: x() * 2.0, "before")
    (y,) = recursion(power(), (before, n))
    after = ta.compute((), lambda: y() + before(), "after")
    known = {x: None, n: None}
    order = in_order([after], known, {})
    assert [isinstance(op, FORMULAS) for op in order] == [True, False, True]
    assert stretches(order, known, [after], {}, 1) == [[before], [after]]
    assert has_memory(after) and has_memory(y) and not has_memory(x)


def test_a_copy_is_made_where_it_goes() -> None:
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    (y,) = recursion(power(), (x, n))
    copy = ta.compute((), lambda: y(), "copy")
    known = {x: None, n: None}
    assert copied([copy], [copy], known, {}) == {copy: y}
    assert copied([copy, y], [copy], known, {}) == {}, "the other one is wanted itself"
