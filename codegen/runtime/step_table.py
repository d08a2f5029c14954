"""The steps of a call as the driver reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import (
    Activate,
    ButLast,
    CallPython,
    Choose,
    Exchange,
    Inside,
    Kernel,
    Make,
    Node,
    Place,
    Repeat,
    Reserve,
    Routine,
    Settle,
    all_nodes,
)
from tensorad.codegen.loops.run_sizes import (
    NO_PRODUCTS,
    Products,
    exact,
    local_sizes,
    memory_for,
    unknown,
)
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.runtime.python_calls import PythonCall
from tensorad.codegen.runtime.record_layout import RecordPart, alignment_of, lies_apart
from tensorad.errors import InternalError
from tensorad.ir.expr import Const, Expr, LocalSize, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Definition, is_record
from tensorad.ir.tensor import Tensor, dim_expr

Array = np.ndarray[Any, np.dtype[Any]]


class Mark(NamedTuple):
    """Where the memory of records was taken up to when an iteration began: one of two words."""

    loop: Repeat
    part: int


Word = Size | Tensor | RecordPart | Mark | int
"""A word beside the slots: a size, the bytes of a tensor or of a part of a record, a place in the
memory of records, a number."""

_FEW_ARMS: Final = 3
"""So many are asked one after the other; more have a table."""


Told = Mapping[LocalSize, None]
"""Sizes that have their value where a step runs."""


class Where(NamedTuple):
    """What a step runs, the loops around it, outermost first, and the words that it uses."""

    kernel: Kernel
    loops: tuple[Repeat, ...]
    words: Sequence[Word] = ()


class Reserved(NamedTuple):
    """What a step has memory for, and the loop that fills it, if one does; the words it uses."""

    tensor: Tensor
    loop: Repeat | None
    words: Sequence[Word] = ()


class Scope:
    """Where tensors and words are that steps use: those of a call, or of an activation."""

    def __init__(
        self, slots: Mapping[Tensor, int], heap: Mapping[Tensor, int], reserve: int = block.RESERVE,
        products: Products = NO_PRODUCTS,
    ) -> None:  # fmt: skip
        """No words yet.

        Args:
            heap: where the words of tensors begin of which only the run tells the size.
            reserve: the kind of step that has memory for them.
            products: how extents are told.
        """
        self.slots, self.heap, self.reserve = slots, heap, reserve
        self.products = products
        self.words: list[Word] = []
        self._numbers: dict[Word, int] = {}

    def word(self, w: Word) -> int:
        """The number of a word."""
        if w not in self._numbers:
            self._numbers[w] = len(self.words)
            self.words.append(w)
        return self._numbers[w]


class StepTable:
    """Steps, their operands, and the words that they use beside slots."""

    def __init__(
        self,
        slots: Mapping[Tensor, int],
        compiled: Mapping[Kernel, tuple[Any, Sequence[Tensor]]],
        heap: Mapping[Tensor, int],
        numbers: Mapping[Definition, int] | None = None,
        products: Products = NO_PRODUCTS,
    ) -> None:
        """No steps yet.

        Args:
            heap: where the words of tensors begin of which only the run tells the size.
            numbers: of the definitions that are called.
            products: how extents are told.
        """
        self._scope = Scope(slots, heap, products=products)
        self.words = self._scope.words
        """Of the call itself."""
        self._compiled = compiled
        self._definitions = numbers or {}
        self._scopes: Mapping[Definition, Scope] = {}
        self._rows: list[list[int]] = []
        self._indices: list[int] = []
        self._loops: tuple[Repeat, ...] = ()
        self.where: dict[int, Where] = {}
        """By number of the step, kernels only."""
        self.reserved: dict[int, Reserved] = {}
        """By number of the step, tensors of which only the run tells the size."""
        self.python: dict[int, PythonCall] = {}
        """By number of the step, functions of Python."""
        self.taking: dict[int, Activate | Make] = {}
        """By number of the step, calls of definitions and records."""
        self._filled: dict[Tensor, Repeat] = {}
        self._told: Told = {}
        self._known: dict[Tensor, Told] = {}
        """By store what is told before the loop that fills it."""

    def tables(
        self, nodes: Sequence[Node], routines: Sequence[tuple[Routine, Scope]] = ()
    ) -> tuple[Array, Array, list[int]]:
        """The steps, three words each, their operands, and the first step of each routine."""
        self._scopes = {r.definition: scope for r, scope in routines}
        self._nodes(nodes)
        ends = [self._step(block.JUMP)] if routines else []
        entries = []
        for r, scope in routines:
            self._scope = scope
            entries.append(len(self._rows))
            self._told = dict.fromkeys(r.definition.sizes)
            self._nodes(r.nodes)
            self._step(block.RETURN)
        self._land(*ends)
        rows = np.array(self._rows, np.int64).reshape(-1, 3)
        return rows, np.array(self._indices or [0], np.int64), entries

    def _word(self, w: Word) -> int:
        return self._scope.word(w)

    @property
    def _slots(self) -> Mapping[Tensor, int]:
        return self._scope.slots

    def _step(self, kind: int, *operands: int, target: int = 0) -> int:
        self._rows.append([target, len(self._indices), kind])
        self._indices += operands
        return len(self._rows) - 1

    def _land(self, *steps: int) -> None:
        """These steps jump to the next one."""
        for s in steps:
            self._rows[s][0] = len(self._rows)

    def _nodes(self, nodes: Sequence[Node]) -> None:
        for n in nodes:
            match n:
                case Kernel():
                    self._kernel(n)
                case CallPython():
                    self._python(n)
                case Place():
                    self._place(n)
                case ButLast():
                    words = self._word(n.counter), self._word(n.trips)
                    left_out = self._step(block.LAST, *words, int(n.reverse))
                    self._nodes(n.nodes)
                    self._land(left_out)
                case Exchange():
                    self._exchange(n)
                case Settle():
                    there = self._step(block.SAME, self._slots[n.tensor], self._slots[n.source])
                    self._nodes(n.nodes)
                    self._land(there)
                case Reserve():
                    self._reserve(n.tensor, 0)
                case Choose():
                    self._choose(n)
                case Repeat():
                    self._repeat(n)
                case _:
                    self._record(n)

    def _record(self, n: Inside | Make | Activate) -> None:
        """Steps of records and definitions."""
        match n:
            case Inside(tensor=t, handle=h):
                place = self._word(0 if n.variant is None else RecordPart(n.variant, n.number))
                is_apart = n.variant is not None and lies_apart(n.variant.fields[n.number])
                kind = block.FOLLOW if is_apart else block.INSIDE_RECORD
                self._step(kind, self._slots[t], self._slots[h], place)
            case Make(handle=h):
                variant = n.dtype.variants[n.tag]
                self.taking[len(self._rows)] = n
                whole = self._word(RecordPart(variant))
                self._step(block.MAKE, self._slots[h], whole, n.tag, alignment_of(variant))
                for k, t in enumerate(n.fields):
                    place = self._word(RecordPart(variant, k))
                    if lies_apart(variant.fields[k]):
                        whole, times = self._exactly(t)
                        size = whole, times, self._word(1)
                        self.taking[len(self._rows)] = n
                        self._step(block.KEEP, self._slots[h], place, self._slots[t], *size)
                    else:
                        self._step(block.FILL, self._slots[h], place, self._slots[t], self._word(t))
            case Activate():
                passed = [self._slots[t] for t in (*n.operands, *n.results)]
                self.taking[len(self._rows)] = n
                number = self._definitions[n.definition]
                inside = self._scopes[n.definition]
                pairs = [
                    w
                    for s, value in zip(n.definition.sizes, n.sizes, strict=True)
                    for w in (self._word(_as_word(value)), inside.word(s))
                ]
                self._step(block.CALL, number, len(passed), *passed, len(n.sizes), *pairs)

    def _kernel(self, kernel: Kernel) -> None:
        compiled, tensors = self._compiled[kernel]
        slots = [self._slots[t] for t in tensors]
        for phase in compiled.phases:
            self.where[len(self._rows)] = Where(kernel, self._loops, self._scope.words)
            operands = [*slots, *[self._word(s) for s in phase.sizes_of(kernel)]]
            kind = block.PARALLEL if phase.parallel else block.SERIAL
            self._step(kind, *operands, target=phase.address)

    def _python(self, n: CallPython) -> None:
        tensors = (*n.reads, *n.writes)
        sizes = dict.fromkeys(sizes_in(*[dim_expr(d) for t in tensors for d in t.shape]))
        words = {s: self._word(s) for s in sizes}
        call = PythonCall(n, [self._slots[t] for t in tensors], words)
        self.python[len(self._rows)] = call
        self._step(block.PYTHON, target=call.address)

    def _place(self, n: Place) -> None:
        t, source = n.tensor, n.source
        slots = self._slots[t], self._slots[source]
        if n.row is None:
            self._step(block.PLACE, *slots)
            return
        one = buffer(t.name, n.row_shape, t.dtype)
        known = self._known.get(source, self._told)
        if any(s not in known for d in one.shape for s in local_sizes(dim_expr(d))):
            raise unknown(one)
        own, times = self._exactly(one)
        words = self._word(_as_word(n.row)), own
        stays = []
        if n.below is not None:
            stays = [self._step(block.WITHIN, words[0], self._word(n.below), n.offset)]
        self._step(block.ROW, *slots, *words, n.offset, times)
        self._land(*stays)

    def _exchange(self, n: Exchange) -> None:
        stays = [] if n.even is None else [self._step(block.ODD, self._word(n.even))]
        self._step(block.EXCHANGE, self._slots[n.a], self._slots[n.b])
        self._land(*stays)

    def _choose(self, n: Choose) -> None:
        ends = []
        many = len(n.arms) > _FEW_ARMS
        first = len(self._indices) + 1
        if many:
            self._step(block.SWITCH, self._slots[n.index], *[0] * len(n.arms))
        for k, arm in enumerate(n.arms):
            other = [] if many else [self._step(block.ARM, self._slots[n.index], k)]
            if many:
                self._indices[first + k] = len(self._rows)
            self._nodes(arm)
            ends.append(self._step(block.JUMP))
            self._land(*other)
        self._land(*ends)

    def _repeat(self, n: Repeat) -> None:
        counter, trips = self._word(n.counter), self._word(n.trips)
        leave = []
        if isinstance(n.count, Tensor):
            self._step(block.LOAD, trips, self._slots[n.count])
        else:
            self._step(block.ASSIGN, trips, self._word(0 if n.count is None else _as_word(n.count)))
        self._step(block.BEGIN, counter, trips, int(n.reverse))
        before = self._told
        for t in n.stores:
            self._filled[t], self._known[t] = n, before
            self._reserve(t, 0)
        after = {**before, n.trips: None}
        self._told = {**after, n.counter: None}
        self._nodes(n.start)
        if n.count is not None and not (n.body or n.moves):
            self._told = after  # that is what it is for
            return
        self._loops = (*self._loops, n)
        head = len(self._rows)
        marks = self._marks(n)
        if marks:
            self._step(block.MARK, *marks)
        if n.count is not None:
            leave.append(self._step(block.UNTIL, counter, trips))
        else:
            self._step(block.ASSIGN, trips, counter)
        self._nodes(n.test)
        if n.condition is not None:
            leave.append(self._step(block.UNLESS, self._slots[n.condition]))
        if n.count is None:
            for t in n.stores:
                self._reserve(t, 1)
        self._nodes(n.body)
        self._nodes(n.moves)
        if marks:
            self._step(block.RELEASE, *marks)
        self._step(block.ADVANCE, counter, -1 if n.reverse else 1, target=head)
        self._land(*leave)
        self._loops = self._loops[:-1]
        self._told = after

    def _marks(self, n: Repeat) -> tuple[int, ...]:
        """The words of a loop whose iterations give back the memory of records."""
        if not n.releases or (self._scope.reserve == block.GROW and self._scope.heap):
            return ()  # there, arrays that go on lie in it as well
        inside = all_nodes((*n.test, *n.body))
        takes = any(isinstance(i, Make) or _gives_records(i) for i in inside)
        return (self._word(Mark(n, 0)), self._word(Mark(n, 1))) if takes else ()

    def _reserve(self, t: Tensor, more: int) -> None:
        """Memory for a dynamic tensor; `more` rows than its first extent says so far."""
        heap = self._scope.heap
        if t not in heap:
            return
        whole, first, more, second = self._elements(t, more)
        self.reserved[len(self._rows)] = Reserved(t, self._filled.get(t), self._scope.words)
        self._step(self._scope.reserve, self._slots[t], heap[t], whole, first, more, second)

    def _elements(self, t: Tensor, more: int) -> tuple[int, int, int, int]:
        """The words of memory: bytes, first factor, what is added to it, second factor."""
        products = self._scope.products
        m = memory_for(t.shape, products.sizes)
        first = self._word(1 if m.first is None else m.first)
        second = self._word(products.word(t, m.others))
        return self._word(buffer(t.name, m.rest, t.dtype)), first, m.more + more, second

    def _exactly(self, t: Tensor) -> tuple[int, int]:
        """The words of a tensor's bytes: those that are known before the run, and how often."""
        rest, others = exact(t.shape)
        times = self._word(self._scope.products.word(t, others))
        return self._word(buffer(t.name, rest, t.dtype)), times


def _gives_records(n: Node) -> bool:
    return isinstance(n, Activate) and any(is_record(t.dtype) for t in n.results)


def _as_word(e: Expr | None) -> Word:
    if isinstance(e, Const):
        return max(int(e.value), 0)
    if not isinstance(e, Size):
        raise InternalError(f"{e} is no size")
    return e
