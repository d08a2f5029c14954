"""What loops move through the caches, and how many registers they take at a time."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.codegen.cost.cache_traffic import Estimate, best_order, bytes_moved, extent_product
from tensorad.codegen.cost.store_groups import are_neighbours, group_of
from tensorad.codegen.loops.ir import For, Store
from tensorad.codegen.model import MODEL
from tensorad.ir.expr import Expr, axis, call, read
from tests.support.loops.small_loops import nest_for
from tests.support.machines import described

X = te.placeholder((64, 96), name="X")
V = te.placeholder((96,), name="V")
LONG = te.placeholder((4096,), name="L")


def test_bytes_count_each_access_once() -> None:
    nest = nest_for(te.compute((64, 96), lambda i, j: X[i, j] + V[j]))
    assert bytes_moved(nest) == 4 * (64 * 96 * 2 + 96)
    assert extent_product(nest.axes) == 64 * 96
    assert extent_product([axis("s", 0, 4), axis("t", 0, 3)]) == 12


def test_lanes_stay_innermost_and_rows_outermost() -> None:
    nest = nest_for(te.compute((64, 96), lambda i, j: X[i, j] + V[j]))
    i, j = nest.axes
    assert best_order(nest, Estimate(1.0, j, 16, {}), MODEL) == (i, j)
    k = te.reduce_axis(96, name="k")
    big = te.placeholder((4096, 96), name="B")
    few = nest_for(te.compute((2, 4096), lambda a, b: te.sum(X[a, k] * big[b, k], axis=k)))
    a, b = few.axes
    assert set(best_order(few, Estimate(1.0, None, 0, {}), MODEL)) == {a, b}


def lanes(value: Expr, j: Expr, *, width: int = 0) -> For:
    y = te.placeholder((4096,), name="Y")
    return For(j, (Store((y,), (j,), (value,)),), "vector", width)  # type: ignore[arg-type]


@described()
@pytest.mark.parametrize("heavy", [False, True])
def test_loops_that_only_store_take_several_registers(heavy: bool) -> None:
    j = axis("j", 0, 4096)
    value = read(LONG, (j,))
    s = lanes(call("exp", value) if heavy else value, j)
    assert (group_of(s, 16) == 1) == heavy
    assert group_of(lanes(value, j, width=32), 16) == 2


def test_lanes_side_by_side() -> None:
    j = axis("j", 0, 96)
    assert are_neighbours(lanes(read(V, (j,)), j))
    assert not are_neighbours(lanes(read(V, (95 - j,)), j))
    assert not are_neighbours(For(axis("i", 0, 4), (lanes(read(V, (j,)), j),)))
