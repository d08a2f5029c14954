"""Long sums are cut into partial sums of blocks; short ones stay whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.model import MODEL
from tensorad.codegen.splitting.blocked_sums import block_sums
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import arrays_for, op_of, with_bodies

X = te.placeholder((3, 40), "float64", name="X")
LONG = te.placeholder((1 << 20,), "float64", name="L")


def rows(fold: Callable[..., Expr], where: bool = False) -> Tensor:
    k = te.reduce_axis(40, name="k")
    return te.compute(
        (3,), lambda i: fold(X[i, k], axis=k, **({"where": k > i} if where else {})), name="Y"
    )


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("fold", [te.sum, te.max])
def test_forced_blocks_add_up_to_the_same(fold: Callable[..., Expr], where: bool) -> None:
    op = op_of(rows(fold, where))
    found = block_sums(op.name, op.axes, op.bodies, MODEL, forced=True)
    assert found is not None
    stage, bodies = found
    assert stage.name == "Y.blocks"
    assert stage.axes[0].extent > 1
    arrays = arrays_for(X)
    before, after = (interpret(with_bodies(op, b), arrays)[0] for b in (op.bodies, bodies))
    np.testing.assert_array_equal(before, after)


def test_only_long_sums_are_cut_unasked() -> None:
    short = op_of(rows(te.sum))
    assert block_sums(short.name, short.axes, short.bodies, MODEL) is None
    k = te.reduce_axis(1 << 20, name="k")
    long = op_of(te.compute((), lambda: te.sum(LONG[k], axis=k), name="S"))
    found = block_sums(long.name, long.axes, long.bodies, MODEL)
    assert found is not None
    assert found[0].shape[0] > 1


def test_folds_in_order_stay_whole() -> None:
    fade = te.comm_reducer(lambda x, y: x * 0.5 + y, lambda d: 0.0, name="fade")
    op = op_of(rows(fade))
    assert block_sums(op.name, op.axes, op.bodies, MODEL, forced=True) is None
    plain = op_of(te.compute((3, 40), lambda i, j: X[i, j] + 1.0, name="Y"))
    assert block_sums(plain.name, plain.axes, plain.bodies, MODEL, forced=True) is None


@pytest.mark.parametrize("lengths", [(40, 20), (20, 40)])
def test_folds_over_other_ranges_stay_whole(lengths: tuple[int, int]) -> None:
    k, m = (te.reduce_axis(n, name="k") for n in lengths)
    op = op_of(te.compute((3,), lambda i: te.sum(X[i, k], axis=k) - te.sum(X[i, m], axis=m)))
    assert block_sums(op.name, op.axes, op.bodies, MODEL, forced=True) is None
