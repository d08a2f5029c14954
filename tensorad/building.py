"""From tensors to results: lower, build, call, evaluate, measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorad.autodiff.counting.dense import check_dense
from tensorad.codegen.directives import Given, Schedules, schedules
from tensorad.codegen.loops.ir import Kernel, LoopProgram
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.lower import lower_program, needed_ops
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.arguments import size_number
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.collector import old_objects_at_rest
from tensorad.compiled import CompiledFunction, preparation
from tensorad.errors import BindError, BoundsError, BuildError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.arrays.arguments import check_arrays, check_settled
from tensorad.ir.expr import Expr, Size, size_var
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Tensor, dim_expr, format_shape
from tensorad.ir.visit import op_expressions, placeholders, postorder, reads, topological_ops
from tensorad.progress import advance, expect, progress
from tensorad.simplify.bounds.reads import size_conditions
from tensorad.tuning import SECONDS, Task, tuned, wide_range

if TYPE_CHECKING:
    from tensorad.display.schedule import ScheduleReport

Outputs = Tensor | Sequence[Tensor]


@progress("building")
@old_objects_at_rest()
def build(
    outputs: Outputs,
    inputs: Sequence[Tensor],
    name: str | None = None,
    *,
    assume_in_bounds: bool = False,
    schedule: Given = None,
    tune: bool | float | Mapping[str, int] = False,
) -> CompiledFunction:
    """Compile `outputs` as a function of `inputs`, which may be any tensors of the program.

    Args:
        outputs: a tensor, or several.
        inputs: the arguments, in order; a listed compute is read from the caller.
        name: what errors call the function.
        assume_in_bounds: leave out the checks of indices that come from data.
        schedule: a `Schedule` for all loops, or one per tensor name: {"Y": Schedule(...)}.
        tune: True to measure other schedules than the analysis chose, for at most ten seconds,
            or so many seconds, or at these sizes. Results keep their bits. What was found is
            remembered, on disk too if TENSORAD_CACHE_DIR is set.
    Raises:
        BuildError: an output needs a placeholder that is not an input, two inputs have one
            name, something is not a tensor, or the schedule cannot be followed.
        ShapeError: an output has a row for each iteration of a loop of which only the run tells
            how often it runs.
        LimitError: a full Jacobian that would be stored exceeds
            TENSORAD_DENSE_JACOBIAN_ELEMENTS.
    """
    roots = _output_list(outputs)
    check_settled(roots, "build")
    arguments = check_inputs(inputs)
    check_dense([t for t in roots if t not in dict.fromkeys(arguments)])

    made = partial(_built, roots, arguments, name or roots[0].name, assume_in_bounds)
    if tune is False:
        return made(schedule)
    sizes = tune if isinstance(tune, Mapping) else {}
    seconds = SECONDS if tune is True or isinstance(tune, Mapping) else _seconds(tune)
    first = made(schedule)
    sets = [_valid_arguments(first, sizes, n, "tune")[0] for n in range(2)]
    sets[1] = [wide_range(a, n) for n, a in enumerate(sets[1])]
    program = lower_program(roots, arguments, choices=schedule)
    ops = [op for op, _ in needed_ops(roots, arguments)]
    return made(tuned(Task(made, program, ops, schedules(schedule), sets, sizes), seconds))


def _built(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    name: str,
    assume_in_bounds: bool,
    choices: Given | Schedules,
) -> CompiledFunction:
    """The function by decisions that are made; pickles of it call this."""
    ops = [op for op, _ in needed_ops(outputs, inputs)]
    expect(len(ops) + len(inner_ops(ops)))
    sized = [op for op in ops if size_conditions(op)]
    with Compiler(preparation()) as compiler:

        def begin(kernel: Kernel) -> None:
            compiler.begin(kernel)
            advance()

        program = lower_program(
            outputs, inputs, assume_in_bounds=assume_in_bounds, choices=choices, made=begin
        )
        check_dense([t for kernel in program.kernels for t in kernel.writes])
        recipe = partial(_built, outputs, inputs, name, assume_in_bounds, choices)
        return CompiledFunction(outputs, program, name, sized, compiler, recipe)


def _seconds(tune: object) -> float:
    if not isinstance(tune, (int, float)) or not 0 <= tune < inf:
        raise BuildError(
            f"tune={tune!r} is no time to measure in.",
            where="build",
            hint='pass True, a number of seconds, or sizes to measure at: tune={"n": 1024}.',
        )
    return float(tune)


def _output_list(outputs: object) -> list[Tensor]:
    if isinstance(outputs, Tensor):
        return [outputs]
    if not isinstance(outputs, (list, tuple)):
        raise _not_a_tensor("output", 0, outputs)
    if not outputs:
        raise BuildError("there are no outputs.", hint="pass a tensor or a list of tensors.")
    for n, t in enumerate(outputs):
        if not isinstance(t, Tensor):
            raise _not_a_tensor("output", n, t)
    return list(outputs)


def check_inputs(inputs: object) -> list[Tensor]:
    """The inputs as a list of distinct tensors with distinct names."""
    if isinstance(inputs, Tensor):
        return [inputs]
    if not isinstance(inputs, (list, tuple)):
        raise _not_a_tensor("input", 0, inputs)
    seen: dict[Tensor, None] = {}
    names: dict[str, Tensor] = {}
    for n, t in enumerate(inputs):
        if not isinstance(t, Tensor):
            raise _not_a_tensor("input", n, t)
        if t in seen:
            raise BuildError(f"input {t.name} is listed twice.", hint="list each input once.")
        if t.name in names:
            raise BuildError(
                f"two inputs are called {t.name}.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)} and "
                f"{t.name} : {t.dtype} {format_shape(names[t.name].shape)}",
                hint="give them different names, so that errors can tell them apart.",
            )
        seen[t] = None
        names[t.name] = t
    return list(inputs)


def _not_a_tensor(role: str, position: int, value: object) -> BuildError:
    return BuildError(
        f"{role} {position} is not a tensor but {type(value).__name__}.",
        hint="ta.function(f) compiles functions of arrays; or call f with placeholders."
        if callable(value)
        else "pass tensors made by placeholder, compute or an operator, not arrays or shapes.",
    )


def evaluate(outputs: Outputs, arrays: Mapping[Tensor, object], **sizes: object) -> Any:
    """Build and run once.

    Args:
        arrays: the value of every placeholder the outputs need (or of any other tensor).
    """
    given = check_arrays(arrays, "evaluate")
    return build(outputs, list(given))(*given.values(), **sizes)


class Lowered:
    """The loops of a program; `str` and Jupyter show them.

    Attributes:
        decisions: what the schedule told about itself.
        reasons: whether `str` has them, with predicted costs.
    """

    def __init__(
        self, program: LoopProgram, decisions: Sequence[Decision] = (), *, reasons: bool = False
    ) -> None:
        self.program = program
        self.decisions = tuple(decisions)
        self.reasons = reasons

    def __str__(self) -> str:
        return format_loops(self.program, self.report().comments() if self.reasons else {})

    def report(self, **sizes: int) -> ScheduleReport:
        """What was chosen for each kernel and why, with predicted operations and bytes.

        Args:
            sizes: numbers for symbolic sizes; others count as 1024.
        """
        from tensorad.display.schedule import ScheduleReport

        return ScheduleReport(self.program, self.decisions, sizes)

    def __repr__(self) -> str:
        names = ", ".join([t.name for t in self.program.outputs])
        return f"<Lowered {names}: {len(self.program.kernels)} kernels>"

    def _repr_html_(self) -> str:
        from tensorad.display.loops import loops_html

        return loops_html(str(self))


def lower(
    outputs: Outputs,
    inputs: Sequence[Tensor] | None = None,
    *,
    schedule: bool | Given = None,
) -> Lowered:
    """The loops that compute `outputs`; without `inputs` from all their placeholders.

    Args:
        schedule: False for the loops as the formulas are written; otherwise those that are
            compiled, by choices as `build` takes them; True prints the reasons with them.
    """
    roots = _output_list(outputs)
    arguments = placeholders(roots) if inputs is None else check_inputs(inputs)
    if schedule is False:
        return Lowered(lower_program(roots, arguments, schedule=False))
    choices = None if schedule is True else schedule
    with listening(Decision) as decisions:
        program = lower_program(roots, arguments, choices=choices)
    return Lowered(program, decisions, reasons=schedule is True)


def show_lowered(outputs: Outputs, inputs: Sequence[Tensor]) -> None:
    """Print the loops that compute `outputs` from `inputs`."""
    print(lower(outputs, inputs))  # the function's purpose


def measure_performance(
    outputs: Outputs, inputs: Sequence[Tensor], min_seconds: float = 1.0, **sizes: int
) -> float:
    """Milliseconds of one call on random arrays: the median of calls over `min_seconds`.

    Args:
        sizes: a number for every symbolic size.
    Raises:
        BindError: a shape has a size without a number.
    """
    f = build(outputs, inputs)
    arrays, results = _valid_arguments(f, sizes, 0, "measure_performance")
    targets = [results] if isinstance(results, np.ndarray) else results
    return median_milliseconds(lambda: f(*arrays, out=targets, **sizes), min_seconds)


def median_milliseconds(call: Callable[[], object], min_seconds: float) -> float:
    """The median of calls over `min_seconds`, at least one."""
    times: list[float] = []
    end = time.perf_counter() + min_seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def _valid_arguments(
    f: CompiledFunction, sizes: Mapping[str, int], seed: int, caller: str
) -> tuple[list[Array], Any]:
    """Random arguments that no index check refuses, and the results."""
    arrays = random_arguments(f, sizes, seed, caller)
    try:
        return arrays, f(*arrays, **sizes)
    except BoundsError:  # an index is computed from the data: 0 is the index most likely valid
        arrays = [np.zeros_like(a) if a.dtype.kind in "iu" else a for a in arrays]
        return arrays, f(*arrays, **sizes)


def random_arguments(
    f: CompiledFunction,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    caller: str = "measure_performance",
) -> list[Array]:
    """Random arrays of the shapes a function takes at these sizes; integers are valid indices."""
    rng = np.random.default_rng(seed)
    limits = index_limits(f.outputs)
    numbers: dict[Expr, int] = {
        size_var(name): size_number(name, n) for name, n in (sizes or {}).items()
    }
    arrays: list[Array] = []
    for t in [t for t in f.inputs if is_record(t.dtype)]:
        raise BindError(
            f"{caller} cannot make values of the data type {t.dtype}, which {t.name} has.",
            where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
            hint="build the function, and call it with values of your own.",
        )
    for t in f.inputs:
        needed = postorder(*[dim_expr(n) for n in t.shape])
        missing = [e.name for e in needed if isinstance(e, Size) and e not in numbers]
        if missing:
            raise BindError(
                f"{caller} needs a number for the size {missing[0]} of {t.name}.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint=f"pass it: tune={{'{missing[0]}': 8}}."
                if caller == "tune"
                else f"pass it as a keyword: {caller}(..., {missing[0]}=8).",
            )
        shape, dtype = shape_values(t.shape, numbers), np.dtype(str(t.dtype))
        if dtype.kind == "f":
            arrays.append(rng.uniform(-1, 1, shape).astype(dtype))
        elif dtype.kind == "b":
            arrays.append(rng.integers(0, 2, shape).astype(dtype))
        else:
            arrays.append(rng.integers(0, limits.get(t, 8), shape).astype(dtype))
    return arrays


def index_limits(outputs: Sequence[Tensor]) -> dict[Tensor, int]:
    """For tensors read inside an index: the smallest extent they index."""
    limits: dict[Tensor, int] = {}
    for op in topological_ops(outputs):
        for e in reads(*op_expressions(op)):
            for index, extent in zip(e.indices, e.tensor.shape, strict=True):
                for inner in reads(index):
                    n = extent if isinstance(extent, int) else 1
                    limits[inner.tensor] = max(1, min(n, limits.get(inner.tensor, n)))
    return limits
