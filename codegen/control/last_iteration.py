"""What the last iteration of a loop leaves out: what only the next one would read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

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
    inner_nodes,
)
from tensorad.ir.expr import LocalSize
from tensorad.ir.tensor import Tensor


@dataclass
class Use:
    """Tensors that nodes use; a tensor that is placed counts as what it lies in, too.

    Attributes:
        always: whether the nodes do something beside: check indices, tell a size.
    """

    reads: dict[Tensor, None] = field(default_factory=dict)
    writes: dict[Tensor, None] = field(default_factory=dict)
    places: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    always: bool = False

    def add(self, nodes: Iterable[Node]) -> Use:
        stack = list(nodes)
        while stack:
            n = stack.pop()
            match n:
                case Kernel() | CallPython():
                    self.reads.update(dict.fromkeys(n.reads))
                    self.writes.update(dict.fromkeys(n.writes))
                    self.always = self.always or not n.writes
                case Place():
                    self.places.append((n.tensor, n.source))
                case Exchange():
                    self.places += [(n.a, n.b), (n.b, n.a)]
                case Choose():
                    self.reads[n.index] = None
                case Inside():
                    self.places.append((n.tensor, n.handle))
                    self.reads[n.handle] = None
                case Make():
                    self.reads.update(dict.fromkeys(n.fields))
                    self.writes[n.handle] = None
                case Activate():  # what it does inside may be refused
                    self.always = True
                    self.reads.update(dict.fromkeys(n.operands))
                    self.writes.update(dict.fromkeys(n.results))
                case Repeat():
                    read = (n.count, n.condition)
                    self.reads.update({t: None for t in read if isinstance(t, Tensor)})
                    self.always = self.always or any(isinstance(t, Tensor) for t in read)
            stack += inner_nodes(n)
        return self


def without_dead_ends(
    nodes: Sequence[Node],
    wanted: Collection[Tensor],
    counter: LocalSize,
    trips: LocalSize,
    reverse: bool,
) -> list[Node]:
    """The nodes of an iteration; those of which the last one needs nothing are left out of it.

    Args:
        wanted: what the last iteration is to leave.
    """
    needed = _Needed(Use().add(nodes).places)
    needed.add(wanted)
    dead: dict[Node, None] = {}
    for n in nodes[::-1]:
        use = Use().add([n])
        if isinstance(n, (Place, Exchange, Reserve)):
            continue
        if use.always or needed.is_changed(use):
            needed.add(use.reads)
        else:
            dead[n] = None
    found: list[Node] = []
    for is_dead, run in groupby(nodes, lambda n: n in dead):
        part = tuple(run)
        found += [ButLast(counter, trips, reverse, part)] if is_dead else part
    return found


class _Needed:
    """Tensors that are read later: their elements, and where they lie.

    Args:
        places: (tensor, what it lies in) of all nodes.
    """

    def __init__(self, places: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.parent: dict[Tensor, Tensor] = {}
        self.sources: dict[Tensor, list[Tensor]] = {}
        self.memory: dict[Tensor, None] = {}
        self.located: dict[Tensor, None] = {}
        for a, b in places:
            self.parent[self.memory_of(a)] = self.memory_of(b)
            self.sources.setdefault(a, []).append(b)

    def memory_of(self, t: Tensor) -> Tensor:
        """The same for all tensors that may lie in one memory."""
        while self.parent.get(t, t) is not t:
            t = self.parent[t]
        return t

    def add(self, tensors: Iterable[Tensor]) -> None:
        more = list(tensors)
        self.memory.update({self.memory_of(t): None for t in more})
        while more:
            t = more.pop()
            if t not in self.located:
                self.located[t] = None
                more += self.sources.get(t, [])

    def is_changed(self, use: Use) -> bool:
        """Whether something that is needed is written, or lies elsewhere afterwards."""
        written = any(self.memory_of(t) in self.memory for t in use.writes)
        return written or any(t in self.located for t, _ in use.places)
