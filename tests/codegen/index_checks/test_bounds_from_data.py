"""Indices that bounds of loops read are checked before the loops run."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError
from tensorad.ir.expr import Expr, Read
from tensorad.ir.rebuild import map_op
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import op_inputs, rewrite
from tests.codegen.index_checks.test_checks import checks

FAR = 10**12
"""An index at which no memory is."""


def picked_rows(guarded: bool = False, computed: bool = False) -> tuple[Tensor, list[Tensor]]:
    """Sums over rows of X, of which data say which; they begin where `ptr` says."""
    x, n = te.placeholder((8,), "float64", name="X"), te.placeholder((3,), "int64", name="n")
    given = te.placeholder((5,), "int64", name="ptr")
    ptr = te.compute((5,), lambda i: given[i] + 0, name="rows") if computed else given

    def row(i: Expr) -> Expr:
        k = te.reduce_axis((ptr[n[i]], ptr[n[i] + 1]), name="k")
        total = te.sum(x[k] * x[k], axis=k)
        return te.select(n[i] >= 0, total, -1.0) if guarded else total

    return te.compute((3,), row, name="Y"), [x, n, given]


@pytest.mark.parametrize("index", [4, -1, FAR, -FAR])
def test_what_bounds_of_loops_read_is_checked(index: int) -> None:
    y, inputs = picked_rows()
    f = ta.build([y, *ta.vjp(y, [inputs[0]], np.ones(3))], inputs)
    ptr = np.array([0, 1, 3, 5, 8])
    sums, slope = f(np.arange(8.0), np.array([3, 0, 1]), ptr)
    assert sums.tolist() == [110.0, 0.0, 5.0]
    assert slope.tolist() == [0.0, 2.0, 4.0, 0.0, 0.0, 10.0, 12.0, 14.0]
    with pytest.raises(BoundsError, match=rf"^ptr is read at index {index + (index == 4)} of axis"):
        f(np.arange(8.0), np.array([3, index, 1]), ptr)


def test_guards_hold_for_what_bounds_of_loops_read() -> None:
    y, inputs = picked_rows(guarded=True)
    f = ta.build([y, *ta.vjp(y, [inputs[0]], np.ones(3))], inputs)
    sums, slope = f(np.arange(8.0), np.array([-1, -FAR, 1]), np.array([0, 1, 3, 5, 8]))
    assert sums.tolist() == [-1.0, -1.0, 5.0] and slope.tolist() == [0.0, 2.0, 4.0, *[0.0] * 5]
    with pytest.raises(BoundsError, match=r"^ptr is read at index 7 of axis 0"):
        f(np.arange(8.0), np.array([-1, 7, 1]), np.array([0, 1, 3, 5, 8]))


def test_bounds_that_leave_their_tensor_are_found_at_definition() -> None:
    x, ptr = te.placeholder((8,), name="X"), te.placeholder((4,), "int64", name="ptr")

    def row(i: Expr) -> Expr:
        k = te.reduce_axis((ptr[i], ptr[i + 1]), name="k")
        return te.sum(x[k], axis=k)

    with pytest.raises(BoundsError, match=r"^ptr\[i \+ 1\] reads index 4 of axis 0"):
        te.compute((4,), row, name="Y")
    y = te.compute((4,), lambda i: te.select(i < 3, row(i), 0.0), name="Y")
    assert not checks(lower_program([y], [x, ptr]))[2:]  # X[k], by the ends of a row
    got = ta.build(y, [x, ptr])(np.ones(8, "f4"), np.array([0, 2, 3, 8]))
    assert got.tolist() == [2.0, 1.0, 5.0, 0.0]


def test_what_bounds_of_loops_read_is_computed_before() -> None:
    y, inputs = picked_rows(computed=True)
    (slope,) = ta.vjp(y, [inputs[0]], np.ones(3))
    arrays = [np.arange(8.0), np.array([3, 0, 1]), np.array([0, 1, 3, 5, 8])]
    want = [0.0, 2.0, 4.0, 0.0, 0.0, 10.0, 12.0, 14.0]
    assert ta.build(slope, inputs)(*arrays).tolist() == want
    assert ta.interpret(slope, dict(zip(inputs, arrays, strict=True))).tolist() == want


def test_changed_operations_read_the_bounds_of_their_loops_from_what_they_are_told() -> None:
    y, inputs = picked_rows()
    (slope,) = ta.vjp(y, [inputs[0]], np.ones(3))
    other = te.placeholder((5,), "int64", name="other")

    def told(e: Expr) -> Expr | None:
        return other[e.indices] if isinstance(e, Read) and e.tensor is inputs[2] else None

    op = map_op(slope.op, lambda roots: tuple([rewrite(e, told) for e in roots]))
    assert other in op_inputs(op) and inputs[2] not in op_inputs(op)
    verify(outputs(op))
