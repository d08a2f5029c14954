"""The loops of a nest and a plan: whatever the plan says, they store the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorad import te
from tensorad.codegen.loops.ir import For
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.emit import emit_nest, strips
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.reasons import explain_plan
from tensorad.codegen.schedule.sums_in_memory import can_sum_in_memory, emit_sums_in_memory
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.expr import axis
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import check_stores, loops_in, nest_for

X = te.placeholder((6, 9), "float64", name="X")
W = te.placeholder((9, 11), "float64", name="W")


def product() -> Tensor:
    k = te.reduce_axis(9, name="k")
    return te.compute((6, 11), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="Y")


def elements() -> Tensor:
    return te.compute((6, 9), lambda i, j: X[i, j] * 2.0 + X[5 - i, j], name="Y")


def prefix() -> Tensor:
    k = te.reduce_axis(9, name="k")
    return te.compute((6, 9), lambda i, j: te.sum(X[i, k], axis=k, where=k <= j), name="Y")


PLANS: dict[str, Callable[[Nest], Plan]] = {
    "as written": lambda n: Plan(n.axes),
    "turned": lambda n: Plan(n.axes[::-1]),
    "lanes": lambda n: Plan(n.axes, n.axes[1]),
    "wide lanes": lambda n: Plan(n.axes, n.axes[1], width=16),
    "threads": lambda n: Plan(n.axes, n.axes[1], parallel=True),
    "tile": lambda n: Plan(n.axes, n.axes[1], width=8, jam={n.axes[0]: 4}),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("make", "plan"),
    [*[(m, p) for m in (product, elements) for p in PLANS], (prefix, "as written")],
)
def test_no_plan_changes_what_is_stored(make: Callable[[], Tensor], plan: str) -> None:
    y = make()
    nest = nest_for(y)
    body = emit_nest(nest, PLANS[plan](nest))
    check_stores(body, y, *((X, W) if make is product else (X,)))
    kinds = [s.kind for s in loops_in(body)]
    assert ("vector" in kinds) == (PLANS[plan](nest).vector is not None)
    assert ("parallel" in kinds) == (plan == "threads")


def test_short_reductions_are_written_out() -> None:
    k = te.reduce_axis(3, name="k")
    y = te.compute((6,), lambda i: te.sum(X[i, k], axis=k), name="Y")
    nest = nest_for(y)
    (reduced,) = nest.folds[0].axes
    body = emit_nest(nest, Plan(nest.axes, unroll=frozenset([reduced])))
    assert [s.axis.name for s in loops_in(body)] == ["i"]
    check_stores(body, y, X)


def test_strips_of_an_axis_cover_it() -> None:
    number, inside = strips(axis("i", 0, 37), 8)
    assert number.extent == 5
    assert inside.upper is not inside.lower


def test_sums_of_rows_wait_in_memory() -> None:
    k = te.reduce_axis(6, name="k")
    y = te.compute((9,), lambda j: te.sum(X[k, j], axis=k), name="Y")
    nest = nest_for(y)
    assert can_sum_in_memory(nest)
    for rows in (1, 2, 4):
        body = emit_sums_in_memory(nest, nest.axes[0], 0, rows)
        assert isinstance(body[0], For)
        check_stores(body, y, X)


def test_what_is_no_bare_sum_does_not_wait_in_memory() -> None:
    k = te.reduce_axis(6, name="k")
    scaled = te.compute((9,), lambda j: te.sum(X[k, j], axis=k) * 2.0, name="Y")
    guarded = te.compute((9,), lambda j: te.sum(X[k, j], axis=k, where=X[k, j] > 0), name="Y")
    assert not can_sum_in_memory(nest_for(scaled))
    assert not can_sum_in_memory(nest_for(guarded))


def test_reasons_name_lanes_and_tiles() -> None:
    nest = nest_for(product())
    i, j = nest.axes
    with listening(Decision) as heard:
        explain_plan(nest, Plan(nest.axes, j, width=8, jam={i: 4}))
        explain_plan(nest, Plan(nest.axes))
    assert [d.what for d in heard] == [
        "lanes along j, 8 elements at a time",
        "4 values of i side by side",
        "no lanes",
    ]
    assert heard[1].why == "one load of W serves all"
