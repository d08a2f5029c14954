"""Plain loops: operations as their formulas are written, neither fused nor scheduled."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.loops.ir import For, If, Kernel, Stmt, Store, Visit
from tensorad.codegen.nest.folds import lower_values
from tensorad.codegen.scan.parts import ScanParts, lower_point, scan_parts
from tensorad.errors import InternalError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import TRUE, Expr, read
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor
from tensorad.ir.visit import op_inputs


def plain_kernels(units: Sequence[Unit]) -> list[Kernel]:
    """The loops of all units, each after those that check its indices."""
    return list(dict.fromkeys([k for u in units for k in (*u.checks, lower_unit(u))]))


def lower_unit(unit: Unit) -> Kernel:
    """The loops of one unit: those of its parts, onto one tensor."""
    if unit.loops is not None:
        return unit.loops
    first = lower_op(unit.parts[0], unit.live)
    body = list(first.body)
    for op in unit.parts[1:]:
        if not isinstance(op, Scatter):
            raise InternalError(f"{op.name} ({type(op).__name__}) does not continue a tensor")
        body.extend(lower_updates(op, unit.live[0]))
    return Kernel(unit.op.name, tuple(body), first.writes, tuple(unit.inputs()))


def lower_op(op: Op, live: tuple[Tensor, ...]) -> Kernel:
    """The loops of one operation, storing the tensors `live`, as its formula is written."""
    if isinstance(op, Compute):
        body = lower_compute(op, live)
    elif isinstance(op, Scatter):
        body = lower_scatter(op, live[0])
    elif isinstance(op, Scan):
        parts = scan_parts(op, live)
        body, live = lower_scan(op, parts), parts.writes
    else:
        raise InternalError(f"{op.name} ({type(op).__name__}) has no loops")
    return Kernel(op.name, body, live, tuple(op_inputs(op)))


def nest(axes: Sequence[Expr], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`body` in serial loops over axes, the first outermost."""
    for a in reversed(axes):
        body = (For(a, body),)  # type: ignore[arg-type]  # axes are typed as expressions
    return body


def lower_compute(op: Compute, live: tuple[Tensor, ...]) -> tuple[Stmt, ...]:
    """for axes: the reductions, then one store of all live bodies."""
    before, values = lower_values(op.bodies)
    store = Store(live, op.axes, tuple([values[t.index] for t in live]))
    visit = () if before else (Visit(),)
    return nest(op.axes, (*visit, *before, store))


def lower_scatter(op: Scatter, out: Tensor) -> tuple[Stmt, ...]:
    """Fill or copy, then the updates of each point in order."""
    axes = compute_axes(op.shape)
    start = op.combiner.identity[0] if op.init is None else read(op.init, axes)
    fill = nest(axes, (Visit(), Store((out,), axes, (start,))))
    return (*fill, *lower_updates(op, out))


def lower_updates(op: Scatter, out: Tensor) -> tuple[Stmt, ...]:
    """The updates of each point in order."""
    updates = lower_point(op, out)
    return nest(op.axes, (Visit(), *updates))


def lower_scan(op: Scan, parts: ScanParts) -> tuple[Stmt, ...]:
    """for the axes: a fold along the others that keeps its states."""
    step = parts.step if parts.condition is TRUE else (If(parts.condition, parts.step),)
    loops = nest(parts.steps, (Visit(), *step))
    if parts.outer is not TRUE:
        loops = (If(parts.outer, loops),)
    if op.cell is not None:
        return (*nest(op.axes, (Visit(), parts.begin)), *loops)
    return nest(op.axes, (parts.begin, *loops, *parts.end))
