"""Which scalars are folded in lanes, and in how many registers."""

from __future__ import annotations

import pytest

from tensorad.codegen.loops.ir import Assign, Fold, For
from tensorad.codegen.loops.vector_loops import LaneUse
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import axis, const, param


@pytest.mark.parametrize("extents", [(64, 16), (16, 64)])
def test_a_scalar_folded_in_two_loops_has_registers_for_both(extents: tuple[int, int]) -> None:
    total, combiner = param("total", FLOAT32), sum_combiner(FLOAT32)
    folds = [Fold((total,), combiner, (const(1.0, FLOAT32),)) for _ in extents]
    loops = [
        For(axis("i", 0, n), (fold,), "vector", width=64, lanes=16)
        for n, fold in zip(extents, folds, strict=True)
    ]
    use = LaneUse((Assign((total,), combiner.identity), *loops))
    assert use.folded[loops[0]][(total,)].registers == 4
    assert use.folded[loops[1]][(total,)].registers == extents[1] // 16
    for s in (*folds, *loops):
        assert total not in use.used[s]


def test_what_uses_a_scalar_between_loops_keeps_their_registers_apart() -> None:
    total, combiner = param("total", FLOAT32), sum_combiner(FLOAT32)

    def loop(n: int) -> For:
        fold = Fold((total,), combiner, (const(1.0, FLOAT32),))
        return For(axis("i", 0, n), (fold,), "vector", width=64, lanes=16)

    first, last = loop(16), loop(64)
    use = LaneUse((first, Assign((total,), (total + 1.0,)), last))
    assert use.folded[first][(total,)].registers == 1
    assert use.folded[last][(total,)].registers == 4
