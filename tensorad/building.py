"""From tensors to results: lower, build, call, evaluate, measure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.autodiff.dense import check_dense, check_dense_shape
from tensorad.codegen.arguments import (
    Parameter,
    SizeBinding,
    address_of,
    check_output,
    check_overlap,
)
from tensorad.codegen.choices import Choices, Given
from tensorad.codegen.loop_printer import format_loops
from tensorad.codegen.loopir import LoopProgram
from tensorad.codegen.lower import lower_program, needed_ops
from tensorad.codegen.memory import Array, OutputBlocks, bytes_of, shape_values, size_value
from tensorad.codegen.runtime import Executable, Layout
from tensorad.errors import BindError, BoundsError, BuildError, ShapeError
from tensorad.ir.arguments import check_arrays
from tensorad.ir.expr import Expr, Size, size_var
from tensorad.ir.facts import facts_about
from tensorad.ir.tensor import Op, Placeholder, Tensor, dim_expr, format_shape
from tensorad.ir.visit import op_expressions, postorder, reads, topological_ops
from tensorad.simplify.bounds import size_conditions, size_violation

Outputs = Tensor | Sequence[Tensor]
WRITABLE: Final = 0x501
"""NumPy's flags C_CONTIGUOUS, ALIGNED and WRITEABLE."""


