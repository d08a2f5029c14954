"""What Python functions capture: the tensors, and the rest, which tells functions apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from operator import is_
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.ir.expr import Expr
from tensorad.ir.order import READ, occurs, sizes_in
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Tensor
from tensorad.program.data.instances import Instance


class Captures(ABC):
    """A function that is no Python function, and tells what it captures.

    Attributes:
        record_type: the data type that it stands for a value of; None for functions.
        fields: tensors that it captures wherever they were made.
    """

    record_type: RecordType | None = None
    fields: tuple[Tensor, ...] = ()

    @property
    @abstractmethod
    def parts(self) -> tuple[object, ...]:
        """What it consists of: tensors, and what tells it apart otherwise."""

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """The result."""


class Handle:
    """A part of functions and trees that a trace knows as the object that it is, whatever it
    holds: a reference."""


class Same:
    """An object, equal to itself alone."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Closure:
    """A Python function taken apart.

    Attributes:
        function: one whose captured tensors are `tensors`.
        key: what tells it from functions that capture other things than tensors, hashable.
        handles: references that it captures: what they hold is found where it is applied.
    """

    def __init__(
        self, function: Callable[..., Any], is_field: Callable[[Tensor], bool],
        as_tensor: Callable[[Expr], Tensor],
    ) -> None:  # fmt: skip
        """
        Args:
            is_field: whether a tensor is one of `tensors`; others belong to the key.
            as_tensor: the tensor of a formula that reads, or that uses a counter.
        """
        self._is_field = is_field
        self._seen: dict[int, int] = {}
        self._found: dict[Tensor, int] = {}
        self.handles: dict[Handle, None] = {}
        self.function = settled(function, as_tensor)
        self.key = self._key(self.function)
        self.tensors = tuple(self._found)

    def _key(self, value: Any) -> Hashable:
        """What is equal for functions that differ in tensors alone."""
        if isinstance(value, Tensor):
            if not self._is_field(value):
                return Same(value)
            place = self._found.setdefault(value, len(self._found))
            return ("tensor", place, Same(value.dtype), value.shape)
        if isinstance(value, Expr):
            if _moves(value):
                raise _formula(value)
            return Same(value)
        if isinstance(value, (Same, Handle)):
            same = value if isinstance(value, Same) else Same(value)
            if isinstance(same.value, Handle):
                self.handles[same.value] = None
            return same
        if isinstance(value, (bool, int, float, str, bytes, type(None))):
            return (type(value), repr(value))
        if isinstance(value, (type, ModuleType)):
            return Same(value)
        if id(value) in self._seen:
            return ("again", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        parts = _parts(value)
        if parts is None:
            return Same(value)
        before = len(self._found)
        key = tuple([self._key(p) for p in parts])
        own = (FunctionType, MethodType, partial, list, tuple, dict, Instance, Captures)
        if isinstance(value, own):
            return (type(value), *key)
        return (type(value), *key) if len(self._found) > before else Same(value)


def settled(function: Any, as_tensor: Callable[[Expr], Tensor]) -> Any:
    """The function with tensors in the place of formulas that it captures, also where these are
    arguments by default, bound by `partial`, or in tuples and functions.

    Args:
        as_tensor: the tensor of a formula that reads, or that uses a counter.
    """
    return _Settling(as_tensor).value(function)


class _Settling:
    """Functions that capture each other are made once, and what needs no change stays."""

    def __init__(self, as_tensor: Callable[[Expr], Tensor]) -> None:
        self._as_tensor = as_tensor
        self._done: dict[int, Any] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return self._as_tensor(value) if _moves(value) else value
        if type(value) is tuple:
            made = tuple([self.value(v) for v in value])
            return value if all(map(is_, made, value)) else made
        if not isinstance(value, (FunctionType, partial)):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = value  # what it is inside of itself
            if isinstance(value, partial):
                self._done[id(value)] = self._partial(value)
            else:
                self._done[id(value)] = self._function(value)
        return self._done[id(value)]

    def _function(self, f: FunctionType) -> FunctionType:
        cells, defaults, named = f.__closure__ or (), f.__defaults__, f.__kwdefaults__
        own = (
            tuple([self._cell(c) for c in cells]),
            self.value(defaults),
            None if named is None else self._named(named),
        )
        if all(map(is_, own[0], cells)) and own[1] is defaults and own[2] is named:
            return f
        made = FunctionType(f.__code__, f.__globals__, f.__name__, own[1], own[0])
        made.__kwdefaults__ = own[2]
        return made

    def _cell(self, cell: CellType) -> CellType:
        content = _content(cell)
        made = self.value(content)
        return cell if made is content else CellType(made)

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        made = {name: self.value(v) for name, v in given.items()}
        return given if all(map(is_, made.values(), given.values())) else made

    def _partial(self, f: partial[Any]) -> Any:
        own = self.value(f.func), self.value(f.args), self._named(f.keywords)
        if all(map(is_, own, (f.func, f.args, f.keywords))):
            return f
        return partial(own[0], *own[1], **own[2])


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _moves(e: Expr) -> bool:
    """Whether the value of a formula differs between places of a program."""
    return occurs(READ, e) or any(getattr(s, "extent", None) is not None for s in sizes_in(e))


def _formula(e: Expr) -> DefinitionError:
    return DefinitionError(
        "a function that data choose uses a formula that belongs to a place of the program.",
        where=str(e),
        hint="let the function use a tensor: ta.compute((), lambda: formula).",
    )


def _parts(value: Any) -> list[Any] | None:
    """What an object consists of; None if nothing is known of it."""
    match value:
        case FunctionType():
            cells = [_content(c) for c in value.__closure__ or ()]
            own = (Same(value.__code__), Same(value.__globals__))
            given = value.__defaults__ or ()
            return [*own, *cells, len(given), *given, *_by_name(value.__kwdefaults__ or {})]
        case MethodType():
            return [value.__func__, value.__self__]
        case partial():
            return [value.func, len(value.args), *value.args, *_by_name(value.keywords)]
        case Captures():
            return list(value.parts)
        case list() | tuple():
            return list(value)
        case dict():
            return [part for pair in value.items() for part in pair]
        case Instance():
            return [type(value), *value.leaves]
    if callable(value) and hasattr(value, "wrapped"):
        return [value.wrapped]
    if is_dataclass(value):
        return [getattr(value, f.name) for f in fields(value)]
    return _by_name(vars(value)) if hasattr(value, "__dict__") else None


def _by_name(values: Mapping[str, Any]) -> list[Any]:
    """Names, then what they have, in one order however they came about."""
    names = sorted(values)
    return [str(names), *[values[n] for n in names]]
