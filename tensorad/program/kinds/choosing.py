"""Values with functions in them, where data choose them: which alternative each is stays known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tensorad.errors import DTypeError
from tensorad.ir.arrays.tracing import stand_ins
from tensorad.ir.records import Field, fields_of, is_record, tag_of
from tensorad.ir.tensor import Tensor
from tensorad.program.branches import branched
from tensorad.program.data import instances
from tensorad.program.data.closures import Captures, Same, settled
from tensorad.program.data.function_types import (
    Chosen,
    FunctionsType,
    PassedOn,
    data_of,
    formula_tensor,
    function_name,
    is_field,
)
from tensorad.program.data.instances import Instance, folded
from tensorad.program.functions import Function
from tensorad.program.kinds.applying import body
from tensorad.program.values import as_tensor


class Value(Captures):
    """A value that holds functions, among the functions of a type: data choose it as one of them.

    Attributes:
        value: with tensors in the place of what has a dtype.
    """

    def __init__(self, value: Instance) -> None:
        made: Instance = folded(value, _inner, _with_tensors)
        self.value = made
        self.record_type = value.record_type
        self.fields = tuple(_tensors(made))
        self.__name__ = type(value).__name__

    @property
    def parts(self) -> tuple[object, ...]:
        return (self.value,)

    def __call__(self, *args: Any) -> Any:
        raise DTypeError(
            f"{self.__name__} is a value of {self.record_type}, no function.",
            hint="take it apart: ta.match(value, ...).",
        )


Path = tuple[tuple[int, int], ...]
"""Where a function is in a value: the alternative and which of its leaves, from outside in."""


class Held(Captures):
    """A function in a field of a value that data chose: what it captures is in the record.

    Attributes:
        handle: the value; `n` which of its type it is where this was made, None if it is one that
            was chosen elsewhere.
        path: where in the value it is.
    """

    def __init__(
        self, handle: Tensor, n: int | None, path: Path, function: Any, where: str
    ) -> None:
        self.handle, self.n, self.path, self.where = handle, n, path, where
        self.__name__ = function_name(function)

    @property
    def parts(self) -> tuple[object, ...]:
        """Those that capture it differ by which value it is in, where that is a field of theirs: so
        loops compose functions of fields, and each round finds those of the one before."""
        known = () if self.n is None or is_field(self.handle) else (self.n,)
        return (Same(self.handle.dtype), self.path, *known, self.handle)

    def __call__(self, *args: Any) -> Any:
        own = self.handle.dtype
        assert isinstance(own, FunctionsType), "values that data choose have such types"
        own.settle_applied()
        own.applied = {} if own.applied is None else own.applied
        n = None if self.handle in stand_ins() else self.n
        key = self.path, n
        if key not in own.applied:
            do = partial(_held, own, self.path, n, self.where)
            own.applied[key] = Function(do, (), self.__name__, is_fixed=True)
        return own.applied[key](self.handle, *args)


def _held(
    own: FunctionsType, path: Path, n: int | None, where: str, handle: Tensor, *args: Any
) -> Any:  # fmt: skip
    """What a function in a value does, the n-th or any that has one there: an inner function, so
    that one that applies its own kind calls itself."""
    sides: dict[str, Callable[[], Any]] = {}
    places: list[int] = []
    for at, c in enumerate(own.chosen):
        if n not in (None, at) or not _has(c.function, path):
            continue
        places.append(at)
        if isinstance(c.function, PassedOn):
            sides[c.name] = partial(_held_elsewhere, c, at, path, where, handle, args)
            continue
        function = _at(c.function, path)
        one = Chosen(function_name(function), function, c.tensors, c.variant, c.handles)
        sides[c.name] = partial(body, one, at, where, handle, args)
    if len(sides) == 1:
        return next(iter(sides.values()))()
    tag = tag_of(handle)
    place = sum([(tag > at).astype("int64") for at in places[:-1]], start=as_tensor(0, "place"))
    return branched(handle.name, where, place, sides, (), order=tuple(sides))


def _held_elsewhere(
    c: Chosen, n: int, path: Path, where: str, handle: Tensor, args: tuple[Any, ...]
) -> Any:  # fmt: skip
    (inner,) = fields_of(handle, n)
    return _held(_type_of(c.function), path, None, where, inner, *args)


def _type_of(passed_on: Any) -> FunctionsType:
    own = passed_on.handle.dtype
    assert isinstance(own, FunctionsType), "values that data choose have such types"
    return own


def _has(function: Any, path: Path) -> bool:
    """Whether a value, or one of those that it may be, has a function at a place."""
    if isinstance(function, PassedOn):
        return any(_has(c.function, path) for c in _type_of(function).chosen)
    return _at(function, path) is not None


def _at(function: Any, path: Path) -> Any:
    """The function at a place of a value; None if there is none."""
    at: Any = function.value if isinstance(function, Value) else None
    for tag, n in path:
        if not isinstance(at, Instance) or at.tag != tag:
            return None
        at = at.leaves[n]
    if isinstance(at, Tensor):
        return PassedOn(at) if _is_called(at) else None
    return None if isinstance(at, Instance) else at


def _is_called(t: Tensor) -> bool:
    """Whether a tensor stands for a function, no value."""
    return t.is_function and data_of(t) is None


def each_known(
    handle: Tensor, where: str, do: Callable[[Instance], Any], whole: Tensor | None = None
) -> Any:
    """What is done with a value that data choose: a branch by which one it is.

    Args:
        do: gets the value, its alternative known.
        whole: the value, if `handle` is what it is of those that were chosen elsewhere.
    """
    own = handle.dtype
    assert isinstance(own, FunctionsType), "values that data choose have such types"
    arms = enumerate(own.chosen)
    sides = {c.name: partial(_arm, handle, n, c, where, do, whole) for n, c in arms}
    if len(sides) == 1:
        return next(iter(sides.values()))()
    return branched("match", where, tag_of(handle), sides, (), order=tuple(sides))


def _arm(
    handle: Tensor, n: int, c: Chosen, where: str, do: Callable[[Instance], Any],
    whole: Tensor | None,
) -> Any:  # fmt: skip
    """The value is the n-th one: what it has are fields of the record."""
    if isinstance(c.function, PassedOn):
        (inner,) = fields_of(handle, n)
        return each_known(inner, where, do, handle if whole is None else whole)
    assert isinstance(c.function, Value), "values meet values"
    given = dict(zip(c.tensors, fields_of(handle, n), strict=True))
    if whole is not None:
        return do(_from_record(c.function.value, given, whole, None, where))
    return do(_from_record(c.function.value, given, handle, n, where))


def _from_record(
    value: Instance, given: Mapping[Tensor, Tensor], handle: Tensor, n: int | None, where: str
) -> Instance:
    paths: dict[int, Path] = {id(value): ()}
    stack = [value]
    while stack:
        at = stack.pop()
        own = [(v, (*paths[id(at)], (at.tag, place))) for place, v in enumerate(at.leaves)]
        inside = {id(v): path for v, path in own if isinstance(v, Instance)}
        stack += [v for v in _inner(at) if id(v) not in paths]
        paths.update(inside)

    def make(at: Instance, inner: list[Any]) -> Instance:
        rest = iter(inner)
        leaves: list[Any] = []
        for place, v in enumerate(at.leaves):
            if isinstance(v, Instance):
                leaves.append(next(rest))
            elif isinstance(v, Tensor) and not _is_called(v):
                leaves.append(given.get(v, v))
            else:
                path = *paths[id(at)], (at.tag, place)
                leaves.append(Held(handle, n, path, v, where))
        return instances.of_leaves(at.record_type, at.tag, leaves)

    made: Instance = folded(value, _inner, make)
    return made


def _inner(value: Instance) -> list[Instance]:
    return [v for v in value.leaves if isinstance(v, Instance)]


def _with_tensors(at: Instance, inner: list[Any]) -> Instance:
    rest = iter(inner)
    declared = at.record_type.variants[at.tag].fields
    pairs = zip(at.leaves, declared, strict=True)
    leaves = [next(rest) if isinstance(v, Instance) else _leaf(v, f) for v, f in pairs]
    own = [
        as_tensor(v, f.name) if _is_record(v) else v for v, f in zip(leaves, declared, strict=True)
    ]
    return instances.of_leaves(at.record_type, at.tag, own)


def _is_record(value: object) -> bool:
    """Whether it is a value of a type that holds no functions: one record."""
    return isinstance(value, Instance) and not value.record_type.holds_functions


def _leaf(value: Any, f: Field) -> Any:
    """What is in a field, arrays and numbers as tensors, and formulas that functions capture."""
    if f.dtype.is_function:
        return settled(value, formula_tensor)
    if isinstance(value, Tensor) and is_record(value.dtype):
        return value
    return as_tensor(value, f.name, f.dtype)


def _tensors(value: Instance) -> list[Tensor]:
    found: list[Tensor] = []
    folded(
        value,
        _inner,
        lambda at, inner: found.extend([v for v in at.leaves if isinstance(v, Tensor)]),
    )
    return found


instances.as_chosen.fill(Value)
