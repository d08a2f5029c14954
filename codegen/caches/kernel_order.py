"""The order of kernels: what frees memory runs early, so that temporaries take less of it at once.

What is read for the last time need not wait in memory while others are made, and is read while it
is in a cache. No order changes a bit of a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain

from tensorad.codegen.loops.ir import Check, Kernel, LoopProgram
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import assumed_bytes
from tensorad.ir.tensor import Constant, Tensor


def in_peak_memory_order(program: LoopProgram) -> LoopProgram:
    """The program with its kernels in an order in which temporaries take less memory at once.

    Next runs what frees at least what it makes, first of all what makes least, and checks, which
    others wait for; else what is next in the given order. That one stays unless the peak is lower.

    Requires: each tensor is written by one kernel, before others read it.
    """
    graph = _Graph(program)
    order = graph.order()
    if graph.peak(order) >= graph.peak(range(len(program.kernels))):
        return program
    return replace(program, nodes=tuple([program.kernels[n] for n in order]))


class _Graph:
    """Kernels by number, what has to run before what, and the temporaries that they use."""

    def __init__(self, program: LoopProgram) -> None:
        outer = dict.fromkeys((*program.inputs, *program.outputs))
        self.count = len(program.kernels)
        self.users: dict[Tensor, list[int]] = {}
        """The kernels that use a temporary, its writer first."""
        for n, k in enumerate(program.kernels):
            for t in dict.fromkeys((*k.writes, *k.reads)):
                if t not in outer and not isinstance(t.op, Constant):
                    self.users.setdefault(t, []).append(n)
        self.bytes = {t: assumed_bytes(t) for t in self.users}
        self.uses: list[list[Tensor]] = [[] for _ in program.kernels]
        self.makes = [0 for _ in program.kernels]
        """Bytes of the temporaries that a kernel writes."""
        for t, users in self.users.items():
            self.makes[users[0]] += self.bytes[t]
            for n in users:
                self.uses[n].append(t)
        results = [sum([assumed_bytes(t) for t in k.writes if t in outer]) for k in program.kernels]
        self.stays = [size_bytes > machine.current().l3 for size_bytes in results]
        """Whether its results leave all caches: until then temporaries may lie in their memory."""
        self.checks = [not k.writes for k in program.kernels]
        self.after = _after(program.kernels)

    def order(self) -> list[int]:
        """All kernels, each after those that must run before it."""
        run = _Run(self)
        for n in range(self.count):
            if self.checks[n]:  # nothing that is done need be what makes it possible
                run.look_at(n)
        for n in range(self.count):
            todo = [n]
            while todo:
                run.finish(todo.pop())
                if run.shrinking:
                    todo.append(heappop(run.shrinking)[1])
        return list(run.done)

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes of temporaries that are alive at once."""
        left = {t: len(users) for t, users in self.users.items()}
        live, most = 0, 0
        for n in order:
            live += self.makes[n]
            most = max(most, live)
            for t in self.uses[n]:
                left[t] -= 1
                live -= 0 if left[t] else self.bytes[t]
        return most


class _Run:
    """Kernels that are done, and what became possible by them."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph
        self.waits = [0 for _ in graph.after]
        for n in chain.from_iterable(graph.after):
            self.waits[n] += 1
        self.left = {t: dict.fromkeys(users) for t, users in graph.users.items()}
        self.frees = [
            sum([graph.bytes[t] for t in ts if len(self.left[t]) == 1]) for ts in graph.uses
        ]
        self.done: dict[int, None] = {}
        self.shrinking: list[tuple[int, int]] = []
        """A heap of kernels that may run and free at least what they make."""

    def look_at(self, n: int) -> None:
        """Put a kernel on the heap if it belongs there."""
        graph, frees = self.graph, self.frees[n]
        pays = frees >= graph.makes[n] and not graph.stays[n]
        if pays and not self.waits[n] and (frees or graph.checks[n]):
            heappush(self.shrinking, (graph.makes[n], n))

    def finish(self, n: int) -> None:
        """Run a kernel unless it is done."""
        if n in self.done:
            return
        self.done[n] = None
        for other in self.graph.after[n]:
            self.waits[other] -= 1
            self.look_at(other)
        for t in self.graph.uses[n]:
            del self.left[t][n]
            if len(self.left[t]) == 1:
                (last,) = self.left[t]
                self.frees[last] += self.graph.bytes[t]
                self.look_at(last)


def _after(kernels: Sequence[Kernel]) -> list[dict[int, None]]:
    """By kernel, those that must follow it.

    Kernels that check indices stay in order, and before all that reads what an index comes from.
    """
    writer: dict[Tensor, int] = {}
    guards: dict[Tensor, int] = {}
    checked: list[int] = []
    found: list[dict[int, None]] = [{} for _ in kernels]
    for n, k in enumerate(kernels):
        for m in [known[t] for known in (writer, guards) for t in k.reads if t in known]:
            found[m][n] = None
        if any(isinstance(s, Check) for s in statements(k.body)):
            for m in checked[-1:]:
                found[m][n] = None
            checked.append(n)
            guards.update(dict.fromkeys(k.reads, n))
        writer.update(dict.fromkeys(k.writes, n))
    return found