class CompiledFunction:
    """Machine code for some outputs as a function of NumPy arrays.

    Call it with one array per input, in order; it returns one array per output (the array
    itself if there is one output). Safe to call from several threads at once.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        program: LoopProgram,
        name: str,
        sized: Sequence[Op] = (),
    ) -> None:
        self.name = name
        self.inputs: tuple[Tensor, ...] = program.inputs
        self.outputs: tuple[Tensor, ...] = tuple(outputs)
        self._single = len(outputs) == 1
        self._parameters = [Parameter(t) for t in program.inputs]
        self._executable = Executable(program)
        inner = [life.tensor for life in self._executable.temporaries]
        used = [*program.inputs, *outputs, *inner]
        self._binding = SizeBinding(self._parameters, used, self._executable.sizes)
        self.sizes: tuple[str, ...] = tuple([str(s) for s in self._binding.sizes])
        """The symbolic sizes, by name: the keywords of a call."""
        self._sizes = tuple(dict.fromkeys([*self._binding.sizes, *self._executable.sizes]))
        known = dict.fromkeys(self._sizes)
        self._facts = [
            fact
            for fact in facts_about(self._sizes)
            if all(s in known for s in postorder(fact) if isinstance(s, Size))
        ]
        self._sized = sized
        """Operations whose reads are in bounds for some sizes only."""
        self._blocks = [OutputBlocks(np.dtype(str(t.dtype))) for t in outputs]
        self._fixed: tuple[Layout, list[tuple[int, ...]]] | None = None
        if not self._sizes:
            shapes = [self._output_shape(t, {}) for t in outputs]
            self._fixed = (self._executable.layout({}, ()), shapes)

    def __repr__(self) -> str:
        inputs = ", ".join([t.name for t in self.inputs])
        outputs = ", ".join([t.name for t in self.outputs])
        return f"<CompiledFunction {self.name}({inputs}) -> {outputs}>"

    def __call__(self, *arrays: object, out: object = None, **sizes: object) -> Any:
        """Run on arrays.

        Args:
            out: arrays to write to, one per output (for one output the bare array too).
            sizes: symbolic sizes that no argument carries, and any others as a check.
        Raises:
            BindError, ShapeError, DTypeError: the arguments do not fit; nothing was written.
            BoundsError: an index lies outside its tensor at these sizes or for this data.
            LimitError: an array would exceed TENSORAD_MAX_BYTES, or a full Jacobian
                TENSORAD_DENSE_JACOBIAN_ELEMENTS.
        """
        if len(arrays) != len(self._parameters):
            raise self._wrong_count(len(arrays))
        if self._fixed is None or sizes:
            return self._call_slowly(arrays, out, sizes)
        addresses = []
        for p, a in zip(self._parameters, arrays, strict=True):
            if not p.ready(a):
                return self._call_slowly(arrays, out, sizes)
            addresses.append(address_of(a))  # type: ignore[arg-type]  # `ready` saw an array
        layout, shapes = self._fixed
        if out is None:
            results = [b.array(s) for b, s in zip(self._blocks, shapes, strict=True)]
        else:
            ready = self._ready_outputs(out, shapes, arrays)
            if ready is None:
                return self._call_slowly(arrays, out, sizes)
            results = ready
        addresses += [address_of(r) for r in results]
        self._executable.run(layout, addresses)
        return results[0] if self._single else results

    def _ready_outputs(
        self, out: object, shapes: Sequence[tuple[int, ...]], arrays: Sequence[object]
    ) -> list[Array] | None:
        """The arrays of `out` if native code may write to them as they are."""
        given = [out] if self._single and isinstance(out, np.ndarray) else out
        if not isinstance(given, (list, tuple)) or len(given) != len(shapes):
            return None
        taken = list(arrays)
        for array, block, shape in zip(given, self._blocks, shapes, strict=True):
            if type(array) is not np.ndarray or array.dtype is not block.dtype:
                return None
            if array.shape != shape or array.flags.num & WRITABLE != WRITABLE:
                return None
            if any(np.may_share_memory(array, other) for other in taken):
                return None
            taken.append(array)
        return list(given)

    def _call_slowly(
        self, arrays: Sequence[object], out: object, given: Mapping[str, object]
    ) -> Any:
        """The same with arguments that need conversion, symbolic sizes or `out`."""
        inputs = [p.convert(a) for p, a in zip(self._parameters, arrays, strict=True)]
        sizes = self._binding.bind(inputs, given)
        self._check_facts(sizes)
        self._check_reads(sizes)
        shapes = [self._output_shape(t, sizes) for t in self.outputs]
        wanted = self._given_outputs(out, shapes, inputs)
        layout = self._executable.layout(sizes, tuple([sizes[s] for s in self._sizes]))
        results = []
        for n, (b, shape) in enumerate(zip(self._blocks, shapes, strict=True)):
            direct = wanted is not None and wanted[n].flags.num & WRITABLE == WRITABLE
            results.append(wanted[n] if wanted is not None and direct else b.array(shape))
        self._executable.run(layout, [address_of(a) for a in (*inputs, *results)])
        if wanted is not None:
            for target, source in zip(wanted, results, strict=True):
                if target is not source:
                    np.copyto(target, source)
            results = wanted
        return results[0] if self._single else results

    def _wrong_count(self, count: int) -> BindError:
        names = ", ".join([p.name for p in self._parameters])
        return BindError(
            f"{self.name} takes {_counted(len(self._parameters), 'array')}, got {count}.",
            where=f"{self.name}({names})",
            hint="pass one array per input, in the order given to build.",
        )

    def _output_shape(self, t: Tensor, sizes: Mapping[Expr, int]) -> tuple[int, ...]:
        bytes_of(t, sizes)  # raises when it is too large
        shape = shape_values(t.shape, sizes)
        check_dense_shape(t, shape)
        return shape

    def _check_facts(self, sizes: Mapping[Expr, int]) -> None:
        for fact in self._facts:
            if not size_value(fact, sizes):
                used = [s for s in postorder(fact) if isinstance(s, Size)]
                values = ", ".join([f"{s.name} = {sizes[s]}" for s in used])
                raise ShapeError(
                    f"the arguments have {values}, which breaks an assumption of the program.",
                    where=f"assume({fact})",
                    hint="pass arrays whose sizes satisfy it, or drop the assumption.",
                )

    def _check_reads(self, sizes: Mapping[Expr, int]) -> None:
        for op in self._sized:
            error = size_violation(op, sizes)
            if error is not None:
                raise error

    def _given_outputs(
        self, out: object, shapes: Sequence[tuple[int, ...]], inputs: Sequence[Array]
    ) -> list[Array] | None:
        if out is None:
            return None
        given = [out] if self._single and not isinstance(out, (list, tuple)) else out
        if not isinstance(given, (list, tuple)) or len(given) != len(self.outputs):
            got = f"{len(given)}" if isinstance(given, (list, tuple)) else type(out).__name__
            raise BindError(
                f"out needs {_counted(len(self.outputs), 'array')}, got {got}.",
                where=repr(self),
                hint="pass a list with one array per output.",
            )
        arrays = [
            check_output(t, n, a, s)
            for n, (t, a, s) in enumerate(zip(self.outputs, given, shapes, strict=True))
        ]
        names = [p.name for p in self._parameters]
        check_overlap(
            [(f"out[{n}]", a) for n, a in enumerate(arrays)],
            [(f"argument {n}", a) for n, a in zip(names, inputs, strict=True)],
        )
        return arrays


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def build(
    outputs: Outputs,
    inputs: Sequence[Tensor],
    name: str | None = None,
    *,
    assume_in_bounds: bool = False,
    schedule: Given = None,
) -> CompiledFunction:
    """Compile `outputs` as a function of `inputs`, which may be any tensors of the program.

    Args:
        outputs: a tensor, or several.
        inputs: the arguments, in order; a listed compute is read from the caller.
        name: what errors call the function.
        assume_in_bounds: leave out the checks of indices that come from data.
        schedule: a `Schedule` for all loops, or one per tensor name: {"Y": Schedule(...)}.
    Raises:
        BuildError: an output needs a placeholder that is not an input, two inputs have one
            name, something is not a tensor, or the schedule cannot be followed.
        LimitError: a full Jacobian that would be stored exceeds
            TENSORAD_DENSE_JACOBIAN_ELEMENTS.
    """
    roots = _output_list(outputs)
    arguments = check_inputs(inputs)
    check_dense([t for t in roots if t not in dict.fromkeys(arguments)])
    program = lower_program(roots, arguments, assume_in_bounds=assume_in_bounds, choices=schedule)
    check_dense([t for kernel in program.kernels for t in kernel.writes])
    sized = [op for op, _ in needed_ops(roots, arguments) if size_conditions(op)]
    return CompiledFunction(roots, program, name or roots[0].name, sized)


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
        hint="pass tensors made by placeholder, compute or an operator, not arrays or shapes.",
    )


def evaluate(outputs: Outputs, arrays: Mapping[Tensor, object], **sizes: object) -> Any:
    """Build and run once.

    Args:
        arrays: the value of every placeholder the outputs need (or of any other tensor).
    """
    given = check_arrays(arrays, "evaluate")
    return build(outputs, list(given))(*given.values(), **sizes)


class Lowered:
    """The loops of a program; `str` and Jupyter show them."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program

    def __str__(self) -> str:
        return format_loops(self.program)

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
    schedule: bool | Choices | Mapping[str, Choices] = True,
) -> Lowered:
    """The loops that compute `outputs`; without `inputs` from all their placeholders.

    Args:
        schedule: False for the loops as the formulas are written, True for those that are
            compiled, or choices as `build` takes them.
    """
    roots = _output_list(outputs)
    arguments = placeholders(roots) if inputs is None else check_inputs(inputs)
    if isinstance(schedule, bool):
        return Lowered(lower_program(roots, arguments, schedule=schedule))
    return Lowered(lower_program(roots, arguments, choices=schedule))


