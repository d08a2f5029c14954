"""Kinds of calls: what is known of values when a call is written down, and what only data tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorad.errors import DefinitionError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import FLOAT64, DType
from tensorad.ir.records import RecordType, is_record
from tensorad.ir.tensor import Shape, Tensor
from tensorad.language.residual.chosen import Called
from tensorad.language.residual.data import KnownTagged, Sums
from tensorad.language.values import Cell, Closure, Derived, Tagged, Value
from tensorad.program.calls import shape_of
from tensorad.program.data.closures import Handle
from tensorad.program.data.function_types import joined
from tensorad.program.kinds.references import Chosen
from tensorad.program.trees import apart, together
from tensorad.program.values import alone, as_tensor, dtype_of, is_number, promoted


@dataclass(frozen=True)
class Number:
    """A number that is the same in each call."""

    of: type
    value: bool | int | float


@dataclass(frozen=True)
class Array:
    """A tensor."""

    dtype: DType
    shape: Shape


@dataclass(frozen=True)
class AnyFunction:
    """A function that data choose."""


@dataclass(frozen=True)
class AnyTagged:
    """A value whose tag data choose."""

    dtype: RecordType


class Slot(Handle):
    """The n-th reference that a call is given."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.name, self.source = f"reference {n}", "the call"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and other.n == self.n

    def __hash__(self) -> int:
        return hash((Slot, self.n))

    def __repr__(self) -> str:
        return f"Slot({self.n})"


@dataclass(frozen=True)
class Parts:
    """A tuple, or a function or tag that is known, of parts.

    Attributes:
        of: the class; `meta`: see `register_tree`.
    """

    of: type
    meta: Any
    children: tuple[Kind, ...]


Kind = Number | Array | AnyFunction | AnyTagged | Slot | Parts
_KNOWN: Final = (tuple, Closure, Derived, KnownTagged, Chosen)


class References:
    """The references that values have, in the order in which they are met."""

    def __init__(self) -> None:
        self.cells: dict[Cell, int] = {}

    def kind(self, value: Value) -> Kind:
        """What is known of a value."""
        if isinstance(value, Cell):
            return Slot(self.cells.setdefault(value, len(self.cells)))
        if isinstance(value, _KNOWN):
            children, meta = apart(value)
            return Parts(type(value), meta, tuple(map(self.kind, children)))
        if is_number(value) or isinstance(value, bool):
            return Number(type(value), value)
        if isinstance(value, Tensor) and value.is_function:
            return AnyFunction()
        if isinstance(value, Tensor) and isinstance(value.dtype, RecordType):
            return AnyTagged(value.dtype)
        return Array(dtype_of(value), shape_of(value))

    def kinds(self, values: Sequence[Value], read: Callable[[Cell], Value]) -> Parts:
        """The kinds of values, and of what the references hold that they have."""
        own = [self.kind(v) for v in values]
        held: list[Kind] = []
        while len(held) < len(self.cells):
            held.append(self.kind(read(list(self.cells)[len(held)])))
        return Parts(tuple, None, (Parts(tuple, None, tuple(own)), Parts(tuple, None, tuple(held))))


def wider(a: Kind, b: Kind) -> Kind | None:
    """What is known of values of either kind; None if they have nothing in common."""
    if a == b:
        return a
    if isinstance(a, (Number, Array)) and isinstance(b, (Number, Array)):
        shape, other = _shape(a), _shape(b)
        dtype = promoted([_dtype(a), _dtype(b)])
        is_same = len(shape) == len(other) and all(map(same_dim, shape, other))
        return Array(dtype, shape) if dtype is not None and is_same else None
    if isinstance(a, Parts) and isinstance(b, Parts) and _alike(a, b):
        children = [wider(x, y) for x, y in zip(a.children, b.children, strict=True)]
        known = [k for k in children if k is not None]
        return Parts(a.of, a.meta, tuple(known)) if len(known) == len(children) else None
    if _is_function(a) and _is_function(b):
        return AnyFunction()
    dtype_a, dtype_b = _record(a), _record(b)
    return AnyTagged(dtype_a) if dtype_a is not None and dtype_a is dtype_b else None


def _alike(a: Parts, b: Parts) -> bool:
    return (a.of, a.meta, len(a.children)) == (b.of, b.meta, len(b.children))


def _dtype(k: Number | Array) -> DType:
    return dtype_of(k.value) if isinstance(k, Number) else k.dtype


def _shape(k: Number | Array) -> Shape:
    return () if isinstance(k, Number) else k.shape


def _is_function(k: Kind) -> bool:
    return isinstance(k, AnyFunction) or (isinstance(k, Parts) and k.of in (Closure, Derived))


def _record(k: Kind) -> RecordType | None:
    """The records that values of a kind become."""
    if isinstance(k, AnyTagged):
        return k.dtype
    if not isinstance(k, Parts) or k.of is not KnownTagged:
        return None
    tag, sums = k.meta
    name = sums.of_tag[tag]
    return sums.data_type(name).record_type if sums.is_known(name) else None


