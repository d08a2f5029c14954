"""Which tensors of a loop program have memory of their own, and from when to when it is used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

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
    Settle,
    inner_nodes,
)
from tensorad.codegen.runtime.arena import Lifetime
from tensorad.ir.expr import LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Constant, Tensor, dim_expr


@dataclass
class Buffers:
    """What has memory.

    Attributes:
        constants: tables.
        temporaries: what lies in the arena.
        dynamic: of which only the run tells how large they are.
        placed: what lies where others do.
    """

    constants: dict[Tensor, None] = field(default_factory=dict)
    temporaries: list[Lifetime] = field(default_factory=list)
    dynamic: dict[Tensor, None] = field(default_factory=dict)
    placed: dict[Tensor, None] = field(default_factory=dict)


def find_buffers(nodes: Sequence[Node], given: Collection[Tensor]) -> Buffers:
    """The memory that the nodes use beside that of the given tensors.

    What is used in a loop but was there before it lives until the loop ends; so does what tensors
    that are exchanged lie in.
    """
    walk = _Walk(given)
    walk.nodes(nodes)
    found = walk.buffers
    for t, life in walk.lives.items():
        if any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape))):
            found.dynamic[t] = None
        else:
            found.temporaries.append(life)
    found.placed = dict.fromkeys(walk.sources)
    return found


class _Walk:
    def __init__(self, given: Collection[Tensor]) -> None:
        self.given = given
        self.buffers = Buffers()
        self.lives: dict[Tensor, Lifetime] = {}
        self.sources: dict[Tensor, dict[Tensor, None]] = {}
        """Tensors that are placed -> what has the memory they may lie in."""
        self.position = 0

    def nodes(self, nodes: Sequence[Node]) -> None:
        for n in nodes:
            self.position += 1
            match n:
                case Kernel() | CallPython():
                    self.use((*n.reads, *n.writes))
                case Place():
                    self.use([n.source])
                    self.move(n)
                case Exchange():
                    self.move(n)
                case Settle():
                    self.use((n.tensor, n.source))
                    self.nodes(n.nodes)
                case ButLast():
                    self.nodes(n.nodes)
                case Reserve():
                    self.use([n.tensor])
                case Choose():
                    self.use([n.index])
                    for arm in n.arms:
                        self.nodes(arm)
                case Repeat():
                    self.repeat(n)
                case _:
                    self.record(n)

    def record(self, n: Inside | Make | Activate) -> None:
        """What lies in a record is in nobody else's memory."""
        match n:
            case Inside():
                self.use([n.handle])
                self.sources.setdefault(n.tensor, {})
            case Make():
                self.use((n.handle, *n.fields))
            case Activate():
                self.use((*n.operands, *n.results))

    def repeat(self, n: Repeat) -> None:
        self.use([*n.stores, *([n.count] if isinstance(n.count, Tensor) else [])])
        self.nodes(n.start)
        placed = [*_placed(n.body), *n.moves]
        for _ in range(1 + len(n.moves)):  # what moves on lies in the end where any of them did
            for s in placed:
                self.move(s)
        moved = [t for s in n.moves for t in _tensors(s)]
        self.use(moved)
        begin = self.position
        self.nodes(n.test)
        self.use([] if n.condition is None else [n.condition])
        self.nodes(n.body)
        self.position += 1
        self.use(moved)
        for life in self.lives.values():
            if life.first <= begin <= life.last:
                life.last = self.position

    def move(self, n: Place | Exchange) -> None:
        if isinstance(n, Place):
            self.sources.setdefault(n.tensor, {}).update(self.owners(n.source))
        else:
            both = {**self.sources[n.a], **self.sources[n.b]}
            self.sources[n.a], self.sources[n.b] = dict(both), dict(both)

    def owners(self, t: Tensor) -> dict[Tensor, None]:
        return self.sources.get(t, {t: None})

    def use(self, tensors: Iterable[Tensor]) -> None:
        for owner in [o for t in tensors for o in self.owners(t)]:
            if isinstance(owner.op, Constant):
                self.buffers.constants[owner] = None
            elif owner not in self.given:
                self.lives.setdefault(owner, Lifetime(owner, self.position)).last = self.position


def _placed(nodes: Iterable[Node]) -> list[Place | Exchange]:
    """What says where tensors lie, in order, also inside of loops and branches."""
    found: list[Place | Exchange] = []
    stack = list(nodes)[::-1]
    while stack:
        n = stack.pop()
        if isinstance(n, (Place, Exchange)):
            found.append(n)
        else:
            stack += [*inner_nodes(n)][::-1]
    return found


def _tensors(n: Place | Exchange) -> tuple[Tensor, Tensor]:
    return (n.tensor, n.source) if isinstance(n, Place) else (n.a, n.b)
