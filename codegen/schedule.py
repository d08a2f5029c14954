"""The schedule: named passes from an operation to the loops that are compiled."""

from __future__ import annotations

from tensorad.codegen.loopir import Assign, Check, Fold, For, If, Kernel, Stmt, Store
from tensorad.codegen.loopnest import nest_of
from tensorad.codegen.schedule_emit import emit_nest
from tensorad.codegen.schedule_plan import plan_nest
from tensorad.codegen.schedule_split import split_nest
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import op_inputs


def schedule_compute(op: Compute, live: tuple[Tensor, ...], serial: Kernel) -> Kernel:
    """The loops of a compute: split into pieces, each run by a plan of its own.

    `serial` is the unscheduled kernel, kept where no nest of folds fits the body.
    """
    nest = nest_of(op.axes, live, op.bodies)
    if nest is None:
        return without_visits(serial)
    body: list[Stmt] = []
    for piece in split_nest(nest):
        body.extend(emit_nest(piece, plan_nest(piece)))
    return Kernel(op.name, tuple(body), live, tuple(op_inputs(op)))


def without_visits(kernel: Kernel) -> Kernel:
    """The kernel's statements without counters, as machine code runs them."""
    return Kernel(kernel.name, strip_visits(kernel.body), kernel.writes, kernel.reads)


def strip_visits(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block without `Visit` statements."""
    result: list[Stmt] = []
    for s in body:
        match s:
            case For():
                result.append(For(s.axis, strip_visits(s.body), s.kind, s.width))
            case If():
                result.append(If(s.cond, strip_visits(s.then), strip_visits(s.orelse)))
            case Assign() | Fold() | Store() | Check():
                result.append(s)
    return tuple(result)
