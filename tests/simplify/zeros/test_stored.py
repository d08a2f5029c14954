"""The box around a loop whose steps are stored: of sizes alone, around every value."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.errors import GradError
from tensorad.ir.expr import Axis, axis, int_const, mod, read
from tensorad.simplify.zeros.stored import box_around, stored_box

N, M = te.size("n"), te.size("m")
P = te.placeholder((4,), "int64", name="P")
NARROW = te.placeholder((4,), "int32", name="Q")
I = axis("i", 0, N)  # noqa: E741, the index of the formulas below
D, D32 = read(P, (int_const(0),)), read(NARROW, (int_const(0),))

BOXES = [
    (axis("k", 2, 10), "2", "8"),
    (axis("k", 3, 1), "3", "1"),
    (axis("k", 0, mod(D, int_const(7))), "0", "6"),
    (axis("k", 0, te.minimum(M, 4)), "0", "4"),
    (axis("k", 0, M), "0", "m"),
    (axis("k", 1, N - 1), "1", "max(0, n - 2)"),
    (axis("k", te.maximum(N - 2, 0), N), "max(n - 2, 0)", "max(0, n - max(n - 2, 0))"),
    (axis("k", 0, I + 1), "0", "n"),
    (axis("k", I, N), "0", "n"),
    (axis("k", 0, te.minimum(te.maximum(D, 0), M)), "0", "m"),
    (axis("k", 0, te.minimum(te.maximum(D32, 0), M)), "0", "m"),
]


@pytest.mark.parametrize(("a", "start", "extent"), BOXES, ids=[str(b[0].upper) for b in BOXES])
def test_boxes_are_of_sizes(a: Axis, start: str, extent: str) -> None:
    box = box_around(a)
    assert box is not None
    assert tuple(map(str, box)) == (start, extent)
    assert stored_box("Y", a) == box


@pytest.mark.parametrize("upper", [D, te.maximum(D, 0), te.maximum(D32, 0), I * (D - 3)])
def test_steps_that_data_alone_bound_are_not_stored(upper: te.Expr) -> None:
    assert box_around(axis("k", 0, upper)) is None
    with pytest.raises(GradError) as raised:
        stored_box("Y", axis("k", 0, upper))
    said = "the derivative of Y stores what each step over k finds, but data alone bound k."
    assert str(raised.value).startswith(said)
