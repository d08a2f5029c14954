"""Which levels are open: one inside of the other, for each thread and each program that is traced.

After the levels of PyTorch's RFC "Forward AD in PyTorch", its section "Standalone API".
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final

from tensorad.errors import GradError
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.tensor import Tensor, births
from tensorad.program.recursion import what_is_traced

_levels: Final[ContextVar[tuple[Level, ...]]] = ContextVar("levels", default=())
_LEVEL_HINT: Final = "write `with ta.dual_level() as level:` around what is to be differentiated"


class Level:
    """What `dual_level` gives; a context that is entered once.

    Attributes:
        number: how many levels are open around it.
        duals: the tangent of each tensor that `make_dual` gave one at this level.
        plain: the tensors that have none, whatever they are made of.
        asked: the tangents of what goes round in loops that bodies ask for.
        since: operations and inputs made later have larger numbers.
    """

    def __init__(self) -> None:
        self.number = -1
        self.duals: dict[Tensor, Tensor] = {}
        self.plain: dict[Tensor, None] = {}
        self.asked: dict[Tensor, Tensor] = {}
        self.since = 0
        self.is_left = False
        self._traced: object = None
        self._arrays: AbstractContextManager[None] = tracing()

    def __repr__(self) -> str:
        if self.number < 0:
            return "<dual level, not entered>"
        return f"<dual level {self.number}{', left' if self.is_left else ''}>"

    def __enter__(self) -> Level:
        if self.number >= 0:
            raise GradError(
                f"level {self.number} was entered already.",
                where=repr(self),
                hint="a level is entered once: call ta.dual_level() again.",
            )
        self.number = len(levels())
        self._traced = what_is_traced()
        self.since = births()
        _levels.set((*_levels.get(), self))
        self._arrays.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.is_left:  # together with one around it
            return
        every = _levels.get()
        if self not in every:
            raise _not_here(self, "leaving a level")
        n = every.index(self)
        inner = [level.number for level in every[n + 1 :]]
        for level in reversed(every[n:]):
            level.leave()
        _levels.set(every[:n])
        if inner:
            raise GradError(
                f"level {self.number} is left while level {inner[0]} inside of it is open.",
                where=repr(self),
                hint="levels are left in the order opposite to that of entering them; all of them "
                "are left now.",
            )

    def leave(self) -> None:
        """Forget all tangents."""
        self.is_left = True
        self.duals.clear()
        self.plain.clear()
        self.asked.clear()
        self._arrays.__exit__(None, None, None)

    @property
    def is_visible(self) -> bool:
        """Whether what is traced at the moment is what the level was opened in."""
        return self._traced is what_is_traced()


def dual_level() -> Level:
    """A context in which tensors may have tangents; levels nest.

    Inside, tensors are indexed and iterated over as arrays are, and calls of functions are written
    down where they stand, as in a program. When the context is left, also by an exception, its
    tangents are gone, and what had them are plain tensors. A function that is traced, and each
    thread, has levels of its own.

    Returns:
        what `with` gives as the level; `number` tells how many levels are around it.
    Raises:
        GradError: on leaving it, if a level inside of it is open.
    Example:
        with ta.dual_level():
            value, derivative = ta.unpack_dual(f(ta.make_dual(x, v)))
    """
    return Level()


def levels() -> list[Level]:
    """The open levels, outermost first."""
    return [level for level in _levels.get() if level.is_visible]


def level_for(level: object, title: str) -> Level:
    """The level that a user means, the innermost one if none is named.

    Raises:
        GradError: it is not open here.
    """
    known = levels()
    if isinstance(level, Level):
        if level in known:
            return level
        raise _not_here(level, title)
    if level is None:
        if known:
            return known[-1]
        raise GradError(
            f"{title} needs a level, but none is open.",
            where=title,
            hint=f"{_LEVEL_HINT}; a function that is traced opens one inside of it.",
        )
    if isinstance(level, int) and not isinstance(level, bool):
        if 0 <= level < len(known):
            return known[level]
        shown = f"levels 0 to {len(known) - 1} are open" if known else "none is open"
        raise GradError(
            f"{title}: there is no level {level}, {shown}.",
            where=title,
            hint="levels are numbered from the outermost one, 0; leave out level= for the "
            "innermost one.",
        )
    raise GradError(
        f"{title}: a level is what dual_level gives, or its number, got {type(level).__name__}.",
        where=title,
        hint="write `with ta.dual_level() as level:` and level=level.",
    )


def _not_here(level: Level, title: str) -> GradError:
    if level.number < 0:
        return GradError(
            f"{title}: the level was not entered.",
            where=repr(level),
            hint="write `with ta.dual_level() as level:` and level=level.",
        )
    if level.is_left:
        return GradError(
            f"{title}: level {level.number} was left, and its tangents are gone.",
            where=repr(level),
            hint="unpack inside of its `with`, and use what that gives.",
        )
    return GradError(
        f"{title}: level {level.number} was opened elsewhere.",
        where=repr(level),
        hint="a function that is traced, and each thread, has levels of its own: open one inside "
        "of it; tangents at other levels reach it with its arguments.",
    )