def placeholders(roots: Sequence[Tensor]) -> list[Tensor]:
    """The placeholders the tensors depend on, in order of first use."""
    return [
        Tensor(op, 0, op.shape, op.dtype)
        for op in topological_ops(roots)
        if isinstance(op, Placeholder)
    ]


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
    arrays = random_arguments(f, sizes)
    try:
        results = f(*arrays, **sizes)
    except BoundsError:  # an index is computed from the data: 0 is the index most likely valid
        arrays = [np.zeros_like(a) if a.dtype.kind in "iu" else a for a in arrays]
        results = f(*arrays, **sizes)
    targets = [results] if isinstance(results, np.ndarray) else results
    times: list[float] = []
    end = time.perf_counter() + min_seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        f(*arrays, out=targets, **sizes)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def random_arguments(
    f: CompiledFunction, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> list[Array]:
    """Random arrays of the shapes a function takes at these sizes; integers are valid indices."""
    rng = np.random.default_rng(seed)
    limits = index_limits(f.outputs)
    numbers: dict[Expr, int] = {size_var(name): n for name, n in (sizes or {}).items()}
    arrays: list[Array] = []
    for t in f.inputs:
        needed = postorder(*[dim_expr(n) for n in t.shape])
        missing = [e.name for e in needed if isinstance(e, Size) and e not in numbers]
        if missing:
            raise BindError(
                f"measure_performance needs a number for the size {missing[0]} of {t.name}.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint=f"pass it as a keyword: measure_performance(..., {missing[0]}=8).",
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
