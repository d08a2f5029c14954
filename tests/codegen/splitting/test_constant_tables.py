"""Tables of constants that decide on divisions are written out, value by value."""

from __future__ import annotations

import numpy as np

from tensorad import te
from tensorad.codegen.nest.ir import substitute_nest
from tensorad.codegen.splitting.constant_tables import write_tables
from tensorad.ir.expr import axis, int_const
from tensorad.ir.tensor import Constant, Tensor
from tensorad.ir.visit import reads
from tests.support.loops.small_loops import check_stores, nest_for, plainly

X = te.placeholder((37,), "float64", name="X")


def shifted(table: np.ndarray) -> Tensor:
    shifts = te.const(table)
    shape = (len(table), 37)
    return te.compute(shape, lambda s, i: X[(i - shifts[s]) % 37], name="Y")


def test_each_value_has_a_piece_without_the_table() -> None:
    y = shifted(np.array([0, 1, -1, 3]))
    pieces = write_tables(nest_for(y))
    assert len(pieces) == 4
    found = [r.tensor.op for p in pieces for r in reads(*p.values)]
    assert not any(isinstance(op, Constant) for op in found)
    check_stores(plainly(pieces), y, X)


def test_long_tables_and_plain_reads_of_them_stay() -> None:
    long = nest_for(shifted(np.arange(200)))
    assert write_tables(long) == [long]
    table = te.const(np.arange(4.0))
    plain = nest_for(te.compute((4, 37), lambda s, i: X[i] * table[s], name="Y"))
    assert write_tables(plain) == [plain]


def test_values_that_do_not_begin_at_0_are_written_out() -> None:
    nest = nest_for(shifted(np.array([0, 1, -1, 3])))
    s, i = nest.axes
    later = axis("s", 1, 4)
    pieces = write_tables(substitute_nest(nest, {s: later}, (later, i)))
    assert [p.indices[0] for p in pieces] == [int_const(n) for n in (1, 2, 3)]
