"""The table of definitions, and the words of an activation."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.executable import Executable
from tensorad.codegen.runtime.record_layout import RecordPart
from tensorad.codegen.runtime.routines import RoutineCode, RoutineTable, word_sizes, word_value
from tensorad.codegen.runtime.step_table import Mark
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import local_size, size_var
from tensorad.ir.records import Field, Variant, recursion
from tests.support.programs.recursive import counted_down, given, power

N = size_var("n")


def test_words_of_sizes_and_records() -> None:
    row = Variant("Row", (Field("x", (N,), FLOAT64),))
    (x,) = given(("x", (N, 2), FLOAT64))
    words = [N, x, RecordPart(row, 0), RecordPart(row), 5, local_size("t")]
    assert [word_value(w, {N: 4}) for w in words] == [4, 64, 64, 128, 5, 0]
    assert [word_sizes(w) for w in words] == [[N]] * 4 + [[], []]
    mark = Mark(None, 0)  # type: ignore[arg-type]
    assert word_value(mark, {}) == 0 and word_sizes(mark) == []


def test_an_activation_has_slots_sizes_and_temporaries() -> None:
    x, k = given(("x", (), FLOAT64), ("k", (), INT64))
    program = lower_program(recursion(power(), (x, k)), [x, k])
    (routine,) = program.routines
    code = RoutineCode(routine)
    slots = [*code.slots]
    assert slots[:3] == [*routine.params, *routine.results] and code.first_constant == 3
    assert code.releases and not code.constants and code.temporaries
    table = RoutineTable([code], [17], {}, {})
    words = (ctypes.c_int64 * block.ROUTINE_WORDS).from_address(table.address)
    count, first = len(code.temporaries), words[block.FIRST_PLACED]
    assert (words[block.ENTRY], first, words[block.PLACED]) == (17, 3, count)
    assert words[block.FRAME_BYTES] == table.bytes_of(0) and table.bytes_of(0) % 64 == 0
    template = np.frombuffer((ctypes.c_char * words[block.TEMPLATE_BYTES]).from_address(
        words[block.TEMPLATE]), np.int64)  # fmt: skip
    places = template[first : first + count]
    assert (places >= block.FRAME_HEAD + words[block.TEMPLATE_BYTES]).all()
    assert (places < table.bytes_of(0)).all() and (places % 64 == 0).all()


@pytest.mark.parametrize(("made", "releases"), [(power, True), (counted_down, False)])
def test_records_stay_if_they_are_results(made: object, releases: bool) -> None:
    definition = made()  # type: ignore[operator]
    operands = given(*[(p.name, p.shape, p.dtype) for p in definition.params])
    program = lower_program(recursion(definition, operands), operands)
    assert [RoutineCode(r).releases for r in program.routines] == [releases]


def test_only_programs_that_need_it_have_a_table() -> None:
    x, k = given(("x", (), FLOAT64), ("k", (), INT64))
    plain = Executable(lower_program([x * 2.0], [x]))
    assert plain.routine_table({}) is None and not plain.grows
    calls = Executable(lower_program(recursion(power(), (x, k)), [x, k]))
    assert calls.routine_table({}) is not None and calls.grows and calls.all_temporaries
