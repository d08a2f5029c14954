"""The parts of scatters and scans that plain and scheduled loops share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tensorad.codegen.loops.ir import Assign, Fold, If, Stmt, Store
from tensorad.codegen.nest.folds import accumulators_for, lower_values
from tensorad.ir.analysis.levels import split_condition
from tensorad.ir.arrays.scan_outputs import last_states, states_after, states_before
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Expr,
    add,
    axis,
    call,
    floordiv,
    mul,
    read,
    sub,
)
from tensorad.ir.tensor import Scan, Scatter, Tensor, Update
from tensorad.ir.visit import postorder, substitute, substitute_all


def lower_point(op: Scatter, out: Tensor) -> tuple[Stmt, ...]:
    """The updates of one point in order, those under one condition together."""
    result: list[Stmt] = []
    for _, group in groupby(op.updates, key=lambda u: id(u.condition)):
        updates = list(group)
        body = tuple([s for u in updates for s in _lower_update(op, u, out)])
        if updates[0].condition is not TRUE:
            before, (condition,) = lower_values((updates[0].condition,))
            body = (*before, If(condition, body))
        result.extend(body)
    return tuple(result)


def _lower_update(op: Scatter, update: Update, out: Tensor) -> tuple[Stmt, ...]:
    """out[indices] = out[indices] (+) value"""
    before, values = lower_values((*update.indices, update.value))
    indices, value = values[:-1], values[-1]
    x, y = op.combiner.lhs[0], op.combiner.rhs[0]
    combined = substitute(op.combiner.results[0], {x: read(out, indices), y: value})
    return (*before, Store((out,), indices, (combined,)))


@dataclass(frozen=True, eq=False)
class ScanParts:
    """A scan's loops over `steps`, in order, and what they compute.

    Attributes:
        begin: the state set to its start (a store of every cell's, if the state lies in cells).
        writes: the tensors that are stored.
        step: what happens at each step where `condition` holds.
        end: what happens after the steps.
    """

    steps: tuple[Axis, ...]
    outer: Expr
    condition: Expr
    begin: Stmt
    step: tuple[Stmt, ...]
    end: tuple[Stmt, ...]
    writes: tuple[Tensor, ...]


def scan_parts(op: Scan, live: tuple[Tensor, ...]) -> ScanParts:
    """The parts of a scan that keeps the states `live`; a reverse one runs along new axes."""
    state = accumulators_for(op.combiner)
    mapping: dict[Expr, Expr] = {}
    steps = tuple([_step_axis(a, op.reverse, mapping) for a in op.along])
    *sources, condition = substitute_all((*op.sources, op.condition), mapping)
    indices = substitute_all(op.indices, mapping)
    outer, inner = split_condition(condition, steps)
    m = op.combiner.arity

    def keep(kept: tuple[Tensor, ...], where: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        numbers = dict.fromkeys([t.index for t in kept])
        wanted = tuple([t for t in live if t.index in numbers])
        return (
            (Store(wanted, where, tuple([state[t.index % m] for t in wanted])),) if wanted else ()
        )

    fold = Fold(state, op.combiner, tuple(sources))
    step = (*keep(states_before(op), indices), fold, *keep(states_after(op), indices))
    begin: Stmt = Assign(state, op.start)
    if op.cell is None:
        end = keep(last_states(op), op.axes)
        return ScanParts(steps, outer, inner, begin, step, end, live)
    kept = _kept_in_cells(op, live)
    cell = substitute_all(op.cell, mapping)
    found = [read(t, cell) if t in dict.fromkeys(kept) else c for t, c in _zipped(op)]
    begin = Store(kept, op.axes, tuple([op.start[t.index % m] for t in kept]))
    leave = Store(kept, cell, tuple([state[t.index % m] for t in kept]))
    writes = tuple(dict.fromkeys((*live, *kept)))
    return ScanParts(
        steps, outer, inner, begin, (Assign(state, tuple(found)), *step, leave), (), writes
    )


def _zipped(op: Scan) -> list[tuple[Tensor, Expr]]:
    return list(zip(last_states(op), op.combiner.identity, strict=True))


def _kept_in_cells(op: Scan, live: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The components of a state in cells that some step reads, or the program."""
    mentioned = dict.fromkeys(postorder(*op.combiner.results))
    wanted = dict.fromkeys(live)
    pairs = zip(last_states(op), op.combiner.lhs, strict=True)
    return tuple([t for t, p in pairs if p in mentioned or t in wanted])


def _step_axis(a: Axis, reverse: bool, mapping: dict[Expr, Expr]) -> Axis:
    """The axis of the loop that stands for `a`; from its end, a new one and `a` in terms of it."""
    lower, upper, step = (substitute(b, mapping) for b in (a.lower, a.upper, a.step))
    if not reverse:
        if lower is a.lower and upper is a.upper and step is a.step:
            return a
        made = axis(a.name, lower, upper, step)
        mapping[a] = made
        return made
    if step is ONE:
        made = axis("s", 0, sub(upper, lower))
        mapping[a] = sub(sub(upper, ONE), made)
        return made
    count = floordiv(sub(add(sub(upper, lower), step), ONE), step)
    made = axis("s", 0, call("maximum", count, ZERO))
    mapping[a] = add(lower, mul(sub(sub(made.upper, ONE), made), step))
    return made
