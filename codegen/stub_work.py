"""How long a call may take, roughly: whether other Python threads should run meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensorad.codegen.loopir import For, If, Kernel, Stmt
from tensorad.codegen.memory import size_value
from tensorad.ir.expr import Axis, Call, Const, Expr, Select
from tensorad.ir.visit import postorder

LONG_POINTS: Final = 1 << 14
"""Statements run that take some 10 us; giving the interpreter's lock away and back takes 0.03."""
_LANES: Final = 8
_KNOWN: Final = (Const, Call, Select)


def is_long(kernels: Iterable[Kernel], sizes: Mapping[Expr, int]) -> bool:
    """Whether the kernels run at least `LONG_POINTS` statements, those of vector loops in lanes."""
    points = 0
    stack: list[tuple[Stmt, int]] = [(s, 1) for k in kernels for s in k.body]
    while stack and points < LONG_POINTS:
        s, times = stack.pop()
        match s:
            case For():
                times *= -(-_trips(s.axis, sizes) // (_LANES if s.kind == "vector" else 1))
                stack.extend([(inner, times) for inner in s.body])
            case If():
                stack.extend([(inner, times) for inner in (*s.then, *s.orelse)])
            case _:
                points += times
    return points >= LONG_POINTS


def _trips(a: Axis, sizes: Mapping[Expr, int]) -> int:
    """How often a loop runs; many where its bounds follow from other axes or from data."""
    bounds = (a.lower, a.upper, a.step)
    if not all(e in sizes or isinstance(e, _KNOWN) for e in postorder(*bounds)):
        return LONG_POINTS
    lower, upper, step = [size_value(e, sizes) for e in bounds]
    return max(0, -(-(upper - lower) // max(1, step)))
