"""What the loops of a derivative do, counted: the choice of a mode is made by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from tensorad.ir.analysis.blocks import block_ops, saves_of
from tensorad.ir.analysis.levels import Level, every_operand, loop_levels
from tensorad.ir.analysis.points import count_points, independent_parts, possible
from tensorad.ir.analysis.sizes import elements_at
from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import Axis, Call, Const, Expr, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import (
    Compute,
    Control,
    Loop,
    Op,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
)
from tensorad.ir.visit import op_expressions, topological_ops
from tensorad.simplify.index.intervals import Interval, interval

SAMPLE: Final = 16
"""The extent that symbolic sizes are given to compare costs."""
_EXACT: Final = 1_000_000
"""Boxes of more points are not enumerated: their size stands for their points."""


def cost(tensors: Sequence[Tensor]) -> int:
    """Iterations, multiplications and stores of the loops behind the tensors, each once; those of
    blocks as often as loops run them, of all blocks of a branch."""
    return _cost_of(runs_of(topological_ops(tensors), ()))


def _cost_of(runs: Sequence[tuple[Op, tuple[Expr, ...]]]) -> int:
    sizes: dict[Expr, int] = {e: SAMPLE for op, _ in runs for e in sizes_of(op)}
    sizes.update({e: SAMPLE for _, around in runs for n in around for e in sizes_in(n)})
    sizes.update({op.counter: SAMPLE // 2 for op, _ in runs if isinstance(op, Loop)})
    return sum([_points(op, sizes) * elements_at(around, sizes) for op, around in runs])


def costs_by_op(ops: Sequence[Op]) -> dict[Op, int]:
    """The same for each of these operations, with what is read of its inside."""
    saves = saves_of(ops)
    found: dict[Op, int] = {}
    for op in ops:
        inside = saves.get(op, []) if isinstance(op, Control) else []
        found[op] = _cost_of(runs_of([op, *inside], ()))
    return found


def elements_of(t: Tensor) -> int:
    """The elements of a tensor at the extents that costs are compared at."""
    return elements_at(t.shape, dict.fromkeys(sizes_in(*map(dim_expr, t.shape)), SAMPLE))


def runs_of(ops: Sequence[Op], around: tuple[Expr, ...]) -> list[tuple[Op, tuple[Expr, ...]]]:
    """Operations, also those in blocks, each with the numbers of iterations of loops around."""
    found: list[tuple[Op, tuple[Expr, ...]]] = []
    saves = saves_of(ops)
    for op in ops:
        found.append((op, around))
        if isinstance(op, Control):
            own = (*around, op.trips) if isinstance(op, Loop) else around
            for n, block in enumerate(op.blocks):
                kept = [s.inner for s in saves.get(op, ()) if s.block == n]
                found += runs_of(block_ops(block, kept), own)
    return found


def sizes_of(op: Op) -> list[Size]:
    """The symbolic sizes of an operation."""
    roots = (*op_expressions(op), *[dim_expr(n) for n in op.shape])
    return sizes_in(*roots)


def _points(op: Op, sizes: dict[Expr, int]) -> int:
    match op:
        case Compute():
            return count_items(op.axes, sizes) + _formulas(op.bodies, op.axes, sizes)
        case Scatter():
            elements = elements_at(op.shape, sizes)
            return elements + _formulas(op_expressions(op), op.axes, sizes)
        case Scan():
            return _formulas((*op.sources, *op.combiner.results), (*op.axes, *op.along), sizes)
    return 0


def _formulas(roots: Sequence[Expr], axes: Sequence[Axis], sizes: dict[Expr, int]) -> int:
    """Iterations of the reductions in the formulas (of `axes` if there is none), products."""
    levels, sites = loop_levels(roots, axes, every_operand, conditions=True)
    total = (
        sum([count_items(s.points, sizes) for s in sites]) if sites else count_items(axes, sizes)
    )
    return total + _level_products(levels, sizes)


def _level_products(levels: Sequence[Level], sizes: dict[Expr, int]) -> int:
    total = 0
    for level in levels:
        found = len([e for e in level.need if isinstance(e, Call) and is_costly(e.op)])
        total += found * count_items(level.items, sizes) if found else 0
    return total


def count_items(items: Sequence[Expr], sizes: Mapping[Expr, int]) -> int:
    """The points of axes at which conditions hold; of large boxes all."""
    box = prod([width(i, sizes) for i in items if isinstance(i, Axis)])
    if box > _EXACT:
        return box
    return count_points([i if isinstance(i, Axis) else possible(i) for i in items], sizes)


def listed_points(items: Sequence[Expr], sizes: Mapping[Expr, int]) -> int:
    """At most so many points are listed to count those of a nest: of axes that are linked."""
    parts = [p for p in independent_parts(items) if len(p) > 1]
    return sum([prod([width(a, sizes) for a in p if isinstance(a, Axis)]) for p in parts])


def width(a: Axis, sizes: Mapping[Expr, int]) -> int:
    """The number of values between the least and the greatest the axis may take."""
    found = interval(a, {s: Interval(n, n) for s, n in sizes.items()})
    if found.lo is None or found.hi is None:
        return SAMPLE
    step = int(a.step.value) if isinstance(a.step, Const) else 1
    return max(0, (found.hi - found.lo) // step + 1)
