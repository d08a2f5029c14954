"""Machine code as a function of NumPy arrays: what a call accepts, makes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from operator import add
from typing import Any, Final

import numpy as np

from tensorad import config
from tensorad.autodiff.counting.dense import check_dense_shape
from tensorad.codegen.entry.checks_ir import MAX_OUTPUTS, READY, WRITABLE
from tensorad.codegen.entry.native_type import Binding, NativeType, Record, is_memoised, native_type
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.runtime.arena import LARGE_BYTES, Array, OutputBlocks
from tensorad.codegen.runtime.arguments import (
    Parameter,
    SizeBinding,
    addresses_of,
    are_disjoint,
    given_outputs,
    listed,
)
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.codegen.runtime.executable import Executable, Layout
from tensorad.codegen.runtime.memory_limit import check_memory
from tensorad.codegen.runtime.memory_report import MemoryUse, memory_use, sizes_given
from tensorad.codegen.runtime.record_layout import native_dtype
from tensorad.codegen.runtime.record_results import RecordCalls
from tensorad.codegen.runtime.record_values import RecordParameter, refuse_out
from tensorad.codegen.runtime.written_out_calls import can_be_written_out, written_out
from tensorad.codegen.threads.settings_version import current_version
from tensorad.errors import BindError, BoundsError, InternalError, ShapeError
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.analysis.sizes import bytes_of, shape_values, size_value
from tensorad.ir.arrays.arguments import by_position
from tensorad.ir.expr import Expr, Size
from tensorad.ir.records import is_record
from tensorad.ir.reference.records import Makers, records
from tensorad.ir.tensor import Op, Tensor
from tensorad.ir.visit import postorder
from tensorad.simplify.bounds.reads import size_violation

_ARRAY: Final = np.ndarray
_NEVER: Final = 1 << 32
"""A flag that no array has."""


class Fixed:
    """What a call needs that has no symbolic sizes, all in numbers."""

    def __init__(
        self, executable: Executable, parameters: Sequence[Parameter],
        blocks: Sequence[OutputBlocks], shapes: Sequence[tuple[int, ...]], *, often: bool,
    ) -> None:  # fmt: skip
        """`often`: whether calls come here each time, not native ones only once."""
        self.executable = executable
        self.layout = executable.layout({}, ())
        self.shapes = list(shapes)
        inputs = [
            (p.dtype, p.shape or (), _NEVER if p.is_bool else READY)  # bools are looked at
            for p in parameters
        ]
        outputs = [(b.dtype, s, WRITABLE) for b, s in zip(blocks, shapes, strict=True)]
        self.wanted = [*inputs, *outputs]
        self.size_bytes = [prod(shape) * dtype.itemsize for dtype, shape, _ in self.wanted]
        self.count = len(parameters)
        self.with_new, self.with_given = [
            written_out(self.wanted, self.size_bytes, len(shapes), self.layout.steps(), given=given)
            if often and can_be_written_out(len(self.wanted))
            else partial(self._run, len(shapes) * given)
            for given in (False, True)
        ]
        """`_run` with results made for the call, and with the caller's."""

    def _run(
        self, targets: int, then: int, arrays: Sequence[object], results: Sequence[object]
    ) -> bool:
        """Run on arrays if native code may use them as they are."""
        addresses = self._addresses(targets, (*arrays, *results))
        if addresses is None:
            return False
        self.executable.run(self.layout, addresses, then)
        return True

    def _addresses(self, targets: int, arrays: Sequence[object]) -> list[int] | None:
        """Where the arrays lie, if native code may use them as they are.

        Args:
            targets: how many at the end are the caller's and may overlap others.
        """
        for (dtype, shape, flags), a in zip(self.wanted, arrays):
            if (
                type(a) is not _ARRAY
                or a.dtype is not dtype
                or a.shape != shape
                or a.flags.num & flags != flags
            ):
                return None
        found = addresses_of(arrays)  # type: ignore[arg-type]  # all seen to be arrays
        if targets:
            ends = list(map(add, found, self.size_bytes))
            if not are_disjoint(found, ends, len(found) - targets):
                return None
        return found


def preparation() -> Callable[[], object] | None:
    """What the first build of a process needs for its calls, whatever its formulas are."""
    if is_memoised(CompiledFunction) or not config.current().native_calls:
        return None
    return partial(native_type, CompiledFunction)


