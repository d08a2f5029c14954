"""What a compute stores, as items, and the loops of one item however it is cut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.fusion.items import emit_pieces, items_of, serial_loops
from tensorad.codegen.loops.forms import loops_differ
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.nest.serial_loops import serial_kernel
from tensorad.codegen.schedule.borders import emit_bordered
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.splitting.index_sets import split_conditions
from tensorad.codegen.target import machine
from tensorad.codegen.target.peak_speeds import measured
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import check_kernel, check_stores, kernel_of, nest_for, op_of
from tests.support.machines import described

X = te.placeholder((6, 9), "float64", name="X")


def shifted() -> Tensor:
    k = te.reduce_axis(9, name="k")
    return te.compute((6, 9), lambda i, j: X[i, j] - te.max(X[i, k], axis=k), name="Y")


def padded() -> Tensor:
    return te.compute((8, 9), lambda i, j: te.select((i > 0) & (i < 7), X[i - 1, j], 0.0), name="Y")


def nested() -> Tensor:
    k, s = te.reduce_axis(9, name="k"), te.reduce_axis(6, name="s")
    return te.compute((6,), lambda i: te.sum(te.max(X[s, k] - X[i, k], axis=s), axis=k), name="Y")


@pytest.mark.parametrize(("make", "names"), [(shifted, ["Y.max", "Y"]), (padded, ["Y"])])
def test_items_are_stages_and_what_is_stored(make: Callable[[], Tensor], names: list[str]) -> None:
    y = make()
    items = items_of(op_of(y), (y,), OPEN)
    assert [i.name for i in items] == names
    assert items[-1].writes == (y,)
    body = tuple([s for i in items for s in emit_pieces(i, None)])
    check_kernel(kernel_of(body, [t for i in items for t in i.writes]), X)


def test_stages_of_what_nobody_wants_are_left_out() -> None:
    k, s, j = [te.reduce_axis(9, name=name) for name in "ksj"]

    def two(i: Axis) -> tuple[Expr, Expr]:
        top = te.max(X[i, k] * te.prod(X[i, s], axis=s), axis=k)
        return te.select(top > 0.0, top, 2.0), te.max(X[i, j], axis=j)

    unwanted, wanted = te.compute((6,), two, name="Y")
    both = items_of(op_of(wanted), (unwanted, wanted), OPEN)
    assert [i.name for i in both] == ["Y.prod", "Y.max", "Y.max", "Y"]
    alone = items_of(op_of(wanted), (wanted,), OPEN)
    assert [i.name for i in alone] == ["Y.max", "Y"]
    check_kernel(
        kernel_of(
            tuple([s for i in alone for s in emit_pieces(i, None)]),
            [t for i in alone for t in i.writes],
        ),
        X,
    )


def test_folds_of_folds_run_as_written() -> None:
    y = nested()
    check_stores(serial_loops(op_of(y).axes, op_of(y).bodies, [y], OPEN), y, X)


def test_pieces_run_one_after_the_other() -> None:
    y = padded()
    pieces = split_conditions(nest_for(y))
    assert len(pieces) == 3
    kernel = serial_kernel(pieces)
    check_kernel(kernel, X)
    whole = kernel_of(kernel.body[:2], [y])
    one, two = (LoopProgram((X,), (y,), (k,)) for k in (kernel, whole))
    assert loops_differ(one, one) == ""
    assert loops_differ(one, two) != ""  # the last border is missing


def test_borders_run_inside_the_loops_of_the_core() -> None:
    y = te.compute((6, 11), lambda i, j: te.select((j > 0) & (j < 10), X[i, j - 1], 0.0), name="Y")
    planned = tuple([(n, plan_nest(n)) for n in split_conditions(nest_for(y))])
    made = emit_bordered(planned, Choices(borders=True))
    assert made is not None
    assert len(made) < len(planned)
    check_stores(made, y, X)
    assert emit_bordered(planned, Choices(borders=False)) is None
    assert emit_bordered(planned[:1], Choices(borders=True)) is None


def test_described_speeds_are_believed() -> None:
    with described("flops=5000000000,read=2000000000"):
        np.testing.assert_array_equal(measured(machine.current()), (5e9, 2e9))
