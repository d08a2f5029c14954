"""A loop program as machine code: its table of steps, its buffers, and one call into it."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad import config
from tensorad.codegen.cost.call_length import LONG_POINTS, SLICE_POINTS, points_run
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.run_sizes import Products
from tensorad.codegen.loops.scratch import scratch_bytes
from tensorad.codegen.runtime.alias_outputs import OutputAlias, alias_temporaries
from tensorad.codegen.runtime.arena import Array, plan_arena
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.codegen.runtime.failures import (
    no_longer_known,
    out_of_bounds,
    too_deep,
    too_large,
)
from tensorad.codegen.runtime.frames import (
    LARGE_ARENA,
    Failure,
    Frames,
    Program,
    Template,
    Words,
)
from tensorad.codegen.runtime.kernel_cache import checks_of
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.codegen.runtime.routines import (
    RoutineCode,
    RoutineTable,
    word_sizes,
    word_value,
)
from tensorad.codegen.runtime.step_table import StepTable
from tensorad.codegen.threads import native_settings
from tensorad.codegen.threads.settings_version import current_version
from tensorad.errors import BoundsError, InternalError
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Constant, Tensor
from tensorad.process import Guard

KEPT_LAYOUTS: Final = 16
"""Bindings of symbolic sizes whose memory plans are kept."""


class Steps(NamedTuple):
    """What a call on a plan does besides its checks.

    Attributes:
        layout: to be prepared first if that is out of date.
        words: the type of the table of addresses.
        reach, address, error: of `Frames`.
    """

    layout: Layout
    words: type[Words]
    reach: Callable[[int, object, object], int]
    address: int
    error: Callable[[int], BaseException]


_guard = Guard()
"""Held while a plan gets its frames; one for all, so that a forked child can have a new one."""


class Layout:
    """The memory plan of one binding of the sizes, with its frames.

    Attributes:
        prepared: the version of the settings that native code has been told for it.
    """

    def __init__(self, program: Executable, sizes: Mapping[Expr, int]) -> None:
        self._program = program
        self.numbers = dict(sizes)
        self.prepared = 0
        offsets, self._bytes = plan_arena(program.temporaries, sizes)
        words = [word_value(w, sizes) for w in program.words]
        routines = program.routine_table(sizes)
        self.scratch_bytes = max([scratch_bytes(k, sizes) for k in program.with_scratch], default=0)
        """What each thread needs for itself."""
        self._template = Template(
            program.shared, words, offsets, self._bytes, self.scratch_bytes, routines
        )
        self._frames: Frames | None = None

    @property
    def frames(self) -> Frames:
        """The frames of calls, from the first call on."""
        if self._frames is None:
            made = Frames(self._template, self._program, self._points // SLICE_POINTS)
            with _guard.lock:  # all threads have the same ones
                self._frames = self._frames or made
        return self._frames

    def prepare(self, now: int) -> None:
        """Have native code know the settings, of this version or a later one."""
        native_settings.follow(shares=self._program.is_parallel, grows=self._program.grows)
        self.prepared = now

    @cached_property
    def _points(self) -> int:
        """Statements run, about; at least as many as of a long call if it may repeat them."""
        least = SLICE_POINTS if self._program.repeats else 0
        return max(least, points_run(self._program.kernels, self.numbers))

    @property
    def is_long(self) -> bool:
        """Whether other Python threads should run during a call."""
        return self._points >= LONG_POINTS

    def temporaries(self) -> list[tuple[Tensor, tuple[int, ...]]]:
        """Those in the arena, with their shapes."""
        found = [life.tensor for life in self._program.temporaries]
        return [(t, shape_values(t.shape, self.numbers)) for t in found]

    @property
    def own_bytes(self) -> int:
        """What a call has besides its arrays: temporaries, scratch memory and constants."""
        program = self._program
        return self._bytes + program.threads * self.scratch_bytes + program.constant_bytes

    def steps(self) -> Steps:
        """The parts of `Executable.run` on this plan."""
        frames = self.frames
        return Steps(self, self._program.addresses, frames.reach, frames.address, frames.error)

    def forget_large(self) -> None:
        """Give large frames that no call uses back to the system."""
        if self._bytes >= LARGE_ARENA and self._frames is not None:
            self._frames.leave()


class Executable:
    """Compiled kernels in order.

    Slots: inputs, outputs, constants, temporaries of the arena, temporaries in outputs, tensors of
    which only the run tells the size, tensors that are placed where others lie.
    """

    def __init__(
        self,
        program: LoopProgram,
        compiler: Compiler | None = None,
    ) -> None:
        """A program ready to run; `compiler` has the kernels already, in order."""
        self.inputs, self.outputs = program.inputs, program.outputs
        self._slots: dict[Tensor, int] = {}
        for t in (*program.inputs, *program.outputs):
            if t in self._slots:
                raise InternalError(f"{t.name} is given two slots of one call")
            self._slots[t] = len(self._slots)
        self.n_arguments = len(self._slots)
        self.addresses: type[Words] = ctypes.c_int64 * self.n_arguments
        """The table of addresses that a call is given."""
        inside = alias_temporaries(program) if program.is_straight else {}
        buffers = find_buffers(program.nodes, dict.fromkeys((*self._slots, *inside)))
        self.temporaries = buffers.temporaries
        for t in (*buffers.constants, *[life.tensor for life in buffers.temporaries]):
            self._slots[t] = len(self._slots)
        self.inside = self._places(inside)
        for t in (*buffers.dynamic, *buffers.placed):
            self._slots.setdefault(t, len(self._slots))
        self.routines = [RoutineCode(r) for r in program.routines]
        self._constants = {t: constant_array(t) for t in self._all_constants(buffers.constants)}
        self.with_scratch = [k for k in program.kernels if k.scratch]
        self.stores = tuple(dict.fromkeys([t for r in program.repeats for t in r.stores]))
        """What loops fill with a row per iteration."""
        self._kernels: list[object] = []
        with compiler or Compiler() as used:
            compiled = dict(zip(program.kernels, used.finished(program.kernels), strict=True))
        self._kernels = [made for made, _ in compiled.values()]
        heap = {t: 2 + 2 * n for n, t in enumerate(buffers.dynamic)}
        numbers = {r.definition: n for n, r in enumerate(program.routines)}
        self._table = table = StepTable(
            self._slots, compiled, heap, numbers, Products(told=program.products)
        )
        routines = [(c.routine, c.scope) for c in self.routines]
        self.steps, self.indices, self._entries = table.tables(program.nodes, routines)
        self.words = table.words
        self.grows = bool(buffers.dynamic or table.taking)
        """Whether a call takes memory while it runs."""
        every = [*table.words, *[w for c in self.routines for w in c.scope.words]]
        self.sizes = list(dict.fromkeys([s for w in every for s in word_sizes(w)]))
        """The symbolic sizes that a call is given."""
        self.repeats = not program.is_straight
        constants = [self._constants[t].ctypes.data for t in buffers.constants]
        self._is_parallel = bool((self.steps[:, 2] == block.PARALLEL).any())
        self.shared = Program(
            self.steps, self.indices, self.inside, self.n_arguments, len(self._slots),
            len(buffers.dynamic), constants, self.repeats, self._is_parallel,
        )  # fmt: skip
        """What all frames share."""
        self.kernels = program.kernels
        self._layouts: OrderedDict[tuple[int, ...], Layout] = OrderedDict()

    def _all_constants(self, own: Iterable[Tensor]) -> dict[Tensor, None]:
        return dict.fromkeys([*own, *[t for c in self.routines for t in c.constants]])

    def routine_table(self, sizes: Mapping[Expr, int]) -> RoutineTable | None:
        """The definitions at these sizes; None where there are none, and no records."""
        if (self.steps[:, 2] < block.MAKE).all():
            return None
        addresses = {t: a.ctypes.data for t, a in self._constants.items()}
        return RoutineTable(self.routines, self._entries, addresses, sizes)

    def _places(self, inside: Mapping[Tensor, OutputAlias]) -> Array:
        """What the driver needs to place the temporaries that lie in outputs."""
        words = [len(inside)]
        for t, place in inside.items():
            words += [self._slots.setdefault(t, len(self._slots)), self._slots[place.output]]
            words.append(place.offset)
        return np.array(words, np.int64)

    @property
    def calls_python(self) -> bool:
        """Whether functions of Python are among the steps."""
        return bool(self._table.python)

    @property
    def threads(self) -> int:
        """How many threads a call may use now."""
        return config.current().num_threads if self._is_parallel else 1

    @property
    def constant_bytes(self) -> int:
        """What tables that are part of the formulas take."""
        return sum([a.nbytes for a in self._constants.values()])

    def layout(self, sizes: Mapping[Expr, int], key: tuple[int, ...]) -> Layout:
        """The memory plan for these sizes; `key` has their numbers in a fixed order.

        Raises:
            LimitError: temporaries exceed TENSORAD_MAX_BYTES.
        """
        found = self._layouts.get(key)
        if found is None:
            for other in list(self._layouts.values()):
                other.forget_large()
            found = self._layouts[key] = Layout(self, sizes)
            while len(self._layouts) > KEPT_LAYOUTS:
                self._layouts.popitem(last=False)
        return found

    @property
    def all_temporaries(self) -> list[Tensor]:
        """Those of the call, and of the definitions that it calls."""
        every = [*self.temporaries, *[life for c in self.routines for life in c.temporaries]]
        return [life.tensor for life in every]

    @property
    def is_parallel(self) -> bool:
        """Whether threads may share loops."""
        return self._is_parallel

    def run(
        self, layout: Layout, addresses: list[int], now: int | None = None,
        read: Callable[[Words], None] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps on arrays at these addresses (inputs, then outputs).

        Args:
            now: the version of the settings when the call began, if it began before this.
            read: looks at the call block before another call may have it.
        Raises:
            BoundsError: a data-dependent index lies outside its tensor.
        """
        if now is None:
            now = current_version()
        if layout.prepared != now:
            layout.prepare(now)
        frames, given = layout.frames, self.addresses(*addresses)
        if read is None:
            code = frames.reach(frames.address, given, None)
        else:
            code = frames.kept(given, read)
        if code:
            raise frames.error(code)

    @cached_property
    def word_counts(self) -> Array:
        """Of each step the words where it runs that errors may show."""
        return np.array([self._word_count(n) for n in range(len(self.steps))], np.int64)

    @cached_property
    def places(self) -> Array:
        """Of each step the first of the places where a call may end: one, and one for each of its
        checks; then the number after all of them."""
        counts = [1 + self._check_count(n) for n in range(len(self.steps))]
        return np.array(list(accumulate(counts, initial=1)), np.int64)

    def _word_count(self, step: int) -> int:
        if step in self._table.reserved:
            return len(self._table.reserved[step].words)
        return len(self._table.where[step].words) if step in self._table.where else 0

    def error(self, f: Failure) -> BaseException:
        """What stopped a call, for users."""
        table = self._table
        if f.code <= block.RAISED:
            raised = table.python[f.step].raised(block.RAISED + 1 - f.code)
            return self.error_at(f.step, f.code) if raised is None else raised
        if f.step in table.taking:
            return too_deep(table.taking[f.step], f.depth, f.allowed)
        if f.code == block.OUT_OF_MEMORY:
            reserved = table.reserved[f.step]
            return too_large(reserved, dict(zip(reserved.words, f.words)), f.allowed, f.depth)
        kernel, loops, words = table.where[f.step]
        check = checks_of(kernel)[f.code - 1]
        return out_of_bounds(check, f.value, f.extent, loops, dict(zip(words, f.words)))

    def error_at(self, step: int, code: int) -> BoundsError:
        """What stopped a call of which it is known where it ended, and nothing else."""
        found = self._table.where.get(step)
        check = checks_of(found.kernel)[code - 1] if found is not None and code > 0 else None
        return no_longer_known(check)

    def _check_count(self, step: int) -> int:
        """How many checks a step has."""
        found = self._table.where.get(step)
        return 0 if found is None else len(checks_of(found.kernel))


def constant_array(t: Tensor) -> Array:
    """A constant's elements as kernels want them."""
    assert isinstance(t.op, Constant)  # chosen by the caller
    dtype: Any = str(t.dtype)
    return np.ascontiguousarray(t.op.array, dtype=dtype)
