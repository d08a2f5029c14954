"""Tensors to kernels: `lower_program` runs the stages in order; `lower_op` writes plain loops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tensorad import config
from tensorad.codegen.caches.kernel_order import in_peak_memory_order
from tensorad.codegen.caches.kernel_passes import finished_kernel
from tensorad.codegen.directives import Given, Schedules, schedules
from tensorad.codegen.fusion.fuse import fuse_units
from tensorad.codegen.in_place_scatters import Unit, join
from tensorad.codegen.index_checks.insert import with_checks
from tensorad.codegen.loops.forms import PROGRAM
from tensorad.codegen.loops.ir import For, If, Kernel, LoopProgram, Stmt, Store, Visit
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.rename_tensors import with_buffers, with_tensors
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.nest.folds import lower_values
from tensorad.codegen.scan.parts import ScanParts, lower_point, scan_parts
from tensorad.errors import BuildError, InternalError
from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import TRUE, Axis, Expr, Reduce, read
from tensorad.ir.functions import without_functions
from tensorad.ir.reference.forms import TENSORS
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
)
from tensorad.ir.tensor import (
    outputs as outputs_of,
)
from tensorad.ir.visit import op_expressions, op_inputs, postorder
from tensorad.passes import Pass, run_passes
from tensorad.simplify.formula.common_reductions import computed_once

PROGRAM_PASSES: Final[tuple[Pass[object, LoopProgram], ...]] = (
    Pass(
        "order_kernels",
        lambda context, program: in_peak_memory_order(program),
        "last: which kernels there are is known",
    ),
)


def lower_program(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    *,
    schedule: bool = True,
    assume_in_bounds: bool = False,
    choices: Given | Schedules = None,
    made: Callable[[Kernel], None] | None = None,
) -> LoopProgram:
    """The loops that compute `outputs` from `inputs`, which may be any tensors of the DAG.

    An output that is also an input, a constant or listed twice is a copy: the program's
    `outputs` then holds the copy's tensor.

    Args:
        schedule: False leaves the loops as the formulas are written.
        choices: decisions of the schedule made by hand, for all tensors or by tensor name.
        made: called with each kernel as soon as it is complete, in any order; not with
            TENSORAD_DEBUG, whose checks come first.
    Raises:
        BuildError: an output needs a placeholder that is not an input, or the choices name what
            is not there or cannot be.
    """
    chosen = schedules(choices)
    distinct = _separate_outputs(outputs, inputs)
    if schedule:
        once: Pass[Sequence[Tensor], Sequence[Tensor]] = Pass(
            "compute_once",
            lambda given, results: computed_once(results, given, chosen.named),
            "on formulas, before they are cut into units",
        )
        found: Sequence[Tensor] = run_passes((once,), inputs, distinct, TENSORS)
        distinct = list(found)
    units = needed_units(distinct, inputs)
    ops = [op for unit in units for op in unit.parts]
    own, folded = _by_name(ops, _own_axes), _by_name(ops, _folded_axes)
    chosen.check({name: [*own[name], *folded[name]] for name in own}, own)
    checked = [(u, list[Kernel]()) for u in units] if assume_in_bounds else with_checks(units)
    debug = config.current().debug
    kernels = []
    for k in _scheduled(checked, distinct, chosen) if schedule else _plain(checked):
        kernels.append(k)
        if made is not None and not debug:
            made(k)
    program = LoopProgram(tuple(inputs), tuple(distinct), tuple(kernels))
    if schedule:
        program = run_passes(PROGRAM_PASSES, None, program, PROGRAM)
    if debug:
        _inspect(program, debug)
    return program


def _scheduled(
    checked: Sequence[tuple[Unit, list[Kernel]]], wanted: Sequence[Tensor], chosen: Schedules
) -> Iterator[Kernel]:
    finished: dict[Kernel, Kernel] = {}
    for k in fuse_units(checked, wanted, chosen):
        if k.like is None or is_listening() or chosen.named or chosen.everywhere.made():
            finished[k] = finished_kernel(k, chosen)
            yield finished[k]
            continue
        first, mapping = k.like
        if first not in finished:
            finished[first] = finished_kernel(first, chosen)
        made = finished[first]
        yield k if made is first else with_tensors(made, k.name, with_buffers(made, mapping))


def _plain(checked: Sequence[tuple[Unit, list[Kernel]]]) -> Iterator[Kernel]:
    done: dict[Kernel, None] = {}
    for unit, checks in checked:
        yield from [k for k in checks if k not in done]
        done.update(dict.fromkeys(checks))
        yield lower_unit(unit)


def _by_name(ops: Sequence[Op], axes: Callable[[Op], Sequence[Axis]]) -> dict[str, list[str]]:
    """Names of axes of operations; several may have one name."""
    found: dict[str, list[str]] = {op.name: [] for op in ops}
    for op in ops:
        found[op.name].extend([a.name for a in axes(op)])
    return found


def _own_axes(op: Op) -> tuple[Axis, ...]:
    return op.axes if isinstance(op, (Compute, Scan, Scatter)) else ()


def _folded_axes(op: Op) -> tuple[Axis, ...]:
    inside = [e for e in postorder(*op_expressions(op)) if isinstance(e, Reduce)]
    along = op.along if isinstance(op, Scan) else ()
    return (*along, *[a for e in inside for a in e.axes])


def _inspect(program: LoopProgram, debug: Sequence[str]) -> None:
    """What TENSORAD_DEBUG asks of the loops: `verify` checks them, `ir:loops` prints them."""
    if "verify" in debug:
        verify_loops(program)
    if "ir" in debug or "ir:loops" in debug:
        sys.stderr.write(format_loops(program))


def _separate_outputs(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    taken = dict.fromkeys(inputs)
    result: list[Tensor] = []
    for t in outputs:
        is_leaf = isinstance(t.op, (Placeholder, Constant))
        result.append(copy_of(t) if is_leaf or t in taken else t)
        taken[t] = None
    return result


def copy_of(t: Tensor) -> Tensor:
    """A compute of the same elements."""
    axes = compute_axes(t.shape)
    return outputs_of(Compute(t.name, axes, (read(t, axes),), ""))[0]


def needed_ops(
    outputs: Iterable[Tensor], inputs: Iterable[Tensor]
) -> list[tuple[Op, tuple[Tensor, ...]]]:
    """Operations to run, producers first, each with those of its tensors that are used.

    Functions with derivatives of their own are inlined: loops know only formulas.
    """
    given = dict.fromkeys(inputs)
    live: dict[Op, dict[Tensor, None]] = {}
    done: dict[Op, None] = {}
    operands: dict[Op, tuple[Tensor, ...]] = {}
    stack = list(outputs)[::-1]
    while stack:
        t = stack[-1]
        if t in given or isinstance(t.op, Constant):
            stack.pop()
            continue
        if isinstance(t.op, Placeholder):
            raise _missing_input(t)
        live.setdefault(t.op, {})[t] = None
        if t.op in done:
            stack.pop()
            continue
        if t.op not in operands:
            operands[t.op] = op_inputs(t.op)
            stack.extend(reversed(operands[t.op]))
        else:
            done[t.op] = None
            stack.pop()
    used = [tuple(sorted(live[op], key=lambda t: t.index)) for op in done]
    return [(without_functions(op), tensors) for op, tensors in zip(done, used, strict=True)]


def needed_units(outputs: Sequence[Tensor], inputs: Iterable[Tensor]) -> list[Unit]:
    """The operations to run, those together that share one result."""
    return join(needed_ops(outputs, inputs), outputs)


def _missing_input(t: Tensor) -> BuildError:
    return BuildError(
        f"the outputs need the placeholder {t.name}, which is not among the inputs.",
        where=f"{t.name} : {t.dtype}",
        hint=f"add {t.name} to the list of inputs.",
    )


def lower_unit(unit: Unit) -> Kernel:
    """The loops of one unit: those of its parts, onto one tensor."""
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
