"""Steps of trees of nodes, and when their tensors have memory."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import Choose, Exchange, Place, Repeat, Reserve, Settle
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import compiled_kernel
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.codegen.runtime.step_table import StepTable
from tensorad.codegen.threads.control_ir import CONTROL
from tensorad.errors import BuildError
from tensorad.ir.dtypes import BOOL, FLOAT32, INT64
from tensorad.ir.expr import local_size
from tests.support.programs.loops import cumulative

A, B = buffer("a", (4,), FLOAT32), buffer("b", (4,), FLOAT32)
FLAG, INDEX, COUNT = buffer("f", (), BOOL), buffer("i", (), INT64), buffer("n", (), INT64)
SLOTS = {t: n for n, t in enumerate((A, B, FLAG, INDEX, COUNT))}
TRIPS = local_size("trips")
T = local_size("t", TRIPS)


def _kinds(table: StepTable, *nodes: object) -> list[tuple[int, int]]:
    """The kind of each step, and where it jumps to."""
    rows, _, _ = table.tables(nodes)  # type: ignore[arg-type]
    return [(int(kind), int(to)) for to, _, kind in rows]


def test_a_loop_with_a_count_jumps_back_and_out() -> None:
    body = (Place(A, B),)
    loop = Repeat(T, TRIPS, COUNT, (), (), None, body, (Exchange(A, B),), (), False, "x.py:1")
    assert _kinds(StepTable(SLOTS, {}, {}), loop) == [
        (block.LOAD, 0), (block.BEGIN, 0), (block.UNTIL, 6), (block.PLACE, 0), (block.EXCHANGE, 0),
        (block.ADVANCE, 2),
    ]  # fmt: skip


def test_a_loop_with_a_condition_counts_what_it_did() -> None:
    loop = Repeat(T, TRIPS, None, (), (), FLAG, (), (), (), False, "x.py:1")
    assert _kinds(StepTable(SLOTS, {}, {}), loop) == [
        (block.ASSIGN, 0), (block.BEGIN, 0), (block.ASSIGN, 0), (block.UNLESS, 5),
        (block.ADVANCE, 2),
    ]  # fmt: skip


def test_arms_jump_behind_each_other() -> None:
    choose = Choose(INDEX, ((Place(A, B),), ()))
    assert _kinds(StepTable(SLOTS, {}, {}), choose) == [
        (block.ARM, 3), (block.PLACE, 0), (block.JUMP, 5), (block.ARM, 5), (block.JUMP, 5),
    ]  # fmt: skip


def test_what_lies_where_it_should_is_not_copied() -> None:
    settle = Settle(A, B, (Place(A, B),), rare=False)
    assert _kinds(StepTable(SLOTS, {}, {}), settle, Exchange(A, B, TRIPS)) == [
        (block.SAME, 2), (block.PLACE, 0), (block.ODD, 4), (block.EXCHANGE, 0),
    ]  # fmt: skip


def test_rows_of_a_size_that_only_the_run_tells_are_refused() -> None:
    ragged = buffer("ragged", (3, TRIPS), FLOAT32)
    row = buffer("row", (TRIPS,), FLOAT32)
    table = StepTable({ragged: 0, row: 1}, {}, {})
    with pytest.raises(BuildError) as caught:
        table.tables([Place(row, ragged, T)])
    assert "row has the shape" in str(caught.value)


def test_rows_may_have_a_size_that_was_told_before_them() -> None:
    ragged = buffer("ragged", (3, TRIPS), FLOAT32)
    row = buffer("row", (TRIPS,), FLOAT32)
    tells = Repeat(T, TRIPS, COUNT, (), (), None, (), (), (), False, "x.py:1")
    table = StepTable({**SLOTS, ragged: 5, row: 6}, {}, {})
    steps, operands, _ = table.tables([tells, Place(row, ragged, T)])
    assert [int(kind) for _, _, kind in steps] == [block.LOAD, block.BEGIN, block.ROW]
    assert [table.words[int(n)] for n in operands[-4:][[0, 3]]] == [T, TRIPS]


def test_what_is_reserved_is_a_step_only_where_the_run_tells_the_size() -> None:
    rows = buffer("rows", (TRIPS, 4), FLOAT32)
    table = StepTable({**SLOTS, rows: 5}, {}, {rows: 2})
    assert _kinds(table, Reserve(A), Reserve(rows)) == [(block.RESERVE, 0)]
    assert f"i64 {block.RESERVE}, label %reserve" in CONTROL


def test_memory_that_carries_lie_in_lives_as_long_as_their_loop() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, _ = cumulative(x)
    program = lower_program([total], [x])
    found = find_buffers(program.nodes, dict.fromkeys((*program.inputs, *program.outputs)))
    lives = [(life.tensor.name, life.last) for life in found.temporaries]
    assert sorted(n for n, _ in lives) == ["after", "zero"] and not found.dynamic
    assert lives[0][1] == lives[1][1], "the other buffer is the output"
    assert {t.name for t in found.placed} == {"s", "after"}


def test_kernels_that_differ_in_their_counters_share_machine_code() -> None:
    x = ta.placeholder((5, 3), name="x")
    wanted = [cumulative(x)[0], cumulative(x, reverse=True)[0]]
    program = lower_program(wanted, [x])
    adders = [k for k in program.kernels if k.name == "after"]
    codes = [compiled_kernel(k)[0] for k in adders]
    assert len(adders) == 2 and codes[0] is codes[1]
    (first,), (second,) = (codes[0].phases[0].sizes_of(k) for k in adders)
    assert first is not second
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    for found in ta.build(wanted, [x])(values):
        np.testing.assert_allclose(found, values.sum(0))
