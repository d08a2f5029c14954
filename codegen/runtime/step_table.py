"""The steps of a call as the driver reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import Choose, Kernel, Node, Place, Repeat, Reserve
from tensorad.codegen.loops.scratch import buffer
from tensorad.errors import BuildError
from tensorad.ir.expr import LocalSize, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Tensor, dim_expr, format_shape

Array = np.ndarray[Any, np.dtype[Any]]
Word = Size | Tensor | int
"""A word beside the slots: a size, the bytes of a tensor, a number."""


class Where(NamedTuple):
    """What a step runs, and the loops around it, outermost first."""

    kernel: Kernel
    loops: tuple[Repeat, ...]


class StepTable:
    """Steps, their operands, and the words that they use beside slots."""

    def __init__(
        self,
        slots: Mapping[Tensor, int],
        compiled: Mapping[Kernel, tuple[Any, Sequence[Tensor]]],
        heap: Mapping[Tensor, int],
    ) -> None:
        """`heap`: where the words of tensors begin of which only the run tells the size."""
        self._slots = slots
        self._compiled = compiled
        self._heap = heap
        self._rows: list[list[int]] = []
        self._indices: list[int] = []
        self._loops: tuple[Repeat, ...] = ()
        self._numbers: dict[Word, int] = {}
        self.words: list[Word] = []
        self.where: dict[int, Where] = {}
        """By number of the step, kernels only."""

    def tables(self, nodes: Sequence[Node]) -> tuple[Array, Array]:
        """The steps, three words each, and their operands."""
        self._nodes(nodes)
        rows = np.array(self._rows, np.int64).reshape(-1, 3)
        return rows, np.array(self._indices or [0], np.int64)

    def _word(self, w: Word) -> int:
        if w not in self._numbers:
            self._numbers[w] = len(self.words)
            self.words.append(w)
        return self._numbers[w]

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
                case Place(tensor=t, source=source, row=None):
                    self._step(block.PLACE, self._slots[t], self._slots[source])
                case Place(tensor=t, source=source, row=LocalSize() as row):
                    self._check_known(t)
                    words = self._word(row), self._word(t)
                    self._step(block.ROW, self._slots[t], self._slots[source], *words)
                case Reserve():
                    self._reserve(n.tensor, 0)
                case Choose():
                    self._choose(n)
                case Repeat():
                    self._repeat(n)

    def _kernel(self, kernel: Kernel) -> None:
        compiled, tensors = self._compiled[kernel]
        slots = [self._slots[t] for t in tensors]
        for phase in compiled.phases:
            self.where[len(self._rows)] = Where(kernel, self._loops)
            operands = [*slots, *[self._word(s) for s in phase.sizes_of(kernel)]]
            kind = block.PARALLEL if phase.parallel else block.SERIAL
            self._step(kind, *operands, target=phase.address)

    def _choose(self, n: Choose) -> None:
        ends = []
        for k, arm in enumerate(n.arms):
            other = self._step(block.ARM, self._slots[n.index], k)
            self._nodes(arm)
            ends.append(self._step(block.JUMP))
            self._land(other)
        self._land(*ends)

    def _repeat(self, n: Repeat) -> None:
        counter, trips = self._word(n.counter), self._word(n.trips)
        leave = []
        if n.count is not None:
            self._step(block.BEGIN, self._slots[n.count], counter, trips, int(n.reverse))
            for t in n.stores:
                self._reserve(t, 0)
        else:
            self._step(block.ASSIGN, counter, self._word(0))
        self._loops = (*self._loops, n)
        head = len(self._rows)
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
        for a, b in n.exchanged:
            self._step(block.EXCHANGE, self._slots[a], self._slots[b])
        self._step(block.ADVANCE, counter, -1 if n.reverse else 1, target=head)
        self._land(*leave)
        self._loops = self._loops[:-1]

    def _reserve(self, t: Tensor, more: int) -> None:
        """Memory for a dynamic tensor; `more` rows than its first extent says so far."""
        if t not in self._heap:
            return
        local = [n for n in t.shape if isinstance(n, LocalSize)]
        rest = [n for n in t.shape if not isinstance(n, LocalSize)]
        self._check_known(buffer(t.name, rest, t.dtype))
        if len(local) > 2:
            raise _unknown(t)
        first, second = [*[self._word(n) for n in local], self._word(1)][:2]
        whole = self._word(buffer(t.name, rest, t.dtype))
        self._step(block.RESERVE, self._slots[t], self._heap[t], whole, first, more, second)

    def _check_known(self, t: Tensor) -> None:
        if any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape))):
            raise _unknown(t)


def _unknown(t: Tensor) -> BuildError:
    return BuildError(
        f"{t.name} has the shape {format_shape(t.shape)}, which only the run of a loop tells.",
        hint="let tensors inside of loops have shapes that do not depend on counters; a condition "
        "on an index may.",
    )
