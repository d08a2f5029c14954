"""Loops that threads share, made long enough: a short one takes in the loop inside it.

Rows of a few images with a few channels are shared row by row, in the order in which they lie
in memory, and no loop over something nearer has to go outside for that. No statement changes
its place among the others, so no value changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Final

from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.loops.ir import For, If, Stmt
from tensorad.codegen.loops.substitute import joined_strips, placed
from tensorad.codegen.loops.visit import nested
from tensorad.ir.expr import Axis, Const, Expr, add, axis, floordiv, int_const, mod, mul

FEW_RUNS: Final = 32
"""Iterations of a shared loop from which any number of threads is kept about equally busy."""
FEW_POINTS: Final = 128
"""Points of an iteration that are worth finding out which values of two axes it stands for."""


def long_shared(body: tuple[Stmt, ...], rows: Iterable[Axis]) -> tuple[Stmt, ...]:
    """The loops; short ones that threads share are one with the only loop inside them.

    Requires: loops over `rows` may run in any order, even at once.
    """
    own = tuple(rows)
    return tuple([_lengthened(s, own) for s in body])


def _lengthened(s: Stmt, rows: tuple[Axis, ...]) -> Stmt:
    if not isinstance(s, For) or s.kind != "parallel" or s.covering or joined_strips(s):
        return s
    while True:
        joined = _joined(s, rows)
        if joined is None:
            return s
        s = joined


def _joined(s: For, rows: tuple[Axis, ...]) -> For | None:
    """One loop over the points of a short loop and of the only one in it, if there is such."""
    inner = s.body[0] if len(s.body) == 1 else None
    if not isinstance(inner, For) or inner.kind != "serial" or not among(inner.axis, rows):
        return None
    outside, inside = runs_of(s.axis), runs_of(inner.axis)
    if outside is None or inside is None or not 0 < outside < FEW_RUNS or inside < 2:
        return None
    if outside > 1 and _points(inner.body) < FEW_POINTS:
        return None
    both = axis(inner.axis.name, 0, outside * inside)
    width = int_const(inside)
    mapping: dict[Expr, Expr] = {
        s.axis: _value(s.axis, int_const(0) if outside == 1 else floordiv(both, width)),
        inner.axis: _value(inner.axis, both if outside == 1 else mod(both, width)),
    }
    return replace(s, axis=both, body=placed(inner.body, mapping))


def runs_of(a: Axis) -> int | None:
    """How many values an axis between numbers has; None where they are not known."""
    bounds = (a.lower, a.upper, a.step)
    if not all(isinstance(e, Const) for e in bounds):
        return None
    lower, upper, step = (int(e.value) for e in bounds if isinstance(e, Const))
    return max(0, -((lower - upper) // step))


def _points(body: tuple[Stmt, ...]) -> int:
    """Statements that run in one pass over a block; loops of unknown length count as long."""
    total = 0
    for s, around in nested(body):
        if not isinstance(s, (For, If)):
            runs = [runs_of(c.axis) for c in around if isinstance(c, For)]
            total += prod([FEW_POINTS if r is None else r for r in runs])
    return total


def _value(a: Axis, number: Expr) -> Expr:
    return add(a.lower, mul(a.step, number))
