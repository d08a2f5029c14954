"""Types of functions that come again each time the body of a loop is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tensorad.program.data.function_types import FunctionsType


class _Step:
    """What the rounds from one change of more than functions to the next have made.

    Attributes:
        types: by name, in order.
        inner: of loops and functions inside, by what tells them apart, in order.
    """

    def __init__(self) -> None:
        self.types: dict[str, list[FunctionsType]] = {}
        self.inner: dict[object, list[Rounds]] = {}


class Rounds:
    """What is written down until its types are settled, once a round.

    From a round that only adds functions to the next one, types made inside stay the same: else
    each round would find values of other types, and never be the last. Inner rounds take the same
    steps then: those after the first change find the types of those after the first change.
    """

    def __init__(self) -> None:
        self._steps = [_Step()]
        self._at = 0
        self._met: Counter[object] = Counter()

    @staticmethod
    def of(key: object) -> Rounds:
        """Those of a loop or function, by what tells it from others in a round around it."""
        around = _current.get()
        if around is None:
            return Rounds()
        known = around._step.inner.setdefault(key, [])
        if around._is_new((Rounds, key), known):
            known.append(Rounds())
        found = known[around._met[Rounds, key] - 1]
        found._at = 0
        return found

    @property
    def _step(self) -> _Step:
        return self._steps[self._at]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Within: a round."""
        self._met.clear()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def forget(self) -> None:
        """More than functions changed: the next round makes types anew."""
        self._at += 1
        if self._at == len(self._steps):
            self._steps.append(_Step())

    def _is_new(self, key: object, known: list[FunctionsType] | list[Rounds]) -> bool:
        self._met[key] += 1
        return self._met[key] > len(known)

    def _type(self, name: str) -> FunctionsType:
        known = self._step.types.setdefault(name, [])
        if self._is_new(name, known):
            known.append(FunctionsType(name))
            return known[-1]
        return known[self._met[name] - 1].opened()


_current: Final[ContextVar[Rounds | None]] = ContextVar("rounds", default=None)


def functions_type(name: str) -> FunctionsType:
    """A type of functions, open; in a further round, that of the round before."""
    around = _current.get()
    return FunctionsType(name) if around is None else around._type(name)
