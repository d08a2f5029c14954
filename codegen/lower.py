"""Tensors to kernels: `lower_program` runs the lists of passes in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tensorad import config
from tensorad.codegen.caches.kernel_order import in_peak_memory_order
from tensorad.codegen.caches.kernel_passes import finished_kernel
from tensorad.codegen.common_terms import with_common_terms
from tensorad.codegen.control.carries import copy_of
from tensorad.codegen.control.lower_control import has_control, lower_tree
from tensorad.codegen.directives import Given, Schedules, schedules
from tensorad.codegen.fusion.fusion_passes import fuse_units
from tensorad.codegen.in_place_scatters import Lowering, Unit, join
from tensorad.codegen.loops.forms import PROGRAM
from tensorad.codegen.loops.ir import Kernel, LoopProgram
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.rename_tensors import with_buffers, with_tensors
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.model import MODEL
from tensorad.codegen.plain_loops import plain_kernels
from tensorad.codegen.unit_passes import CHECK_INDICES, PLAIN_PASSES, UNIT_PASSES, UNITS
from tensorad.errors import BuildError
from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.arrays.elementwise import copied_from
from tensorad.ir.expr import Axis, Reduce, const
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
    outputs,
)
from tensorad.ir.visit import op_expressions, op_inputs, postorder, topological_ops
from tensorad.passes import Form, Pass, run_passes
from tensorad.process import deep_calls
from tensorad.simplify.control.passes import simplified
from tensorad.simplify.formula.common_reductions import computed_once
from tensorad.simplify.formula.dataflow import over_inputs

Results = Sequence[Tensor]


def _computed_once(lowering: Lowering, results: Results) -> Results:
    return _unless_same(computed_once(results, lowering.inputs, lowering.schedules.named), results)


def _unless_same(found: Results, results: Results) -> Results:
    same = all(a is b for a, b in zip(found, results, strict=True))
    return results if same else found


def _without_copies(lowering: Lowering, results: Results) -> Results:
    """Copies are read where they are: derivatives of functions are by copies of arguments."""
    image: dict[Tensor, Tensor] = {}
    given = dict.fromkeys((*lowering.inputs, *results))
    for op in topological_ops(results, stop=dict.fromkeys([t.op for t in lowering.inputs])):
        (t, *others) = outputs(op)
        source = None if t in given or op.name in lowering.schedules.named else copied_from(t)
        if source is not None:
            image[t] = image.get(source, source)
            continue
        new = op if t in lowering.inputs else over_inputs(op, image)
        if new is not op:
            image.update(zip((t, *others), outputs(new), strict=True))
    return _unless_same([image.get(t, t) for t in results], results)


def _stored_terms(lowering: Lowering, results: Results) -> Results:
    def may_share(op: Op) -> bool:
        names = (op.name, *[t.name for t in outputs(op)])
        chosen = lowering.schedules.of(*names)
        return chosen.terms is not False and not any(n in lowering.schedules.named for n in names)

    found = with_common_terms(results, lowering.inputs, may_share, MODEL)
    return _unless_same(found, results)


RESULT_PASSES: Final[tuple[Pass[Lowering, Results], ...]] = (
    Pass("read_sources", _without_copies, "first: what copies are read for is computed beside"),
    Pass("compute_once", _computed_once, "on formulas, before they are cut into units"),
    Pass("store_terms", _stored_terms, "after it: reductions that are left have terms in common"),
)
PROGRAM_PASSES: Final[tuple[Pass[object, LoopProgram], ...]] = (
    Pass(
        "order_kernels",
        lambda context, program: in_peak_memory_order(program),
        "last: which kernels there are is known",
    ),
)
_RESULTS: Final[Form[Lowering, Results]] = Form(
    show=lambda lowering, results: TENSORS.show(lowering.inputs, results),
    verify=lambda lowering, results: TENSORS.verify(lowering.inputs, results),
    compare=lambda lowering, before, after: TENSORS.compare(lowering.inputs, before, after),
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
    has_blocks = has_control(outputs, dict.fromkeys(inputs))
    wanted = _separate_outputs(simplified(outputs, inputs) if has_blocks else outputs, inputs)
    run = partial(
        _lower_formulas, schedule=schedule, assume_in_bounds=assume_in_bounds,
        chosen=schedules(choices), made=made,
    )  # fmt: skip
    if not has_control(wanted, dict.fromkeys(inputs)):
        return run(wanted, inputs)
    named = _Named()
    with deep_calls.changed():
        program = lower_tree(wanted, inputs, partial(run, named=named))
    schedules(choices).check(named.all, named.own)
    if config.current().debug:
        _inspect(program, config.current().debug)
    return program


def _lower_formulas(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], *, schedule: bool,
    assume_in_bounds: bool, chosen: Schedules, made: Callable[[Kernel], None] | None,
    named: _Named | None = None,
) -> LoopProgram:  # fmt: skip
    """The kernels of formulas alone.

    Args:
        named: of a program with control operations, of which these are a part: it learns the names
            that choices may use.
    """
    lowering = Lowering(tuple(inputs), tuple(outputs), chosen, named is not None)
    if schedule:
        results = run_passes(RESULT_PASSES, lowering, lowering.wanted, _RESULTS)
        lowering = replace(lowering, wanted=tuple(results))
    units = single_units(lowering.wanted, lowering.inputs)
    ops = [u.op for u in units]
    known = _Named() if named is None else named
    known.enter(ops)
    if named is None:
        chosen.check(known.all, known.own)
    left_out = CHECK_INDICES if assume_in_bounds else None
    passes = [p for p in (UNIT_PASSES if schedule else PLAIN_PASSES) if p is not left_out]
    units = run_passes(passes, lowering, units, UNITS)
    debug = config.current().debug
    kernels = []
    for k in _scheduled(units, lowering) if schedule else plain_kernels(units):
        kernels.append(k)
        if made is not None and not debug:
            made(k)
    program = LoopProgram(lowering.inputs, lowering.wanted, tuple(kernels))
    if schedule:
        program = run_passes(PROGRAM_PASSES, None, program, PROGRAM)
    if debug:
        _inspect(program, debug)
    return program


def _scheduled(units: Sequence[Unit], lowering: Lowering) -> Iterator[Kernel]:
    chosen = lowering.schedules
    finished: dict[Kernel, Kernel] = {}
    for k in fuse_units(units, lowering):
        if k.like is None or is_listening() or chosen.named or chosen.everywhere.made():
            finished[k] = finished_kernel(k, chosen)
            yield finished[k]
            continue
        first, mapping = k.like
        if first not in finished:
            finished[first] = finished_kernel(first, chosen)
        made = finished[first]
        yield k if made is first else with_tensors(made, k.name, with_buffers(made, mapping))


class _Named:
    """Names of axes by those of operations, of which several may have one.

    Attributes:
        all: with axes that are folded over. own: without.
    """

    def __init__(self) -> None:
        self.all: dict[str, list[str]] = {}
        self.own: dict[str, list[str]] = {}

    def enter(self, ops: Iterable[Op]) -> None:
        for op in ops:
            own = [a.name for a in _own_axes(op)]
            folded = [a.name for a in _folded_axes(op)]
            self.own.setdefault(op.name, []).extend(own)
            self.all.setdefault(op.name, []).extend([*own, *folded])


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


def needed_ops(
    outputs: Iterable[Tensor], inputs: Iterable[Tensor]
) -> list[tuple[Op, tuple[Tensor, ...]]]:
    """Operations to run, producers first, each with those of its tensors that are used.

    What a tuple's other tensors hold is left out, and so is what only they read.
    Functions with derivatives of their own are inlined: loops know only formulas.
    """
    given = dict.fromkeys(inputs)

    def made(tensors: Iterable[Tensor]) -> list[Tensor]:
        return [t for t in tensors if t not in given and not isinstance(t.op, Constant)]

    roots = made(outputs)
    live: dict[Op, dict[Tensor, None]] = {}
    stack = roots[::-1]
    while stack:
        t = stack.pop()
        if isinstance(t.op, Placeholder):
            raise _missing_input(t)
        used = live.setdefault(t.op, {})
        if t not in used:
            used[t] = None
            stack.extend(reversed(made(op_inputs(_with_bodies_of(t.op, (t,))))))
    stored = {op: tuple(sorted(used, key=lambda t: t.index)) for op, used in live.items()}
    ops = {op: _with_bodies_of(op, tensors) for op, tensors in stored.items()}
    order = topological_ops(roots, inputs_of=lambda op: made(op_inputs(ops[op])))
    return [(without_functions(ops[op]), stored[op]) for op in order]


def _with_bodies_of(op: Op, wanted: Collection[Tensor]) -> Op:
    """The operation with zeros in place of what other tensors than the wanted ones hold."""
    if not isinstance(op, Compute) or len(wanted) == len(op.bodies):
        return op
    if isinstance(op.bodies[0], Reduce):  # all of one fold, which needs all of its sources
        return op
    kept = {t.index: None for t in wanted}
    bodies = [b if n in kept else const(0, b.dtype) for n, b in enumerate(op.bodies)]
    return replace(op, bodies=tuple(bodies))


def single_units(outputs: Iterable[Tensor], inputs: Iterable[Tensor]) -> tuple[Unit, ...]:
    """The operations to run, each a unit of its own."""
    return tuple([Unit((op,), live) for op, live in needed_ops(outputs, inputs)])


def needed_units(outputs: Sequence[Tensor], inputs: Iterable[Tensor]) -> tuple[Unit, ...]:
    """The operations to run, those together that share one result."""
    return join(single_units(outputs, inputs), outputs)


def _missing_input(t: Tensor) -> BuildError:
    owner = getattr(t.op, "owner", "")
    if owner:
        return BuildError(
            f"the outputs need {t.name} of {owner}, which has no value outside of it.",
            where=f"{t.name} : {t.dtype}",
            hint="return what is needed from the function it belongs to.",
        )
    return BuildError(
        f"the outputs need the placeholder {t.name}, which is not among the inputs.",
        where=f"{t.name} : {t.dtype}",
        hint=f"add {t.name} to the list of inputs.",
    )
