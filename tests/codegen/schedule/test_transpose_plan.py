"""Copies across are noticed by their strides; lanes that cannot be are refused in words."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.nest.access import outer_accesses
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.transpose import are_followed, crossing_axis, tile_lanes
from tensorad.codegen.schedule.user_directives import check_vector_axis
from tensorad.errors import BuildError
from tests.support.loops.small_loops import nest_for
from tests.support.machines import described

X = te.placeholder((64, 64), name="X")


@described()
def test_a_turn_crosses_and_a_copy_does_not() -> None:
    turn = nest_for(te.compute((64, 64), lambda i, j: X[j, i]))
    i, j = turn.axes
    assert tile_lanes(turn) == 16
    assert crossing_axis(turn, j, outer_accesses(turn), OPEN) is i
    assert crossing_axis(turn, i, outer_accesses(turn), OPEN) is None
    assert crossing_axis(turn, j, outer_accesses(turn), Choices(across=False)) is None
    copy = nest_for(te.compute((64, 64), lambda i, j: X[i, j]))
    assert crossing_axis(copy, copy.axes[1], outer_accesses(copy), OPEN) is None


def test_reads_along_the_lanes_are_not_followed() -> None:
    assert are_followed([64, 128])
    assert not are_followed([64, 1])


def test_lanes_that_cannot_be_are_refused_with_the_reason() -> None:
    k = te.reduce_axis((0, 64), name="k")
    fade = te.comm_reducer(lambda x, y: x * 0.5 + y, lambda d: 0.0, name="fade")
    nest = nest_for(te.compute((64,), lambda i: fade(X[i, k], axis=k), name="Y"))
    check_vector_axis("Y", nest, [Plan(nest.axes, nest.axes[0])], Choices(vector="i"))
    with pytest.raises(BuildError) as raised:
        check_vector_axis("Y", nest, [Plan(nest.axes)], Choices(vector="k"))
    assert str(raised.value).startswith(
        "the axis k of Y cannot run in lanes: its reduction must visit the points in order."
    )
