"""The parts of scatters and scans that plain and scheduled loops share."""

from __future__ import annotations

from dataclasses import dataclass

from tensorad.codegen.loopir import If, Stmt, Store
from tensorad.codegen.lower_body import accumulators_for, lower_values
from tensorad.ir.elementwise import compute_axes
from tensorad.ir.expr import TRUE, Axis, Expr, Param, axis, int_const, read, sub
from tensorad.ir.tensor import Scan, Scatter, Tensor, Update, dim_expr
from tensorad.ir.visit import substitute


def lower_update(op: Scatter, update: Update, out: Tensor) -> tuple[Stmt, ...]:
    """if condition: out[indices] = out[indices] (+) value"""
    before, values = lower_values((*update.indices, update.value))
    indices, value = values[:-1], values[-1]
    x, y = op.combiner.lhs[0], op.combiner.rhs[0]
    combined = substitute(op.combiner.results[0], {x: read(out, indices), y: value})
    body: tuple[Stmt, ...] = (*before, Store((out,), indices, (combined,)))
    if update.condition is TRUE:
        return body
    before, (condition,) = lower_values((update.condition,))
    return (*before, If(condition, body))


@dataclass(frozen=True, eq=False)
class ScanParts:
    """A scan's loops, and what one step reads and where it stores."""

    others: tuple[Axis, ...]
    along: Axis
    indices: tuple[Expr, ...]
    sources: tuple[Expr, ...]
    state: tuple[Param, ...]


def scan_parts(op: Scan) -> ScanParts:
    """The parts of a scan; a reverse one runs along n - 1 - s."""
    axes = compute_axes(op.shape)
    along = axis("s", 0, dim_expr(op.shape[op.axis]))
    position: Expr = along
    if op.reverse:
        position = sub(sub(along.upper, int_const(1)), along)
    indices = (*axes[: op.axis], position, *axes[op.axis + 1 :])
    others = (*axes[: op.axis], *axes[op.axis + 1 :])
    sources = tuple([read(t, indices) for t in op.sources])
    return ScanParts(others, along, indices, sources, accumulators_for(op.combiner))