class CompiledFunction:
    """Machine code for some outputs as a function of NumPy arrays.

    Call it with one array per input, in order; it returns one array per output (the array
    itself if there is one output). Safe to call from several threads at once.
    """

    _native: NativeType | None

    def __new__(cls, *args: object, **options: object) -> CompiledFunction:
        wanted = cls is CompiledFunction and config.current().native_calls
        native = native_type(cls) if wanted else None
        made: CompiledFunction = object.__new__(cls if native is None else native.type)
        if native is not None:
            native.prepare(made)
        made._native = native
        return made

    def __init__(
        self,
        outputs: Sequence[Tensor],
        program: LoopProgram,
        name: str,
        sized: Sequence[Op] = (),
        compiler: Compiler | None = None,
        recipe: partial[CompiledFunction] | None = None,
    ) -> None:
        """`recipe`: makes the function anew where it is unpickled."""
        self.name = name
        self._recipe = recipe
        self.inputs: tuple[Tensor, ...] = program.inputs
        self.outputs: tuple[Tensor, ...] = tuple(outputs)
        self._single = len(outputs) == 1
        self._parameters = [
            RecordParameter(t) if is_record(t.dtype) else Parameter(t) for t in program.inputs
        ]
        self._has_records = any(is_record(t.dtype) for t in (*program.inputs, *outputs))
        self._executable = Executable(program, compiler)
        inner = self._executable.all_temporaries
        used = [*program.inputs, *outputs, *inner]
        self._binding = SizeBinding(self._parameters, used, self._executable.sizes)
        self.sizes: tuple[str, ...] = tuple([str(s) for s in self._binding.sizes])
        """The symbolic sizes, by name: the keywords of a call."""
        self._keywords = frozenset(self.sizes)
        self._sizes = tuple(dict.fromkeys([*self._binding.sizes, *self._executable.sizes]))
        known = dict.fromkeys(self._sizes)
        self._facts = [
            fact
            for fact in facts_about(self._sizes)
            if all(s in known for s in postorder(fact) if isinstance(s, Size))
        ]
        self._sized = sized
        """Operations whose reads are in bounds for some sizes only."""
        self._blocks = [OutputBlocks(native_dtype(t.dtype)) for t in outputs]
        self._record = self._connected()
        self._records = RecordCalls(self._executable, self._parameters, outputs, self._blocks)
        self._known_call: tuple[list[tuple[int, ...]], Layout] | None = None
        """What a call with records needs that has no symbolic sizes."""
        self._roomy = 0
        """The version of the settings in which calls without symbolic sizes were found to be within
        the limit."""
        self._fixed: Fixed | None = None
        if not self._sizes and not self._has_records:
            shapes = [self._output_shape(t, {}) for t in outputs]
            often = self._record is None
            self._fixed = Fixed(
                self._executable, self._parameters, self._blocks, shapes, often=often
            )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is None:
            raise InternalError(f"{self.name} was made of loops and cannot be pickled")
        return self._recipe.func, self._recipe.args

    def __copy__(self) -> CompiledFunction:
        return self  # nothing of it changes

    def __deepcopy__(self, memo: object) -> CompiledFunction:
        return self

    def _connected(self) -> Record | None:
        """The table native calls use; None where there are no such calls."""
        native = self._native
        ranks = [t.ndim for t in (*self.inputs, *self.outputs)]
        outputs = [b.dtype for b in self._blocks]
        if native is None or len(outputs) > MAX_OUTPUTS or self._has_records:
            return None
        record = Record([p.dtype for p in self._parameters], outputs, ranks)
        native.connect(self, record)
        return record

    def _learn(
        self, layout: Layout, inputs: Sequence[Array], shapes: list[tuple[int, ...]], then: int
    ) -> None:
        """Let native code take the next calls with arrays of these shapes."""
        if self._record is None or self._record.knows(layout.frames, then):
            return
        all_shapes = [*[a.shape for a in inputs], *shapes]
        binding = Binding(all_shapes, len(inputs), self._record.sizes, layout.frames, then)
        outputs = binding.size_bytes[len(inputs) :]
        binding.allow(
            allocates=max(outputs) < LARGE_BYTES,
            releases=layout.is_long or self._executable.calls_python,
        )
        self._record.learn(binding)

    def __repr__(self) -> str:
        inputs = ", ".join([t.name for t in self.inputs])
        outputs = ", ".join([t.name for t in self.outputs])
        return f"<CompiledFunction {self.name}({inputs}) -> {outputs}>"

    def __call__(self, /, *arrays: object, out: object = None, **sizes: object) -> Any:
        """Run on arrays.

        Args:
            arrays: one per input, of NumPy or of what offers its elements by DLPack, as NumPy asks
                for them or by the buffer protocol; read where they lie, if the layout allows.
            out: arrays to write to, one per output (for one output the bare array too), also of
                other libraries that share their memory; they are returned.
            sizes: symbolic sizes that no argument carries, and any others as a check; inputs by
                name, `f(X=x)`. A size wins over an input of its name.
        Raises:
            BindError, ShapeError, DTypeError: the arguments do not fit; nothing was written.
            BoundsError: an index lies outside its tensor at these sizes or for this data.
            LimitError: the call would exceed TENSORAD_MAX_BYTES, or a full Jacobian
                TENSORAD_DENSE_JACOBIAN_ELEMENTS.
        """
        fixed = self._fixed
        if fixed is None or sizes or len(arrays) != fixed.count:
            return self._call_slowly(arrays, out, sizes)
        then = current_version()
        if self._roomy != then:
            self._roomy = then * self._has_room(fixed.layout, arrays, fixed.shapes, out)
        results: list[Any]
        if out is None:
            results = [b.array(s) for b, s in zip(self._blocks, fixed.shapes, strict=True)]
            ran = fixed.with_new(then, arrays, results)
        elif self._single and type(out) is _ARRAY:
            results = [out]
            ran = fixed.with_given(then, arrays, results)
        elif type(out) in (list, tuple) and len(out) == len(self._blocks):  # type: ignore[arg-type]
            results = list(out)  # type: ignore[call-overload]
            ran = fixed.with_given(then, arrays, results)
        else:
            return self._call_slowly(arrays, out, sizes)
        if not ran:
            return self._call_slowly(arrays, out, sizes)
        if self._record is not None and self._roomy == then:
            self._learn(fixed.layout, arrays, fixed.shapes, then)  # type: ignore[arg-type]
        return results[0] if self._single else results

    @property
    def memory(self) -> MemoryUse:
        """What a call uses, in bytes; with symbolic sizes ask `memory_at(n=...)`."""
        return self.memory_at()

    def memory_at(self, **sizes: int) -> MemoryUse:
        """What a call at these symbolic sizes uses, in bytes.

        Raises:
            BindError: a symbolic size is missing or unknown.
        """
        return memory_use(self._executable, self.name, self._sizes, sizes)

    def c_entry(self, **sizes: int) -> CEntry:
        """The function at these symbolic sizes as a function of C, for callers without Python.

        Args:
            sizes: every symbolic size, by name.
        Raises:
            BindError: a size is missing, unknown, or no number from 0 on; or it takes or returns
                values of data types.
            BoundsError, ShapeError: a read leaves its tensor at these sizes; a shape is negative.
            LimitError: a call would exceed TENSORAD_MAX_BYTES.
        """
        if self._has_records:
            raise BindError(
                f"{self.name} takes or returns values of data types, which are no arrays.",
                where=repr(self),
                hint="build a function whose inputs and outputs are arrays.",
            )
        known = sizes_given(self.name, self._sizes, sizes, "c_entry", "ask for f.c_entry()")
        self._check_facts(known)
        self._check_reads(known)
        inputs, outputs = [
            [self._output_shape(t, known) for t in ts] for ts in (self.inputs, self.outputs)
        ]
        layout = self._executable.layout(known, tuple([known[s] for s in self._sizes]))
        check_memory(self.name, layout, (), list(zip(self.outputs, outputs, strict=True)), None)
        names = [t.name for t in (*self.inputs, *self.outputs)]
        return CEntry(self.name, layout, inputs, outputs, names)

    def _call_slowly(
        self, arrays: Sequence[object], out: object, given: Mapping[str, object]
    ) -> Any:
        """The same with arguments that need conversion, symbolic sizes or `out`."""
        arrays, given = self._placed(arrays, given)
        then = current_version()
        accepted, shapes, layout = self._checked(arrays, given)
        has_room = self._has_room(layout, accepted, shapes, out)
        if self._has_records:
            return self._with_records(layout, accepted, shapes, out, then)
        inputs = [p.fitted(a) for p, a in zip(self._parameters, accepted, strict=True)]
        wanted = self._targets(out, shapes, inputs)
        results = []
        for n, (b, shape) in enumerate(zip(self._blocks, shapes, strict=True)):
            direct = wanted is not None and wanted[n].flags.num & WRITABLE == WRITABLE
            results.append(wanted[n] if wanted is not None and direct else b.array(shape))
        self._executable.run(layout, addresses_of((*inputs, *results)), then)
        if has_room and not given:  # then the shapes alone tell the sizes
            self._learn(layout, inputs, shapes, then)
        if wanted is not None:
            for target, source in zip(wanted, results, strict=True):
                if target is not source:
                    np.copyto(target, source)
            results = listed(out)
        return results[0] if self._single else results

    def _with_records(
        self, layout: Layout, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]],
        out: object, then: int,
    ) -> Any:  # fmt: skip
        """Run on records, or for them."""
        refuse_out(out, self.outputs)
        inputs = [p.fitted(a) for p, a in zip(self._parameters, arrays, strict=True)]
        targets = self._targets(out, shapes, inputs)
        found = self._records.run(layout, inputs, shapes, then, records)
        if targets is not None:
            for target, source in zip(targets, found, strict=True):
                np.copyto(target, source)
            found = listed(out)
        return found[0] if self._single else found

    def with_values(self, arrays: Sequence[object], makers: Makers) -> list[Any]:
        """The results of a call, records being made by what is given for their types.

        Raises:
            BindError, ShapeError, DTypeError, BoundsError, LimitError: as for calls.
        """
        then = current_version()
        arrays, _ = self._placed(arrays, {})
        known = self._known_call if self._roomy == then else None
        ready = None if known is None else self._records.ready(arrays)
        if known is None or ready is None:
            ready, shapes, layout = self._checked(arrays, {})
            self._roomy = then * self._has_room(layout, ready, shapes, None)
            known = shapes, layout
            self._known_call = None if self._sizes else known
        shapes, layout = known
        found = self._records.run(layout, ready, shapes, then, makers)
        own = [is_record(t.dtype) and not t.shape for t in self.outputs]
        return [a.item() if single else a for a, single in zip(found, own, strict=True)]

    def _checked(
        self, arrays: Sequence[object], given: Mapping[str, object]
    ) -> tuple[list[Array], list[tuple[int, ...]], Layout]:
        """The arguments as arrays, the shapes of the outputs, and the memory plan."""
        accepted = [p.accepted(a) for p, a in zip(self._parameters, arrays, strict=True)]
        sizes = self._binding.bind(accepted, given)
        self._check_facts(sizes)
        self._check_reads(sizes)
        shapes = [self._output_shape(t, sizes) for t in self.outputs]
        layout = self._executable.layout(sizes, tuple([sizes[s] for s in self._sizes]))
        return accepted, shapes, layout

    def takes(self, arrays: Sequence[object]) -> bool:
        """Whether no read leaves its tensor, and no extent is negative, at these arrays' sizes."""
        try:
            self._checked(arrays, {})
        except (BoundsError, ShapeError):
            return False
        return True

    def _has_room(
        self, layout: Layout, arrays: Sequence[object], shapes: Sequence[tuple[int, ...]],
        out: object,
    ) -> bool:  # fmt: skip
        """Whether calls like this one need not be asked for their memory again."""
        inputs = list(zip(self._parameters, arrays, strict=True))
        outputs = list(zip(self.outputs, shapes, strict=True))
        return check_memory(self.name, layout, inputs, outputs, out)

    def _placed(
        self, arrays: Sequence[object], given: Mapping[str, object]
    ) -> tuple[Sequence[object], Mapping[str, object]]:
        """One argument per input, in their order, and what is given for sizes."""
        if len(arrays) == len(self._parameters) and self._keywords.issuperset(given):
            return arrays, given
        names = [p.name for p in self._parameters]
        return by_position(self.name, names, self.sizes, arrays, given)

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

    def _targets(
        self, out: object, shapes: Sequence[tuple[int, ...]], inputs: Sequence[Array]
    ) -> list[Array] | None:
        named = [(f"argument {p.name}", a) for p, a in zip(self._parameters, inputs, strict=True)]
        return None if out is None else given_outputs(repr(self), self.outputs, out, shapes, named)
