"""How long a call may take, roughly: whether other Python threads should run meanwhile, and
whether it should look for signals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensorad.codegen.loops.ir import For, If, Kernel, Stmt
from tensorad.ir.analysis.sizes import ASSUMED_WAIT, size_value
from tensorad.ir.expr import Axis, Call, Const, Expr, LocalSize, Select, Size
from tensorad.ir.visit import postorder

LONG_POINTS: Final = 1 << 14
"""Statements run that take some 10 us; giving the interpreter's lock away and back takes 0.03."""
SLICE_POINTS: Final = 1 << 22
"""Statements run between two looks for signals, before a time was taken: .3 to 50 ms."""
_LANES: Final = 8
_KNOWN: Final = (Axis, Call, Const, Select, Size)


def points_run(kernels: Iterable[Kernel], sizes: Mapping[Expr, int]) -> int:
    """Statements that the kernels run, about; those of vector loops by registers."""
    return sum([_points(k.body, sizes, sizes, 1) for k in kernels])


def _points(
    body: Iterable[Stmt], first: Mapping[Expr, int], last: Mapping[Expr, int], times: int
) -> int:
    """Those of a block that runs so many times.

    Args:
        first: the sizes, and the axes of the loops outside at their first value.
        last: the same at their last.
    """
    points = 0
    for s in body:
        if isinstance(s, For):
            trips, begin, end = _walked(s.axis, first, last)
            inside = times * -(-trips // (_LANES if s.kind == "vector" else 1))
            points += _points(s.body, {**first, s.axis: begin}, {**last, s.axis: end}, inside)
        elif isinstance(s, If):
            points += _points((*s.then, *s.orelse), first, last, times)
        else:
            points += times
    return points


def _walked(a: Axis, first: Mapping[Expr, int], last: Mapping[Expr, int]) -> tuple[int, int, int]:
    """How often a loop runs at most, and the first and last value of its axis."""
    bounds = (a.lower, a.upper, a.step)
    parts = postorder(*bounds)
    if not all(isinstance(e, _KNOWN) and not isinstance(e, LocalSize) for e in parts):
        return ASSUMED_WAIT, 0, ASSUMED_WAIT - 1
    lower, upper, step = [size_value(e, first) for e in bounds]
    lower1, upper1, step1 = [size_value(e, last) for e in bounds]
    trips = max(0, -(-(upper - lower) // max(1, step)), -(-(upper1 - lower1) // max(1, step1)))
    return trips, lower, max(lower1, upper1 - 1)
