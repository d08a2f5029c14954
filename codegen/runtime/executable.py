"""A loop program as machine code: its table of steps, its buffers, and one call into it."""

from __future__ import annotations

import ctypes
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad import config
from tensorad.codegen.cost.call_length import LONG_POINTS, SLICE_POINTS, points_run
from tensorad.codegen.entry.checks_ir import MAX_FRAMES
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.scratch import scratch_bytes
from tensorad.codegen.runtime.alias_outputs import OutputAlias, alias_temporaries
from tensorad.codegen.runtime.arena import (
    Array,
    aligned,
    new_bytes,
    plan_arena,
    scratch_block,
)
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.codegen.runtime.failures import out_of_bounds, too_deep, too_large
from tensorad.codegen.runtime.kernel_cache import checks_of
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.codegen.runtime.routines import (
    RoutineCode,
    RoutineTable,
    word_sizes,
    word_value,
)
from tensorad.codegen.runtime.step_table import StepTable, Word
from tensorad.codegen.threads.activations_ir import record_library
from tensorad.codegen.threads.pool import driver, pool_for
from tensorad.codegen.threads.settings_version import current_version
from tensorad.errors import InternalError
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Constant, Tensor
from tensorad.process import Guard

KEPT_LAYOUTS: Final = 16
"""Bindings of symbolic sizes whose memory plans are kept."""
LARGE_ARENA: Final = 1 << 26
"""Arenas from this size on are kept for the sizes used last only, and one at a time."""


TakeFrame = Callable[[int], int | None]


class Frame:
    """The memory of one running call: temporaries, slots, sizes and the call block."""

    def __init__(
        self, program: Executable, sizes: Sequence[int], offsets: Sequence[int], size_bytes: int,
        routines: RoutineTable | None,
    ) -> None:  # fmt: skip
        self.arena = aligned(new_bytes(size_bytes), size_bytes)
        base = self.arena.ctypes.data
        fixed = program.constant_addresses
        outer = program.n_arguments
        total = outer + len(fixed) + len(offsets)
        self.slots = (ctypes.c_int64 * max(1, program.n_slots))()
        self.slots[outer:total] = [*fixed, *[base + o for o in offsets]]
        self.sizes = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        self.heap = (ctypes.c_int64 * (2 + 2 * program.n_dynamic))()
        self._routines = routines
        self.call = (ctypes.c_int64 * block.CALL_WORDS)()
        self.call[block.STEPS] = program.steps.ctypes.data
        self.call[block.COUNT] = len(program.steps)
        self.call[block.SLOTS] = ctypes.addressof(self.slots)
        self.call[block.INDICES] = program.indices.ctypes.data
        self.call[block.SIZES] = ctypes.addressof(self.sizes)
        self.call[block.INSIDE] = program.inside.ctypes.data
        self.call[block.HEAP] = ctypes.addressof(self.heap)
        if routines is not None:
            self.call[block.ROUTINES] = routines.address
            self.call[block.RECORD_STEP] = record_library().addresses["record"]
        if program.grows:
            weakref.finalize(self, _release, self.heap, self.call)
        self.address = ctypes.addressof(self.call)
        self._scratch: Array | None = None

    def reserve(self, size_bytes: int) -> None:
        """Have at least this much scratch memory; pages are touched when threads use them."""
        if self._scratch is None or self._scratch.nbytes < size_bytes:
            self._scratch = scratch_block(size_bytes)
            self.call[block.SCRATCH] = self._scratch.ctypes.data


def _release(heap: ctypes.Array[ctypes.c_int64], call: ctypes.Array[ctypes.c_int64]) -> None:
    """Give back what a frame's calls have reserved."""
    for address in heap[2::2]:
        _free(address)
    _release_chunks(heap, call)


def _release_chunks(heap: ctypes.Array[ctypes.c_int64], call: ctypes.Array[ctypes.c_int64]) -> None:
    """Give back what activations and records had."""
    for region in (block.STACK, block.RECORDS):
        chunk = call[region]
        while chunk:
            following, size_bytes = (ctypes.c_int64 * 2).from_address(chunk)
            heap[1] -= size_bytes
            _free(chunk)
            chunk = following
        call[region : region + block.REGION_WORDS] = [0] * block.REGION_WORDS


_free: Final = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None


class Steps(NamedTuple):
    """What a call does besides its checks, in order; `new` where `take` raises IndexError."""

    take: Callable[[], Frame]
    new: Callable[[], Frame]
    prepare: Callable[[Frame, int], None]
    run: Callable[[int], int]
    fail: Callable[[Frame], None]
    give: Callable[[Frame], None]


