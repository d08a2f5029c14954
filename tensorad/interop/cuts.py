"""Choices of yes and no that cost least: a minimal cut, by a maximal flow (Edmonds and Karp)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

_NEVER: Final = 1 << 62
"""A price that is too high for everything together."""


class Cut:
    """Things that are chosen or not, and what pairs of choices cost."""

    def __init__(self) -> None:
        self._source, self._sink = object(), object()
        self._room: dict[Hashable, dict[Hashable, int]] = {self._source: {}, self._sink: {}}

    def always(self, a: Hashable) -> None:
        """It is chosen."""
        self.charge_between(self._source, a, _NEVER)

    def charge(self, a: Hashable, price: int) -> None:
        """It costs so much if it is chosen."""
        self.charge_between(a, self._sink, price)

    def implies(self, a: Hashable, b: Hashable) -> None:
        """If a is chosen, b is too."""
        self.charge_between(a, b, _NEVER)

    def charge_between(self, a: Hashable, b: Hashable, price: int) -> None:
        """It costs so much if a is chosen and b is not."""
        self._room.setdefault(a, {}).setdefault(b, 0)
        self._room.setdefault(b, {}).setdefault(a, 0)
        self._room[a][b] = min(_NEVER, self._room[a][b] + price)

    def chosen(self) -> set[Hashable]:
        """The smallest set of things with the least price; to be asked once."""
        while True:
            before = self._reached()
            if self._sink not in before:
                return set(before) - {self._source}
            self._fill(before)

    def _reached(self) -> dict[Hashable, Hashable]:
        """What still has a way from the source, with the step before it."""
        before: dict[Hashable, Hashable] = {self._source: self._source}
        queue = deque([self._source])
        while queue and self._sink not in before:
            a = queue.popleft()
            for b, room in self._room[a].items():
                if room > 0 and b not in before:
                    before[b] = a
                    queue.append(b)
        return before

    def _fill(self, before: dict[Hashable, Hashable]) -> None:
        way: list[tuple[Hashable, Hashable]] = []
        b: Hashable = self._sink
        while b is not self._source:
            way.append((before[b], b))
            b = before[b]
        flow = min([self._room[a][b] for a, b in way])
        for a, b in way:
            self._room[a][b] -= flow
            self._room[b][a] += flow
