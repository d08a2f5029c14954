"""What is being written down, and what becomes of references there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, NamedTuple

from tensorad.errors import DefinitionError
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.ir.dtypes import DType
from tensorad.program.data.closures import Handle
from tensorad.program.data.function_types import FunctionsType, functions_inside
from tensorad.program.trees import Flat, Structure, leaf_maker, statics


class Held(NamedTuple):
    """A tree that a reference holds."""

    leaves: tuple[Any, ...]
    paths: tuple[str, ...]
    structure: Structure
    dtypes: tuple[DType, ...]
    """Of leaves that met Python numbers alone a weak one."""

    @property
    def flat(self) -> Flat:
        return Flat(list(self.leaves), list(self.paths), self.structure)

    def with_leaves(self, new: Mapping[int, tuple[Any, DType]]) -> Held:
        """The tree with other leaves of these dtypes at some places."""
        old = enumerate(zip(self.leaves, self.dtypes, strict=True))
        pairs = [new.get(n, pair) for n, pair in old]
        return self._replace(leaves=tuple([v for v, _ in pairs]), dtypes=tuple(d for _, d in pairs))

    def at(self, path: str) -> int:
        """Which leaf is the one of a path."""
        return self.paths.index(path)


class Cell(Handle):
    """What a reference is: a place for a tree.

    Attributes:
        name: what errors and texts call it; `source`: the line that made it.
        home: the frame it was made in; None outside of all.
        born: when it was made, as `now` counts.
    """

    def __init__(self, name: str, source: str, held: Held) -> None:
        self.name = name
        self.source = source
        self.home: Frame | None = current()
        self.born = now()
        self.held = held

    @property
    def described(self) -> str:
        """ "the reference r made at model.py:12"."""
        return f"the reference {self.name} made at {self.source}"

    @property
    def reading(self) -> str:
        """What a program writes to read it."""
        return f"{self.name}.get()"

    def read(self) -> Held:
        """What it holds here; see `read`."""
        return read(self)

    def write(self, held: Held) -> None:
        """Let it hold something else from here on; see `write`."""
        write(self, held)


class Frame:
    """A function, an arm of a branch or the body of a loop, while it is written down.

    Attributes:
        owner: what it is, for errors: "the body of scan at model.py:12".
        refuses: whether no reference of outside may be written.
        outside: the frame around it.
        touched: references of outside that were read or written.
        after: what those held at the end that were written.
    """

    def __init__(self, owner: str, refuses: bool, outside: Frame | None) -> None:
        self.owner = owner
        self.refuses = refuses
        self.outside = outside
        self.touched: dict[Cell, None] = {}
        self.after: dict[Cell, Held] = {}
        self._before: dict[Cell, Held] = {}

    def hold(self, cell: Cell, held: Held) -> None:
        """Let a reference of outside hold something else until the end."""
        self._before.setdefault(cell, cell.held)
        cell.held = held

    def keep_apart(self, cells: Iterable[Cell]) -> None:
        """Of all references of outside, only these hold something else so far."""
        self._before = {cell: self._before[cell] for cell in cells}

    def written(self) -> dict[Cell, Held]:
        """What references of outside hold now that were written."""
        return {cell: cell.held for cell in self._before}

    def close(self) -> None:
        """All references of outside hold again what they did."""
        self.after = self.written()
        for cell, held in self._before.items():
            cell.held = held

    def left(self, cell: Cell) -> Held:
        """What a reference held at the end, written or not."""
        return self.after.get(cell, cell.held)


class Log:
    """What references hold before what a part of a program writes from here on."""

    def __init__(self) -> None:
        self.part = current()
        self._held: dict[Cell, Held] = {}
        self._written = [] if self.part is None else list(self.part.written())

    def note(self, cell: Cell) -> None:
        """A reference is about to be written."""
        self._held.setdefault(cell, cell.held)

    def undo(self) -> None:
        """Let them hold that again, the parts inside being closed."""
        for cell, held in self._held.items():
            cell.held = held
        if self.part is not None:
            self.part.keep_apart(self._written)


_current: Final[ContextVar[Frame | None]] = ContextVar("frame", default=None)
_logs: Final[ContextVar[tuple[Log, ...]]] = ContextVar("logs", default=())
_born: Final = count()


def now() -> int:
    """A number that is larger each time."""
    return next(_born)


@contextmanager
def logged() -> Iterator[Log]:
    """Within, what the part of a program around writes can be undone."""
    log = Log()
    token = _logs.set((*_logs.get(), log))
    try:
        yield log
    finally:
        _logs.reset(token)


def current() -> Frame | None:
    """The innermost part of a program that is being written down."""
    return _current.get()


@contextmanager
def frame(owner: str, *, refuses: bool = False) -> Iterator[Frame]:
    """Within, a part of a program is written down; what it writes is undone at the end, and known.

    Args:
        owner, refuses: see `Frame`.
    """
    made = Frame(owner, refuses, _current.get())
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        made.close()


def is_open(cell: Cell) -> bool:
    """Whether what made the reference is still being written down."""
    at = current()
    while at is not None and at is not cell.home:
        at = at.outside
    return at is cell.home


def _around(cell: Cell) -> list[Frame]:
    """The frames that a reference is outside of, from the innermost.

    Raises:
        DefinitionError: what made the reference is done.
    """
    found: list[Frame] = []
    at = current()
    while at is not None and at is not cell.home:
        found.append(at)
        at = at.outside
    if at is not cell.home:
        assert cell.home is not None, "those made outside of all are inside of none"
        raise DefinitionError(
            f"{cell.described} has no value here: it belongs to {cell.home.owner}.",
            hint="return what it holds from there; or make the reference outside, and write it "
            "there.",
        )
    return found


def read(cell: Cell) -> Held:
    """What a reference holds here.

    Raises:
        DefinitionError: it has no value here.
    """
    for f in _around(cell):
        f.touched[cell] = None
    return cell.held


def write(cell: Cell, held: Held) -> None:
    """Let a reference hold something else from here on.

    Raises:
        DefinitionError: it is not to be written here.
    """
    around = _around(cell)
    refusing = next((f for f in around if f.refuses), None)
    if refusing is not None:
        raise DefinitionError(
            f"{refusing.owner} writes {cell.described}.",
            hint="it is called for its result alone: write references before or after.",
        )
    if current() is not None and not is_tracing():
        raise DefinitionError(
            f"a formula writes {cell.described}.",
            hint="a formula is of one element; write references beside it.",
        )
    for f in around:
        f.touched[cell] = None
    for log in _logs.get():
        if log.part is current():  # what parts inside write is undone when they are left
            log.note(cell)
    if around:
        around[0].hold(cell, held)
    else:
        cell.held = held


def cells_of(structure: Structure, path: str, is_value: bool = True) -> list[tuple[str, Cell]]:
    """The references that are parts of a tree, with their paths.

    Args:
        is_value: whether what functions capture, and values of data types have, are parts.
    """
    own = statics(structure, path, lambda at: is_value or leaf_maker(at) is None)
    return [(p, v) for p, v in own if isinstance(v, Cell)]


def check_kept(parts: Sequence[tuple[Structure, str]], what: str, owner: str) -> None:
    """No reference is returned by what made it.

    Args:
        parts: structures, and how their paths begin.
        what: "result" or "carry".
        owner: whose, where it is done.
    Raises:
        DefinitionError: one is.
    """
    for structure, path in parts:
        for at, cell in cells_of(structure, path):
            if not is_open(cell):
                raise DefinitionError(
                    f"{cell.described} is a part of the {what} of {owner}, which made it.",
                    where=at,
                    hint=f"return what it holds: {cell.reading}.",
                )


def check_apart(types: Iterable[DType], own: Frame, name: str) -> None:
    """No function of these types uses a reference that each call of a function makes anew.

    Args:
        types: those of what calls are given, and give.
        own: the function, `name` what it is called.
    Raises:
        DefinitionError: one does: which call's reference is meant, no trace can tell.
    """
    found = functions_inside([t for t in types if isinstance(t, FunctionsType)])
    for f, cell in [(one, h) for one in found for h in one.handles if isinstance(h, Cell)]:
        at = cell.home
        while at is not None and at is not own:
            at = at.outside
        if at is own:
            raise DefinitionError(
                f"{name} calls itself, and each call makes {cell.described} anew, which a function "
                "uses that other calls get.",
                where=f"{f.name}, a function that calls of {name} are given, or give",
                hint=f"let the function use what the reference holds, value = {cell.reading}, "
                f"and return what it would write; or make the reference outside of {name}.",
            )
