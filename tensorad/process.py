"""What belongs to this process: what a forked child renews, what is remembered between builds, and
settings of the interpreter that are others during a call.

A fork copies locks that other threads hold, but not the threads; a child that waits for such a lock
waits for ever. So every lock of the library is a `Guard`, but for the one of
compiling, which is held while the process forks (`around_forks`); what else a child needs is said
here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Final, Generic, ParamSpec, Protocol, TypeVar, cast

Action = Callable[[], None]
Values = TypeVar("Values", bound=tuple[float, ...])
P = ParamSpec("P")
R = TypeVar("R")


class Memo(Protocol):
    """What results are kept in, by what they are results of."""

    def clear(self) -> None:
        """Keep nothing."""

    def __len__(self) -> int:
        """How many results there are."""


Kept = TypeVar("Kept", bound=Memo)

_guards: Final[list[Guard]] = []
_in_child: Final[list[Action]] = []
_around: Final[list[tuple[Action, Action]]] = []
_memos: Final[list[tuple[Memo, Guard | None]]] = []
_memoised: Final[list[Action]] = []


class Guard:
    """A lock, held by `with guard.lock`, that is a new one in a forked child.

    Reentrant: finalizers and handlers of signals may come in while it is held. Guards live as long
    as the process.
    """

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _guards.append(self)


def in_forked_child(renew: Action) -> Action:
    """Decorates what a forked child does, after its locks are new, in the order of definition."""
    _in_child.append(renew)
    return renew


class Setting(Generic[Values]):
    """Values of the whole process, changed while calls are under way in any thread.

    The last call to end, by an error or not, puts back what was there before the first: each value
    that nobody else has changed meanwhile. Settings live as long as the process.
    """

    def __init__(
        self,
        read: Callable[[], Values],
        write: Callable[[Values], object],
        during: Callable[[Values], Values],
    ) -> None:
        """`during`: from the values that are there to those of a call."""
        self._read, self._write, self._during = read, write, during
        self._guard = Guard()
        self._inside: set[object] = set()
        """One object for each call."""
        in_forked_child(self._put_back)

    @contextmanager
    def changed(self) -> Iterator[None]:
        """The values are those of a call."""
        call = object()
        with self._guard.lock:
            if not self._inside:
                self._before = self._read()
                self._write(self._during(self._before))
                self._ours = self._read()
            self._inside.add(call)
        try:
            yield
        finally:
            with self._guard.lock:
                if self._inside == {call}:
                    self._put_back()
                self._inside.discard(call)

    def _put_back(self) -> None:
        """The values from before. A fork copies calls of other threads, but not the threads."""
        if self._inside:
            self._inside.clear()
            values = zip(self._before, self._ours, self._read(), strict=True)
            self._write(type(self._before)([b if now == ours else now for b, ours, now in values]))


_DEEP: Final = 20_000
deep_calls: Final = Setting(
    lambda: (sys.getrecursionlimit(),),
    lambda limit: sys.setrecursionlimit(int(limit[0])),
    lambda limit: (max(limit[0], _DEEP),),
)
"""Room for functions of programs that are nested in one another some hundred times."""


def around_forks(before: Action, after: Action) -> None:
    """Have something held while the process forks: `after` runs in parent and child."""
    _around.append((before, after))


def memo(kept: Kept, guard: Guard | None = None) -> Kept:
    """What keeps results of programs, emptied by `forget` from now on.

    At any time, while other threads ask and add: who asks takes what it finds in one step
    (`known = kept.get(key)`), and where more steps belong together a `guard` is held for them.
    What is compared by identity is no memo: made again, it would be something else.
    """
    _memos.append((kept, guard))
    return kept


def memoised(size: int | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function whose last `size` results are kept, all for None, until `forget`."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        made = lru_cache(size)(function)
        _memoised.append(made.cache_clear)
        return cast("Callable[P, R]", made)  # hashable arguments

    return decorated


def once(make: Callable[[], R]) -> Callable[[], R]:
    """Decorates a function whose first result is everybody's, until the process ends.

    Threads may make results at once; one of these is kept, and no other is handed out. No lock is
    held meanwhile.
    """
    kept: dict[None, R] = {}

    def given() -> R:
        return kept[None] if kept else kept.setdefault(None, make())

    given.__name__, given.__doc__ = make.__name__, make.__doc__
    return given


def forget() -> None:
    """Empty every memo: what is asked next is derived anew (for measurements)."""
    for kept, guard in _memos:
        with nullcontext() if guard is None else guard.lock:
            kept.clear()
    for clear in _memoised:
        clear()


def _before() -> None:
    for before, _ in reversed(_around):
        before()


def _after() -> None:
    for _, after in _around:
        after()


def _renew() -> None:
    _after()
    for guard in _guards:
        guard.lock = threading.RLock()
    for renew in _in_child:
        renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_renew)