def is_progress(a: Kind, b: Kind) -> bool:
    """Whether a call of kind b, inside of one of kind a, has less to do: other numbers, or less of
    what is known."""
    return _size(b) < _size(a) or (_size(b) == _size(a) and _numbers(a) != _numbers(b))


def _size(k: Kind) -> int:
    """How much is known of functions and tags."""
    if not isinstance(k, Parts):
        return 0
    return (k.of is not tuple) + sum(map(_size, k.children))


def _numbers(k: Kind) -> list[Kind]:
    if isinstance(k, Parts):
        return [n for child in k.children for n in _numbers(child)]
    return [k] if isinstance(k, Number) else []


def settled(k: Kind) -> Kind:
    """The kind with a dtype for numbers that differ: that of the most precise floats beside."""
    floats = [a.dtype for a in _arrays(k) if a.dtype.is_float and not a.dtype.is_weak]
    return _with_floats(k, FLOAT64 if FLOAT64 in floats else None)


def _arrays(k: Kind) -> list[Array]:
    if isinstance(k, Parts):
        return [a for child in k.children for a in _arrays(child)]
    return [k] if isinstance(k, Array) else []


def _with_floats(k: Kind, dtype: DType | None) -> Kind:
    if isinstance(k, Parts):
        return Parts(k.of, k.meta, tuple([_with_floats(c, dtype) for c in k.children]))
    if isinstance(k, Array) and k.dtype.is_weak:
        return Array(dtype if dtype is not None and k.dtype.is_float else alone(k.dtype), k.shape)
    return k


def lowered(k: Kind, value: Value, name: str) -> list[Tensor]:
    """The tensors that a value of a kind has beside what is known."""
    match k:
        case Array():
            return [as_tensor(value, name, k.dtype)]
        case AnyFunction():
            return joined([value if isinstance(value, Tensor) else Called(value)], name)
        case AnyTagged():
            is_known = isinstance(value, KnownTagged) and value.sums is not None
            return [as_tensor(value.sums.instance(value) if is_known else value, name, k.dtype)]
        case Parts():
            pairs = zip(k.children, apart(value)[0], strict=True)
            return [t for child, v in pairs for t in lowered(child, v, name)]
    return []


def raised(k: Kind, tensors: Iterator[Tensor], cells: Sequence[Cell]) -> Value:
    """The value of a kind that has these tensors, and references."""
    match k:
        case Number():
            return k.value
        case Slot():
            return cells[k.n]
        case Parts():
            return together(k.of, k.meta, [raised(c, tensors, cells) for c in k.children])
    return next(tensors)


def with_cells(value: Value, image: Callable[[Value], Value]) -> Value:
    """The value with others in the place of references; the same one if nothing changes."""
    if isinstance(value, (Cell, Slot)):
        return image(value)
    if not isinstance(value, _KNOWN):
        return value
    children, meta = apart(value)
    made = [with_cells(v, image) for v in children]
    if all(new is old for new, old in zip(made, children, strict=True)):
        return value
    return together(type(value), meta, made)


def with_slots(value: Value, cells: Mapping[Cell, int], name: str) -> Value:
    """What a call gives, with numbers in the place of references that it was given.

    Raises:
        DefinitionError: it has one that the call made.
    """

    def slot(at: Value) -> Value:
        if at not in cells:
            raise DefinitionError(
                f"{name} calls itself as often as data tell, and results in a reference that it "
                "makes.",
                hint="give it a reference to write to, or result in what is in it.",
            )
        return Slot(cells[at])

    return with_cells(value, slot)


def data_of(value: Value, sums: Sums) -> Value:
    """A value that came from outside, with tags that are known of this program."""
    if isinstance(value, tuple):
        return tuple([data_of(v, sums) for v in value])
    if isinstance(value, Tagged) and value.tag in sums.of_tag:
        return sums.tagged(value.tag, tuple([data_of(v, sums) for v in value.fields]))
    return value


def is_data(value: object) -> bool:
    """Whether it is a value whose tag data choose."""
    return isinstance(value, Tensor) and is_record(value.dtype) and not value.is_function


def alike(value: Value, other: Value) -> tuple[Value, Value]:
    """A value and its direction: where data choose the tag of one, the other is a record, too."""
    if isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
        pairs = [alike(v, d) for v, d in zip(value, other, strict=True)]
        return tuple([v for v, _ in pairs]), tuple([d for _, d in pairs])
    are_known = isinstance(value, KnownTagged) and isinstance(other, KnownTagged)
    if are_known and value.tag == other.tag:
        own, fields = alike(value.fields, other.fields)
        return replace(value, fields=own), replace(other, fields=fields)
    return _as_record(value, other), _as_record(other, value)


def _as_record(value: Value, beside: Value) -> Value:
    is_one = isinstance(value, KnownTagged) and value.sums is not None and is_data(beside)
    return value.sums.instance(value) if is_one else value