_guard = Guard()
"""Held while frames that native calls may take come or go; one for all, so that a forked child can
have a new one."""


class Layout:
    """The memory plan of one binding of the sizes, with its frames."""

    def __init__(self, program: Executable, sizes: Mapping[Expr, int]) -> None:
        self._program = program
        self.numbers = dict(sizes)
        self._sizes = [word_value(w, sizes) for w in program.words]
        self._offsets, self._bytes = plan_arena(program.temporaries, sizes)
        self.routines = program.routine_table(sizes)
        """Of definitions, if the program has some, or records."""
        self.scratch_bytes = max([scratch_bytes(k, sizes) for k in program.with_scratch], default=0)
        """What each thread needs for itself."""
        self._free: deque[Frame] = deque()
        """Frames that no call uses, where there are no native calls."""
        self._shared: dict[int, Frame] = {}
        """By address, the frames native calls may take as well."""
        self._shown = (ctypes.c_int64 * (MAX_FRAMES + 1))()

    @property
    def table(self) -> int:
        """The address of the list of frames, for native calls; it ends with 0."""
        return ctypes.addressof(self._shown)

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

    @property
    def is_busy(self) -> bool:
        """Whether a call is running in one of the frames."""
        return any(frame.call[block.BUSY] for frame in list(self._shared.values()))

    def steps(self) -> Steps:
        """The parts of `Executable.run` on this plan."""
        program = self._program
        private = program.take is None
        return Steps(
            self._free.pop if private else self.take,
            self._frame,
            partial(program.prepare, self.scratch_bytes),
            program.driver.run,
            program.fail,
            self._free.append if private and self._bytes < LARGE_ARENA else self.give,
        )

    def take(self) -> Frame:
        """A frame for one call."""
        if self._program.take is not None:
            return self._take_shared(self._program.take)
        try:
            return self._free.pop()
        except IndexError:
            return self._frame()

    def _frame(self) -> Frame:
        frame = Frame(self._program, self._sizes, self._offsets, self._bytes, self.routines)
        frame.call[block.SCRATCH_BYTES] = self.scratch_bytes
        frame.call[block.SLICES] = self._points // SLICE_POINTS
        frame.call[block.REPEATS] = int(self._program.repeats)
        return frame

    def _take_shared(self, take: TakeFrame) -> Frame:
        found = take(self.table)
        if found:
            return self._shared[found]
        frame = self._frame()
        frame.call[block.BUSY] = 1
        with _guard.lock:
            count = len(self._shared)
            if count < MAX_FRAMES and (self._bytes < LARGE_ARENA or not count):
                self._shared[frame.address] = frame
            # all of them: a fork may have come between these two lines in another thread
            self._shown[: len(self._shared)] = list(self._shared)
        return frame

    def give(self, frame: Frame) -> None:
        """Keep the frame for a later call."""
        if self._program.take is not None:
            frame.call[block.BUSY] = 0
        elif self._bytes < LARGE_ARENA or not self._free:
            self._free.append(frame)

    def forget_large(self) -> None:
        """Give a large arena back to the system."""
        if self._bytes < LARGE_ARENA:
            return
        self._free.clear()
        with _guard.lock:
            self._shown[:] = [0] * (MAX_FRAMES + 1)  # nobody takes one while they are looked at
            used = {n: f for n, f in self._shared.items() if f.call[block.BUSY]}
            self._shared = used
            self._shown[: len(used)] = list(used)


