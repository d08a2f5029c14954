"""Where a comparison, a maximum or a division switches along an axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.splitting.cut_points import find_cut
from tensorad.ir.expr import Axis, Call, Const, Expr, axis, call, floordiv, int_const, mod

Formula = Callable[[Axis, Axis], Expr]
CUT: dict[str, tuple[Formula, list[int]]] = {
    "below": (lambda i, j: i < 7, [7]),
    "not below": (lambda i, j: i >= 90, [90]),
    "mirrored": (lambda i, j: 30 - i > 0, [30]),
    "around another": (lambda i, j: i + j < 50, [48, 50]),
    "maximum": (lambda i, j: call("maximum", i - 10, int_const(0)), [11]),
    "minimum": (lambda i, j: call("minimum", i, int_const(40)), [40]),
    "quotient": (lambda i, j: floordiv(i, int_const(50)), [50]),
    "remainder": (lambda i, j: mod(i + 20, int_const(60)), [40]),
}
WHOLE: dict[str, Formula] = {
    "always": lambda i, j: i < 100,
    "another axis": lambda i, j: j < 2,
    "too many periods": lambda i, j: floordiv(i, int_const(2)),
}


@pytest.mark.parametrize("name", CUT)
def test_the_switch_is_found(name: str) -> None:
    formula, points = CUT[name]
    i, j = axis("i", 0, 100), axis("j", 0, 3)
    e = formula(i, j)
    assert isinstance(e, Call)
    cut = find_cut(e, [i], Ranges([i, j]))
    assert cut is not None
    assert cut.axis is i
    assert [p.value for p in cut.points if isinstance(p, Const)] == points
    assert len(cut.images) == len(points) + 1


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_cut_where_nothing_switches(name: str) -> None:
    i, j = axis("i", 0, 100), axis("j", 0, 3)
    e = WHOLE[name](i, j)
    assert isinstance(e, Call)
    assert find_cut(e, [i], Ranges([i, j])) is None
