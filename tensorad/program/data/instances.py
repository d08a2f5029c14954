"""Values of data types as Python objects: an alternative of the type, with what its fields have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.expr import Expr
from tensorad.ir.hooks import Hook
from tensorad.ir.records import Field, RecordType, inject
from tensorad.ir.reference.records import Maker, Record, Value, handle
from tensorad.ir.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
_DEEPEST: Final = 6
"""What is nested deeper is not shown."""


class Instance(Value):
    """Base of the alternatives of data types.

    Attributes:
        record_type: the type; `tag` the number of the alternative.
        field_names: in order.
        leaves: what the fields have, one after the other: tensors, formulas, arrays, numbers,
            values of data types.
        is_open: whether a tensor or formula is among it, at any depth.
        is_container: whether it stands for its fields in trees, which may be anything.
    """

    is_container: ClassVar[bool] = False
    record_type: ClassVar[RecordType]
    tag: ClassVar[int]
    field_names: ClassVar[tuple[str, ...]]
    leaves: tuple[Any, ...]
    is_open: bool

    def __repr__(self) -> str:
        return _shown(self, _DEEPEST)

    def as_record(self) -> Record:
        """The value as the interpreter has it."""
        made: Record = folded(self, _children, _record)
        return made


def _shown(value: object, depth: int) -> str:
    if not isinstance(value, Instance):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if value.field_names and not depth:
        return f"{type(value).__name__}(...)"
    parts = [f"{n}={_shown(getattr(value, n), depth - 1)}" for n in value.field_names]
    return f"{type(value).__name__}({', '.join(parts)})"


def folded(
    value: Any, children: Callable[[Any], Sequence[Any]], make: Callable[[Any, list[Any]], Any]
) -> Any:
    """What a value becomes, inner values first; one that is there twice becomes one thing.

    Args:
        children: the inner values of a value.
        make: of a value, and of what its inner values became.
    """
    done: dict[int, Any] = {}
    stack = [value]
    while stack:
        at = stack[-1]
        if id(at) in done:
            stack.pop()
            continue
        inner = children(at)
        missing = [v for v in inner if id(v) not in done]
        if missing:
            stack += missing[::-1]
            continue
        stack.pop()
        done[id(at)] = make(at, [done[id(v)] for v in inner])
    return done[id(value)]


def _children(value: Instance) -> list[Instance]:
    return [v for v in value.leaves if isinstance(v, Instance)]


def _pairs(value: Instance, inner: list[Any]) -> list[tuple[Any, Field]]:
    """What is in each field, inner values being what they became."""
    rest = iter(inner)
    leaves = [next(rest) if isinstance(v, Instance) else v for v in value.leaves]
    return list(zip(leaves, value.record_type.variants[value.tag].fields, strict=True))


def _record(value: Instance, inner: list[Any]) -> Record:
    made = [
        handle(v) if isinstance(v, Record) else np.asarray(v, str(f.dtype))
        for v, f in _pairs(value, inner)
    ]
    return Record(value.record_type, value.tag, tuple(made))


def copied(value: Instance) -> Instance:
    """The value with arrays of its own: arrays in fields can be changed."""

    def make(at: Instance, inner: list[Instance]) -> Instance:
        own = [np.array(v) if isinstance(v, np.ndarray) else v for v, _ in _pairs(at, inner)]
        return of_leaves(at.record_type, at.tag, own)

    made: Instance = folded(value, _children, make)
    return made


def of_leaves(record_type: RecordType, tag: int, leaves: Sequence[Any]) -> Instance:
    """A value of leaves that are known to fit."""
    maker = alternatives.call(record_type)[tag]
    one: Instance = maker.new()
    maker.fill([one], [[v] for v in leaves])
    one.__dict__["is_open"] = any(map(holds_tensors, leaves))
    return one


def holds_tensors(value: object) -> bool:
    """Whether it is a tensor or formula, or a value that contains some."""
    return value.is_open if isinstance(value, Instance) else isinstance(value, (Tensor, Expr))


def opened(value: Instance) -> tuple[list[Any], Callable[[Sequence[Any]], Instance]]:
    """The floats of a value, those of a part that is there twice once; and what makes it."""
    floats: list[Any] = []

    def note(at: Instance, inner: list[Any]) -> Instance:
        floats.extend([v for v, f in _pairs(at, inner) if f.dtype.is_float])
        return at

    folded(value, _children, note)

    def made(others: Sequence[Any]) -> Instance:
        rest = iter(others)

        def make(at: Instance, inner: list[Any]) -> Instance:
            own = [next(rest) if f.dtype.is_float else v for v, f in _pairs(at, inner)]
            return of_leaves(at.record_type, at.tag, own)

        found: Instance = folded(value, _children, make)
        return found

    return floats, made


def injected(value: Instance, as_tensor: Callable[[object, Field], Tensor]) -> Tensor:
    """The tensor of a value in a program.

    Args:
        as_tensor: what is in a field as a tensor.
    """

    if value.record_type.holds_functions:
        raise DefinitionError(
            f"a {type(value).__qualname__} holds functions, and is no value that data choose.",
            hint="keep it as it is made, a part of a tree: its alternatives are known where a "
            "program is written down.",
        )

    def make(at: Instance, inner: list[Any]) -> Tensor:
        own = [v if isinstance(v, Tensor) else as_tensor(v, f) for v, f in _pairs(at, inner)]
        return inject(at.record_type, at.tag, own)

    made: Tensor = folded(value, _children, make)
    return made


def _is_handle(v: Array) -> bool:
    """Whether a field has a record, not a value that is an object already."""
    return v.dtype == object and isinstance(v.item(), Record)


def instance_of(record: Record) -> Instance:
    """The Python object of a record."""

    def children(at: Record) -> list[Record]:
        return [v.item() for v in at.values if _is_handle(v)]

    def make(at: Record, inner: list[Instance]) -> Instance:
        rest = iter(inner)
        leaves = [next(rest) if _is_handle(v) else v[()] for v in at.values]
        return of_leaves(at.dtype, at.tag, leaves)

    made: Instance = folded(record, children, make)
    return made


alternatives: Final[Hook[[RecordType], Sequence[Maker]]] = Hook("tensorad.program.kinds.variants")
"""What makes instances of each variant of a type."""


rebuilt: Final[Hook[[type[Instance], Sequence[Any]], Instance]] = Hook(
    "tensorad.program.kinds.variants"
)
"""The instance of a class with these fields, whatever they are."""


as_container: Final[Hook[[Instance], Instance]] = Hook("tensorad.program.kinds.containers")
"""A value as one that stands for its fields in trees."""
as_chosen: Final[Hook[[Instance], Any]] = Hook("tensorad.program.kinds.choosing")
"""What takes the place of a value that holds functions, where data choose it."""
as_value: Final[Hook[[Instance], Instance]] = Hook("tensorad.program.kinds.containers")
"""The value that such a container is of."""


def several(value: object) -> RecordType | None:
    """The type of an array of values of data types, all of one; None for anything else."""
    if not isinstance(value, np.ndarray) or value.dtype != object or not value.size:
        return None
    types = {v.record_type if isinstance(v, Instance) else None for v in value.flat}
    return types.pop() if len(types) == 1 else None


def is_open(value: object) -> bool:
    """Whether what is in a value of a data type, or in an array of such, is not known yet."""
    if several(value) is not None:
        assert isinstance(value, np.ndarray), "it is an array of values"
        return any(v.is_open for v in value.flat)
    return isinstance(value, Instance) and value.is_open


def as_records(value: object) -> Any:
    """A value of a data type, or an array of such, as compiled functions take it."""
    if isinstance(value, Instance):
        return value.as_record()
    if several(value) is None:
        return value
    assert isinstance(value, np.ndarray), "it is an array of values"
    return _each(value, Instance.as_record)


def as_instances(value: object) -> Any:
    """A record, or an array of records, as values of their data types."""
    if not isinstance(value, np.ndarray) or not value.dtype.hasobject:
        return value
    return _each(value, _as_instance) if value.shape else _as_instance(value.item())


def _as_instance(value: object) -> object:
    return instance_of(value) if isinstance(value, Record) else value


def _each(values: Array, make: Callable[[Any], Any]) -> Array:
    made = np.empty(values.shape, object)
    for where in np.ndindex(values.shape):
        made[where] = make(values[where])
    return made


def is_value(value: object) -> bool:
    """Whether it is of a data type: an object, or what stands for one in a program."""
    if isinstance(value, Tensor):
        return isinstance(value.dtype, RecordType)
    return isinstance(value, Instance)