class Executable:
    """Compiled kernels in order.

    Slots: inputs, outputs, constants, temporaries of the arena, temporaries in outputs, tensors of
    which only the run tells the size, tensors that are placed where others lie.
    """

    def __init__(
        self,
        program: LoopProgram,
        take: TakeFrame | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        """A program ready to run.

        Args:
            take: takes a free frame of a list of frames that native calls use too.
            compiler: has the kernels already, in order.
        """
        self.take = take
        self.driver = driver()
        self.inputs, self.outputs = program.inputs, program.outputs
        self._slots: dict[Tensor, int] = {}
        for t in (*program.inputs, *program.outputs):
            if t in self._slots:
                raise InternalError(f"{t.name} is given two slots of one call")
            self._slots[t] = len(self._slots)
        self.n_arguments = len(self._slots)
        inside = alias_temporaries(program) if program.is_straight else {}
        buffers = find_buffers(program.nodes, dict.fromkeys((*self._slots, *inside)))
        self.temporaries = buffers.temporaries
        for t in (*buffers.constants, *[life.tensor for life in buffers.temporaries]):
            self._slots[t] = len(self._slots)
        self.inside = self._places(inside)
        for t in (*buffers.dynamic, *buffers.placed):
            self._slots.setdefault(t, len(self._slots))
        self.n_slots, self.n_dynamic = len(self._slots), len(buffers.dynamic)
        self.routines = [RoutineCode(r) for r in program.routines]
        self._constants = {t: constant_array(t) for t in self._all_constants(buffers.constants)}
        self.with_scratch = [k for k in program.kernels if k.scratch]
        self.stores = tuple(dict.fromkeys([t for r in program.repeats for t in r.stores]))
        """What loops fill with a row per iteration."""
        self.constant_addresses = [self._constants[t].ctypes.data for t in buffers.constants]
        self._kernels: list[object] = []
        with compiler or Compiler() as used:
            compiled = dict(zip(program.kernels, used.finished(program.kernels), strict=True))
        self._kernels = [made for made, _ in compiled.values()]
        heap = {t: 2 + 2 * n for n, t in enumerate(buffers.dynamic)}
        numbers = {r.definition: n for n, r in enumerate(program.routines)}
        self._table = table = StepTable(self._slots, compiled, heap, numbers)
        routines = [(c.routine, c.scope) for c in self.routines]
        self.steps, self.indices, self._entries = table.tables(program.nodes, routines)
        self.words = table.words
        self.grows = bool(buffers.dynamic or table.taking)
        """Whether a call takes memory while it runs."""
        every = [*table.words, *[w for c in self.routines for w in c.scope.words]]
        self.sizes = list(dict.fromkeys([s for w in every for s in word_sizes(w)]))
        """The symbolic sizes that a call is given."""
        self.repeats = not program.is_straight
        self._is_parallel = bool((self.steps[:, 2] == block.PARALLEL).any())
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

    def run(
        self, layout: Layout, addresses: list[int], now: int | None = None,
        read: Callable[[Frame], None] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps on arrays at these addresses (inputs, then outputs).

        Args:
            now: the version of the settings when the call began, if it began before this.
            read: looks at the memory of the call before another call may have it.
        Raises:
            BoundsError: a data-dependent index lies outside its tensor.
        """
        if now is None:
            now = current_version()
        frame = layout.take()
        frame.slots[: self.n_arguments] = addresses  # type: ignore[assignment]  # invariant lists
        call = frame.call
        if call[block.VERSION] != now:
            self.prepare(layout.scratch_bytes, frame, now)
        try:
            if self.driver.run(frame.address):
                self.fail(frame)
            if read is not None:
                read(frame)
        finally:  # handlers of signals run in a long call
            layout.give(frame)

    def prepare(self, scratch_bytes: int, frame: Frame, now: int) -> None:
        """Have the frame run on as many threads as the settings say now."""
        threads = self.threads
        frame.call[block.THREADS] = threads
        frame.call[block.POOL] = pool_for(threads)
        if scratch_bytes:
            frame.reserve(max(1, threads) * scratch_bytes)
        if self.grows:
            frame.heap[0] = config.bytes_left()
        frame.call[block.VERSION] = now

    def fail(self, frame: Frame) -> None:
        """Raise what a call found."""
        call, table = frame.call, self._table
        step, code = call[block.STEP], call[block.CODE]
        if code == block.RAISED:
            raise table.python[step].raised()
        if step in table.taking:
            _release_chunks(frame.heap, call)
            raise too_deep(table.taking[step], call[block.DEPTH], frame.heap[0])
        if code == block.OUT_OF_MEMORY:
            reserved = table.reserved[step]
            values, depth = _values(reserved.words, call), call[block.DEPTH]
            _release_chunks(frame.heap, call)
            raise too_large(reserved, values, frame.heap[0], depth)
        kernel, loops, words = table.where[step]
        check = checks_of(kernel)[code - 1]
        values = _values(words, call)
        raise out_of_bounds(check, call[block.VALUE], call[block.EXTENT], loops, values)


def _values(words: Sequence[Word], call: ctypes.Array[ctypes.c_int64]) -> dict[Word, int]:
    """What words are where the call has stopped."""
    now = (ctypes.c_int64 * len(words)).from_address(call[block.NOW_SIZES])
    return dict(zip(words, now, strict=True))


def constant_array(t: Tensor) -> Array:
    """A constant's elements as kernels want them."""
    assert isinstance(t.op, Constant)  # chosen by the caller
    dtype: Any = str(t.dtype)
    return np.ascontiguousarray(t.op.array, dtype=dtype)
