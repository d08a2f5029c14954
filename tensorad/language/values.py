"""Values of programs beside tensors: functions, references, tagged values, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tensorad.language.terms import Function
from tensorad.language.types import Meaning

Value = Any
"""A number, a tensor, a tuple of values, a `Closure`, `Derived`, `Cell` or `Tagged`."""


class Env:
    """What names mean in a block: its own, then those around it.

    Attributes:
        meanings: what names in types stand for.
    """

    __slots__ = ("meanings", "outer", "values")

    def __init__(
        self,
        outer: Env | None,
        values: dict[str, Value],
        meanings: dict[str, Meaning] | None = None,
    ) -> None:
        self.outer = outer
        self.values = values
        self.meanings: dict[str, Meaning] = meanings if meanings is not None else (
            outer.meanings if outer is not None else {}
        )  # fmt: skip

    def __getitem__(self, name: str) -> Value:
        env: Env | None = self
        while env is not None:
            if name in env.values:
                return env.values[name]
            env = env.outer
        raise KeyError(name)


class TopEnv(Env):
    """The names of a program; `machine`: what runs it."""

    __slots__ = ("machine",)

    def __init__(self, machine: Any) -> None:
        super().__init__(None, {}, {})
        self.machine = machine


@dataclass(frozen=True, eq=False)
class Closure:
    """A function with what its names mean."""

    function: Function
    env: Env


@dataclass(frozen=True, eq=False)
class Derived:
    """A derivative of a function value; `kind`: see `Derive`."""

    kind: str
    of: Value
    top: TopEnv | None = None
    """The names of the program."""


class Cell:
    """A reference; the store tells what is in it."""

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line


@dataclass(frozen=True, eq=False)
class Tagged:
    """A value of a tagged sum."""

    tag: str
    fields: tuple[Value, ...] = field(default=())


@dataclass
class Effects:
    """How often references were read, written and made."""

    reads: int = 0
    writes: int = 0
    allocations: int = 0


OPAQUE: Final = (Closure, Derived, Cell)


def leaves(value: Value) -> list[Value]:
    """The tensors and numbers of a value, from left to right; functions have none."""
    found: list[Value] = []
    stack = [value]
    while stack:
        v = stack.pop()
        if isinstance(v, tuple):
            stack.extend(reversed(v))
        elif isinstance(v, Tagged):
            stack.extend(reversed(v.fields))
        elif not isinstance(v, OPAQUE):
            found.append(v)
    return found


def mapped(value: Value, f: Callable[[Value], Value], opaque: Value | None = None) -> Value:
    """The value with other leaves; functions and references stay unless `opaque` is given."""
    if isinstance(value, tuple):
        return tuple([mapped(v, f, opaque) for v in value])
    if isinstance(value, Tagged):
        return replace(value, fields=tuple([mapped(v, f, opaque) for v in value.fields]))
    if isinstance(value, OPAQUE):
        return value if opaque is None else opaque
    return f(value)


def with_floats(
    args: tuple[Value, ...], floats: Sequence[Value], is_float: Callable[[Any], bool]
) -> tuple[Value, ...]:
    """The values with others in the place of their floats."""
    rest = iter(floats)
    return tuple([mapped(a, lambda v: next(rest) if is_float(v) else v) for a in args])


def adjoints(
    args: tuple[Value, ...], found: Sequence[Value], is_float: Callable[[Any], bool]
) -> list[Value]:
    """The adjoints of values, of those of their floats: () for the rest."""
    rest = iter(found)
    return [mapped(a, lambda v: next(rest) if is_float(v) else (), ()) for a in args]


def described(value: Value, leaf: Callable[[Value], str]) -> str:
    """What a value is, for errors."""
    match value:
        case tuple():
            return f"a tuple of {len(value)}" if value else "()"
        case Closure():
            return f"the function {value.function.name}"
        case Derived():
            return f"{value.kind} of {described(value.of, leaf)}"
        case Cell():
            return f"the reference {value.name}"
        case Tagged():
            return f"a value tagged {value.tag}"
    return leaf(value)
