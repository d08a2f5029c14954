"""Which loop threads share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorad import te
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.parallel_axis import on_threads
from tests.support.loops.small_loops import nest_for

MUCH, LITTLE = 1e12, 1.0


def plan_for(*shape: int) -> tuple[Plan, Nest]:
    x = te.placeholder(shape, name="X")
    nest = nest_for(te.compute(shape, lambda *i: x[i] * 2.0))
    return Plan(nest.axes, nest.axes[-1]), nest


@pytest.mark.parametrize(
    ("shape", "cost", "wanted", "first"),
    [
        ((512, 600), MUCH, None, 0),  # the outermost
        ((512, 600), LITTLE, None, None),  # too little work
        ((512, 600), LITTLE, True, 0),  # asked for
        ((512, 600), MUCH, False, None),  # refused
        ((2, 500, 600), MUCH, None, 0),  # both outer ones are one loop
    ],
)
def test_the_shared_loop(
    shape: tuple[int, ...], cost: float, wanted: bool | None, first: int | None
) -> None:
    plan, nest = plan_for(*shape)
    made = on_threads(nest, plan, 8, cost, wanted)
    assert made.parallel == (first is not None)
    if first is None:
        assert made is plan
    else:
        assert made.order[0] is plan.order[first]
        assert set(made.order) == set(plan.order)


def test_a_longer_axis_goes_first_where_loops_stay_apart() -> None:
    plan, nest = plan_for(2, 500, 600)
    tiled = replace(plan, jam={plan.order[1]: 4})
    made = on_threads(nest, tiled, 8, MUCH, None)
    assert made.parallel
    assert made.order == (plan.order[1], plan.order[0], plan.order[2])
