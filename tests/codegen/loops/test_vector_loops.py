"""Which scalars are folded in lanes, and in how many registers."""

from __future__ import annotations

import pytest

from tensorad.codegen.loops.ir import Assign, Fold, For
from tensorad.codegen.loops.vector_loops import LaneUse
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import axis, const, param


@pytest.mark.parametrize("extents", [(64, 16), (16, 64)])
def test_a_fold_that_stands_in_two_loops_has_registers_for_both(extents: tuple[int, int]) -> None:
    total, combiner = param("total", FLOAT32), sum_combiner(FLOAT32)
    fold = Fold((total,), combiner, (const(1.0, FLOAT32),))
    loops = [For(axis("i", 0, n), (fold,), "vector", width=64, lanes=16) for n in extents]
    use = LaneUse((Assign((total,), combiner.identity), *loops))
    for s in (fold, *loops):
        assert use.folded[s][(total,)].registers == 4
        assert total not in use.used[s]
