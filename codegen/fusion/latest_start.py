"""How late the nodes of a graph may run while some of them are merged: it bounds searches.

Whether two nodes may be merged asks for a path between them that leads around. In a long chain
nearly all nodes run before the first one of such a path, and none of them has to be looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Lateness(Generic[Node]):
    """No node is later than those that need it.

    Args:
        nodes: in an order that may run.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._late = {x: n for n, x in enumerate(nodes)}

    def merge(
        self, made: Node, parts: Iterable[Node], users: Callable[[Node], Iterable[Node]]
    ) -> None:
        """Let `made` stand for its parts; it and all behind it are as late as the latest part.

        Args:
            users: the nodes that need a node, after the merger.
        """
        late = max([self._late.pop(p) for p in parts])
        self._late[made] = late
        todo = [made]
        while todo:
            for x in users(todo.pop()):
                if self._late[x] < late:
                    self._late[x] = late
                    todo.append(x)

    def leads_to(
        self, starts: Iterable[Node], end: Node, inputs: Callable[[Node], Iterable[Node]]
    ) -> bool:
        """Whether one of the starts needs `end`, directly or through others.

        The nearest nodes are looked at first: what reads a value again much later mostly reads
        others, too, that have been made of it.
        """
        seen: dict[Node, None] = {}
        todo = deque(starts)
        while todo:
            x = todo.popleft()
            if x is end:
                return True
            if x not in seen and self._late[x] >= self._late[end]:
                seen[x] = None
                todo.extend(inputs(x))
        return False
