"""Operations that have to be done together: what lies between them, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorad.ir.analysis.blocks import op_sizes, tells_trips
from tensorad.ir.tensor import Op, Saved
from tensorad.ir.visit import op_inputs


class Group(NamedTuple):
    """Operations that come together, producers first; whether they have to be done together."""

    ops: tuple[Op, ...]
    is_region: bool


class Together:
    """Operations, producers first, as groups: such that have something to do with each other, and
    all that lies between them, are one.

    Groups are the strongly connected components of the graph of operations in which those that
    belong together are one node (Tarjan, SIAM J. Comput. 1, 1972).
    """

    def __init__(
        self, ops: Sequence[Op], single: Iterable[Op], links: Iterable[tuple[Op, Op]]
    ) -> None:
        """
        Args:
            single: operations whose groups are wanted as regions.
            links: pairs that belong together.
        """
        self.ops = ops
        self.single = dict.fromkeys(single)
        self.parent: dict[Op, Op] = {op: op for op in ops}
        tellers = {op.trips: op for op in ops if tells_trips(op)}
        self.sizes = [(tellers[s], op) for op in ops for s in op_sizes(op) if s in tellers]
        """Loops that tell a size, and what has it."""
        for a, b in links:
            self.join(a, b)
        for op in ops:
            if isinstance(op, Saved) and op.control in self.parent:
                self.join(op, op.control)

    def root(self, op: Op) -> Op:
        """What stands for the group of an operation."""
        while self.parent[op] is not op:
            self.parent[op] = self.parent[self.parent[op]]
            op = self.parent[op]
        return op

    def join(self, a: Op, b: Op) -> bool:
        """Two groups become one; whether they were two."""
        one, other = self.root(a), self.root(b)
        self.parent[other] = one
        return one is not other

    def groups(self) -> list[Group]:
        """All operations in order.

        Where a loop of a region tells a size, or a region has it, both belong to it.
        """
        while True:
            groups = self.components()
            regions = [g for g in groups if any(op in self.single for op in g)]
            found = {op: None for g in regions for op in g}
            pairs = [(a, b) for a, b in self.sizes if a in found or b in found]
            joined = [self.join(a, b) for a, b in pairs]
            if not any(joined):
                break
        places = {op: n for n, op in enumerate(self.ops)}
        return [Group(tuple(sorted(g, key=places.__getitem__)), g[0] in found) for g in groups]

    def components(self) -> list[list[Op]]:
        """The strongly connected components, producers first."""
        members: dict[Op, list[Op]] = {}
        for op in self.ops:
            members.setdefault(self.root(op), []).append(op)
        before = {
            root: list(dict.fromkeys([self.root(i) for op in own for i in self.inputs(op)]))
            for root, own in members.items()
        }
        return [[op for root in c for op in members[root]] for c in components(before)]

    def inputs(self, op: Op) -> list[Op]:
        return [t.op for t in op_inputs(op) if t.op in self.parent]


def components(before: dict[Op, list[Op]]) -> list[list[Op]]:
    """The strongly connected components of a graph, those that others rest on first.

    Args:
        before: what each node rests on.
    """
    number: dict[Op, int] = {}
    low: dict[Op, int] = {}
    open_: dict[Op, None] = {}
    found: list[list[Op]] = []
    for start in before:
        stack = [start] if start not in number else []
        rest = {start: iter(before[start])}
        while stack:
            at = stack[-1]
            if at not in number:
                number[at] = low[at] = len(number)
                open_[at] = None
            next_ = next((n for n in rest[at] if n not in number), None)
            if next_ is not None:
                stack.append(next_)
                rest[next_] = iter(before[next_])
                continue
            stack.pop()
            low[at] = min([low[n] for n in (at, *before[at]) if n in open_])
            if low[at] == number[at]:
                found.append(_closed(open_, at))
    return found


def _closed(open_: dict[Op, None], first: Op) -> list[Op]:
    """The nodes that were opened since `first`, which are done."""
    made: list[Op] = []
    while not made or made[-1] is not first:
        made.append(open_.popitem()[0])
    return made
