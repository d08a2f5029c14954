"""Calls of functions: unfolded, or calls of definitions where only data tell how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any, Final, Protocol

from tensorad.errors import DefinitionError, LimitError
from tensorad.ir.tensor import Tensor
from tensorad.language.residual.kinds import (
    Parts,
    References,
    is_progress,
    lowered,
    raised,
    settled,
    wider,
    with_cells,
    with_slots,
)
from tensorad.language.terms import Function as Code
from tensorad.language.values import Cell, Closure, Value
from tensorad.program.calling.arguments import Arguments
from tensorad.program.functions import Function
from tensorad.program.traces import Program

MOST_BRANCHES: Final = 40
"""How deep a function is unfolded inside of branches whose conditions are unknown."""
MOST_INSIDE: Final = 200
"""How often it is unfolded there."""


class Unfolding(Protocol):
    """What evaluates programs.

    Attributes:
        depth: in how many branches and loops that data decide it is.
    """

    depth: int

    def unfolded(self, f: Closure, args: tuple[Value, ...]) -> Value:
        """The result of a call, written down where it is called."""

    def is_spent(self, code: Code) -> bool:
        """Whether a function was unfolded as often as it may be."""

    def state(self) -> Any:
        """What references hold, and what was counted so far."""

    def restore(self, state: Any) -> None:
        """Go back to a state."""

    def held_in(self, state: Any, cell: Cell) -> Value:
        """What a reference held in a state."""

    def read(self, cell: Cell) -> Value:
        """What a reference holds."""

    def write(self, cell: Cell, content: Value) -> None:
        """Let a reference hold something."""

    def cells(self, name: str, line: int, count: int) -> list[Any]:
        """References that hold nothing so far."""

    def fill(self, cell: Any, content: Value) -> None:
        """Let such a reference hold something first."""


@dataclass(eq=False)
class Entry:
    """A call that is being evaluated.

    Attributes:
        state: before it.
        kind: of the function, its arguments and what references held, once it is asked for.
        is_call: whether what is written down is a definition for all calls of the kind.
        inside: how often it was unfolded inside.
    """

    code: Code
    values: tuple[Value, ...]
    depth: int
    state: Any
    kind: Parts | None = None
    is_call: bool = False
    inside: int = 0


class Again(Exception):
    """A call is to be written down again, as one of a definition for a kind of calls."""

    def __init__(self, entry: Entry, kind: Parts) -> None:
        super().__init__(entry.code.name)
        self.entry = entry
        self.kind = kind


class Definitions(Function):
    """A function of the tensors that calls of a kind have; its calls stay calls."""

    given: Sequence[Any] = ()
    """The references of the call that is written down: inside of it others stand for them."""

    def _inside(self, given: Arguments) -> Any:
        return self._staying(given)

    def _block(self, given: Arguments) -> Program:
        program = super()._block(given)
        for cell in program.references:
            if cell in self.given:
                raise DefinitionError(
                    f"{self.name} calls itself as often as data tell, and is given {cell.name}, "
                    "which a function that data choose reads or writes inside of it, too.",
                    hint="let the function that data choose take and return what the reference "
                    "holds.",
                )
        return program


@dataclass
class Calls:
    """The calls of one evaluation.

    Attributes:
        active: those that are being evaluated, by function, the innermost last.
        known: kinds for which there are definitions, by function and the kind of a call.
    """

    machine: Unfolding
    active: dict[Code, list[Entry]] = field(default_factory=dict)
    known: dict[tuple[Code, Parts], Parts] = field(default_factory=dict)
    recursive: dict[Code, None] = field(default_factory=dict)
    definitions: dict[tuple[Code, Parts], Definitions] = field(default_factory=dict)
    callers: list[Entry] = field(default_factory=list)

    def apply(self, f: Closure, args: tuple[Value, ...]) -> Value:
        """The result of a call.

        Raises:
            LimitError: it was unfolded too often, and cannot stay a call.
        """
        entry = Entry(f.function, (f, *args), self.machine.depth, self.machine.state())
        kind = self.staying(entry)
        while True:
            try:
                return self.unfolded(entry) if kind is None else self.call(entry, kind)
            except Again as again:
                if again.entry is not entry:
                    raise
                self.machine.restore(entry.state)
                kind = again.kind
                self.recursive[entry.code] = None
                self.known[(entry.code, self.kind(entry))] = kind

    def kind(self, entry: Entry) -> Parts:
        """What is known of a call."""
        if entry.kind is None:
            entry.kind = References().kinds(
                entry.values, lambda cell: self.machine.held_in(entry.state, cell)
            )
        return entry.kind

    def staying(self, entry: Entry) -> Parts | None:
        """The kind of calls of which a definition is to be called; None if a call is unfolded.

        Raises:
            Again: a call around it is to be one of a definition.
        """
        active = self.active.get(entry.code, [])
        if entry.code in self.recursive:
            kind = self.known.get((entry.code, self.kind(entry)))
            if kind is not None:
                return kind
        if active and active[-1].is_call:
            own = self.kind(active[-1])
            if wider(own, self.kind(entry)) == own:
                return own
        if self.machine.is_spent(entry.code):
            return self.beyond_the_budget(entry, active)
        outer = next((e for e in reversed(active) if e.depth < entry.depth), None)
        if outer is None:
            return None
        before, now = self.kind(outer), self.kind(entry)
        joined = wider(before, now)
        if joined is not None and (before == now or not is_progress(before, now)):
            raise Again(outer, _settled(joined))
        if len(dict.fromkeys([e.depth for e in active])) > MOST_BRANCHES or (
            active[0].inside > MOST_INSIDE
        ):
            every = self.of_all(active, entry)
            if every is None:
                raise LimitError(
                    f"{entry.code.name} calls itself under branches whose conditions only data "
                    "tell, each time with arguments of another type.",
                    hint="a call that stays one needs arguments of the same types, or repeat with "
                    "a loop.",
                )
            raise Again(active[0], every)
        return None

    def beyond_the_budget(self, entry: Entry, active: Sequence[Entry]) -> Parts:
        """The kind of a call that is not unfolded any more."""
        every = self.of_all(active, entry)
        if every is None:
            raise LimitError(
                f"{entry.code.name} is unfolded as often as it may be, and cannot stay a call: its "
                "arguments are of another type each time.",
                hint="pass a larger budget=, or repeat with a loop.",
            )
        if active and not active[0].is_call:
            raise Again(active[0], every)
        return every

    def of_all(self, active: Sequence[Entry], entry: Entry) -> Parts | None:
        """What is known of a call and all those around it."""
        found = self.kind(entry)
        for e in active:
            joined = wider(found, self.kind(e))
            if joined is None:
                return None
            assert isinstance(joined, Parts), "calls have parts"
            found = joined
        return _settled(found)

    def unfolded(self, entry: Entry) -> Value:
        """The result of a call that is written down in its place."""
        active = self.active.setdefault(entry.code, [])
        if active:
            active[0].inside += 1
        active.append(entry)
        try:
            f, *args = entry.values
            return self.machine.unfolded(f, tuple(args))
        finally:
            active.pop()

    def call(self, entry: Entry, kind: Parts) -> Value:
        """The result of a call of a definition."""
        references = References()
        references.kinds(entry.values, self.machine.read)
        cells = list(references.cells)
        values = (*entry.values, *map(self.machine.read, cells))
        kinds = [k for part in kind.children for k in _children(part)]
        names = ["function", *[n for n, _ in entry.code.params], *[c.name for c in cells]]
        given: list[Tensor] = []
        titles: list[str] = []
        for name, k, v in zip(names, kinds, values, strict=True):
            some = lowered(k, v, name)
            given += some
            titles += [name] if len(some) == 1 else [f"{name}_{n}" for n in range(len(some))]
        own = self.definitions.get((entry.code, kind))
        if own is None:
            own = Definitions(self.body(entry.code, kind, cells, titles), name=entry.code.name)
            self.definitions[(entry.code, kind)] = own
        self.callers.append(entry)
        before, own.given = own.given, cells
        try:
            result, left = own(*given)
        finally:
            own.given = before
            self.callers.pop()

        def restored(at: Value) -> Value:
            return cells[at.n]

        for cell, content in zip(cells, left, strict=True):
            self.machine.write(cell, with_cells(content, restored))
        return with_cells(result, restored)

    def body(
        self, code: Code, kind: Parts, cells: Sequence[Cell], titles: Sequence[str]
    ) -> Callable[..., Any]:
        """What a definition does, as a function of tensors."""
        outside = [(c.name, c.line) for c in cells]

        def run(*tensors: Tensor) -> tuple[Value, tuple[Value, ...]]:
            rest = iter(tensors)
            own = [c for name, line in outside for c in self.machine.cells(name, line, 1)]
            values, held = [_children(part) for part in kind.children]
            made = tuple([raised(k, rest, own) for k in values])
            for cell, k in zip(own, held, strict=True):
                self.machine.fill(cell, raised(k, rest, own))
            state = self.machine.state()
            inner = Entry(code, made, self.machine.depth, state, kind, is_call=True)
            caller = self.callers[-1]
            self.machine.depth += 1
            try:
                result = self.unfolded(inner)
            except Again as again:
                if again.entry is not inner:
                    raise
                raise Again(caller, again.kind) from None
            finally:
                self.machine.depth -= 1
            numbers = {cell: n for n, cell in enumerate(own)}
            left = [with_slots(self.machine.read(c), numbers, code.name) for c in own]
            return with_slots(result, numbers, code.name), tuple(left)

        kind_of = Parameter.POSITIONAL_OR_KEYWORD
        names = [f"{t}_{n}" if titles.index(t) < n else t for n, t in enumerate(titles)]
        run.__signature__ = Signature([Parameter(n, kind_of) for n in names])  # type: ignore[attr-defined]  # for inspect
        return run


def _children(part: object) -> Sequence[Any]:
    assert isinstance(part, Parts), "values, and what references hold"
    return part.children


def _settled(kind: object) -> Parts:
    made = settled(kind)  # type: ignore[arg-type]  # a kind
    assert isinstance(made, Parts), "calls have parts"
    return made
