"""Reductions that depend on fewer axes than their body are stored once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.splitting.stages import split_stages, stage_uses
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import arrays_for, op_of, with_bodies

X = te.placeholder((4, 6), "float64", name="X")
Made = Callable[[], Tensor]


def shifted() -> Tensor:
    k = te.reduce_axis(6, name="k")
    return te.compute((4, 6), lambda i, j: X[i, j] - te.max(X[i, k], axis=k), name="Y")


def inner() -> Tensor:
    k, s = te.reduce_axis(6, name="k"), te.reduce_axis(4, name="s")
    return te.compute((4,), lambda i: te.sum(X[i, k] * te.max(X[s, k], axis=s), axis=k), name="Y")


def alone() -> Tensor:
    k = te.reduce_axis(6, name="k")
    return te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="Y")


def of_all_axes() -> Tensor:
    k = te.reduce_axis(6, name="k")
    return te.compute((4, 6), lambda i, j: te.sum(X[i, k] * X[i, j], axis=k), name="Y")


def plain() -> Tensor:
    return te.compute((4, 6), lambda i, j: X[i, j] * 2.0, name="Y")


@pytest.mark.parametrize(
    ("make", "shapes"),
    [(shifted, [(4,)]), (inner, [(6,)]), (alone, []), (of_all_axes, []), (plain, [])],
)
def test_stages_save_work_and_keep_the_values(make: Made, shapes: list[tuple[int, ...]]) -> None:
    op = op_of(make())
    stages, bodies = split_stages(op)
    assert [s.shape for s in stages] == shapes
    assert {t.op for t in stage_uses(stages, bodies)} >= set(stages)
    if not stages:
        assert bodies is op.bodies
    arrays = arrays_for(X)
    before, after = (interpret(with_bodies(op, b), arrays)[0] for b in (op.bodies, bodies))
    np.testing.assert_array_equal(before, after)
