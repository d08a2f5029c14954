"""Shifts round a circle: cut where they wrap, by numbers or by tables of numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, If, LoopProgram, Stmt, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Call
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder

SHIFTS = np.array([0, 1, -1, 3])
SIZE = 37


def stores(program: LoopProgram) -> list[Store]:
    found: list[Store] = []
    left: list[Stmt] = [s for k in program.kernels for s in k.body]
    while left:
        s = left.pop()
        left.extend(
            s.body if isinstance(s, For) else (*s.then, *s.orelse) if isinstance(s, If) else ()
        )
        found.extend([s] if isinstance(s, Store) else [])
    return found


def divisions(program: LoopProgram) -> int:
    """How many stores hold one."""
    return sum(
        any(isinstance(e, Call) and e.op in ("mod", "floordiv") for e in postorder(*s.values))
        for s in stores(program)
    )


def rolled(shift: int) -> tuple[Tensor, Tensor]:
    x = te.placeholder((5, SIZE), name="X")
    return x, te.compute((5, SIZE), lambda i, j: x[i, (j - shift) % SIZE] * 2.0, name="Y")


@pytest.mark.parametrize("shift", [1, -3, 20, -SIZE - 2, 2 * SIZE])
def test_a_shift_round_a_circle_is_cut_where_it_wraps(shift: int) -> None:
    x, y = rolled(shift)
    program = lower_program([y], [x], choices=Choices(flat=False))
    verify_loops(program)
    assert divisions(program) == 0
    assert len(stores(program)) <= 2 + (abs(shift) == 3)
    a = np.random.default_rng(1).normal(size=(5, SIZE)).astype(np.float32)
    wanted = np.roll(a, shift, 1) * 2
    np.testing.assert_array_equal(interpret_loops(program, {x: a})[0][0], wanted)
    np.testing.assert_array_equal(ta.build([y], [x])(a), wanted)


def test_divisions_through_a_table_see_its_numbers() -> None:
    x = te.placeholder((4, 3, SIZE), name="X")
    shift = te.const(SHIFTS)
    y = te.compute(
        (4, 3, SIZE), lambda s, i, j: x[s, i, (j - shift[s]) % SIZE] + shift[s], name="Y"
    )
    program = lower_program([y], [x], choices=Choices(flat=False))
    verify_loops(program)
    assert divisions(program) == 0
    assert len(program.kernels) == 1
    a = np.random.default_rng(1).normal(size=(4, 3, SIZE)).astype(np.float32)
    wanted = np.stack([np.roll(a[s], d, 1) + np.float32(d) for s, d in enumerate(SHIFTS)])
    np.testing.assert_allclose(interpret_loops(program, {x: a})[0][0], wanted, rtol=1e-6)
    np.testing.assert_array_equal(ta.build([y], [x])(a), wanted)


def test_tables_end_before_the_axis_where_a_guard_says_so() -> None:
    x = te.placeholder((5, SIZE), name="X")
    shift = te.const(SHIFTS)
    y = te.compute(
        (5, SIZE), lambda s, j: te.select(s < 4, x[s, (j - shift[s]) % SIZE], 0.0), name="Y"
    )
    a = np.random.default_rng(1).normal(size=(5, SIZE)).astype(np.float32)
    rows = [np.roll(a[s], d) for s, d in enumerate(SHIFTS)]
    np.testing.assert_array_equal(ta.build([y], [x])(a), [*rows, np.zeros(SIZE)])


def test_long_axes_of_tables_stay_loops() -> None:
    x = te.placeholder((20, SIZE), name="X")
    shift = te.const(np.arange(20))
    y = te.compute((20, SIZE), lambda s, j: x[s, (j - shift[s]) % SIZE], name="Y")
    program = lower_program([y], [x])
    assert len(stores(program)) == 1


def test_axes_that_pass_many_periods_are_not_cut_at_each() -> None:
    x = te.placeholder((7,), name="X")
    y = te.compute((210,), lambda j: x[(j + 3) % 7], name="Y")
    assert len(stores(lower_program([y], [x]))) <= 4
