"""Tagged sums of a program as data types, whose values are records where data choose tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorad.autodiff.local.record_gradients import gradient_type, values_type
from tensorad.errors import DefinitionError
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, fields_of, is_record
from tensorad.ir.tensor import Tensor
from tensorad.language.terms import Alternative, data_types
from tensorad.language.types import (
    DTYPE_NAMES,
    NamedText,
    TensorText,
    TupleText,
    TypeText,
    type_text,
)
from tensorad.language.values import Tagged, Value
from tensorad.program.data.instances import Instance, folded
from tensorad.program.kinds.variants import DataType, data_type, declared, value_of
from tensorad.program.trees import register_tree
from tensorad.program.values import as_tensor


class Sums:
    """The sums of a program.

    Args:
        alternatives: by the name of the sum.
    """

    def __init__(self, alternatives: Mapping[str, Sequence[Alternative]]) -> None:
        self.alternatives = alternatives
        self.of_tag = {a.tag: name for name, some in alternatives.items() for a in some}
        self._types: dict[str, DataType] = {}

    def data_type(self, name: str) -> DataType:
        """The data type of a sum.

        Raises:
            DefinitionError: a field has no fixed type that tensors can have.
        """
        if name not in self._types:
            wanted, found = [name], dict.fromkeys([name])
            while wanted:
                for a in self.alternatives[wanted.pop()]:
                    more = [n for n in self._sums_in(a, TupleText(a.fields)) if n not in found]
                    wanted += more
                    found.update(dict.fromkeys(more))
            made = {n: declared(n) for n in found if n not in self._types}
            self._types |= made
            for n, own in made.items():
                own.add({a.tag: self._fields(a) for a in self.alternatives[n]})
        return self._types[name]

    def _fields(self, a: Alternative) -> dict[str, object]:
        return {f"field_{n}": self._annotation(t) for n, t in enumerate(a.fields)}

    def _annotation(self, t: TypeText) -> object:
        if isinstance(t, TupleText):
            return tuple([self._annotation(p) for p in t.parts])
        if isinstance(t, NamedText):
            return self._types[t.name].record_type
        return t.dtype if isinstance(t, TensorText) and not t.extents else type_text(t)

    def _sums_in(self, a: Alternative, t: TypeText) -> list[str]:
        """The sums that are parts of a type."""
        match t:
            case TupleText():
                return [name for p in t.parts for name in self._sums_in(a, p)]
            case NamedText() if t.name in self.alternatives:
                return [t.name]
            case TensorText() if t.dtype in DTYPE_NAMES and not any(
                isinstance(e, str) for e in t.extents
            ):
                return []
        raise DefinitionError(
            f"data choose values of {self.of_tag[a.tag]}, and a field of {a.tag} is "
            f"{type_text(t)}.",
            hint="what data choose is a record, whose fields have dtypes and extents, float64[3].",
        )

    def is_known(self, name: str) -> bool:
        """Whether a sum has a data type."""
        try:
            self.data_type(name)
        except DefinitionError:
            return False
        return True

    def sum_of(self, dtype: object) -> str | None:
        """The sum whose data type has these records, or gradients by them."""
        own = values_type(dtype) if isinstance(dtype, RecordType) else dtype
        return next((n for n, t in self._types.items() if t.record_type is own), None)

    def tagged(self, tag: str, fields: tuple[Value, ...]) -> KnownTagged:
        """A value whose tag is known."""
        return KnownTagged(tag, fields, self)

    def instance(self, value: Tagged) -> Instance:
        """The value as one of its data type; of that of gradients if it has () for a number."""
        is_gradient = _has_holes(value)

        def make(at: Tagged, inner: list[Any]) -> Instance:
            own = self.data_type(self.of_tag[at.tag])
            if is_gradient:
                own = data_type(gradient_type(own.record_type))
            n = [a.name for a in own.resolved()].index(at.tag)
            rest = iter(inner)
            leaves = [next(rest) if isinstance(v, Tagged) else v for v in _leaves_of(at)]
            fields = own.record_type.variants[n].fields
            pairs = zip(leaves, fields, strict=True)
            return value_of(own, n, [v if is_record(f.dtype) else _leaf(v, f) for v, f in pairs])

        made: Instance = folded(value, lambda v: [f for f in _leaves_of(v) if _is_tagged(f)], make)
        return made

    def opened(self, record: Tensor, n: int) -> Tagged:
        """A record of the n-th alternative, taken apart."""
        assert isinstance(record.dtype, RecordType), "this is a handle"
        a = data_type(record.dtype).resolved()[n]
        return self.tagged(a.name, _without_none(a.grouped(fields_of(record, n))))

    def names(self, dtype: RecordType) -> list[str]:
        """The tags of records, in order."""
        return [a.name for a in self.data_type(str(self.sum_of(dtype))).resolved()]

    def value(self, made: Instance, tagged: Callable[..., Tagged] | None = None) -> Tagged:
        """An instance as a tagged value, with those inside of it; `tagged` makes one."""
        new = tagged or self.tagged

        def make(at: Instance, inner: list[Tagged]) -> Tagged:
            rest = iter(inner)
            leaves = [next(rest) if isinstance(v, Instance) else v for v in at.leaves]
            a = data_type(at.record_type).resolved()[at.tag]
            return new(a.name, _without_none(a.grouped(leaves)))

        found: Tagged = folded(
            made, lambda v: [f for f in v.leaves if isinstance(f, Instance)], make
        )
        return found


@dataclass(frozen=True, eq=False)
class KnownTagged(Tagged):
    """A tagged value of a program; `sums`: the program's."""

    sums: Sums | None = None


def _leaf(value: Any, f: Field) -> Any:
    """A tensor of the field's dtype, an array where there is nothing to write down."""
    if isinstance(value, (Tensor, Expr)):
        return as_tensor(value, f.name, f.dtype)
    return np.asarray(value, str(f.dtype))


def from_outside(value: Value, sums: Sums) -> Value:
    """An argument of a call: tagged values as those of data types, where these have fixed types."""
    if isinstance(value, tuple):
        return tuple([from_outside(v, sums) for v in value])
    if not isinstance(value, Tagged) or value.tag not in sums.of_tag:
        return value
    if sums.is_known(sums.of_tag[value.tag]):
        return sums.instance(value)
    return sums.tagged(value.tag, tuple([from_outside(v, sums) for v in value.fields]))


def shown(value: Value, sums: Sums) -> Value:
    """A result of a call as users get it."""
    if isinstance(value, tuple):
        return tuple([shown(v, sums) for v in value])
    if isinstance(value, Instance):
        return sums.value(value, Tagged)
    if isinstance(value, Tagged):
        return Tagged(value.tag, tuple([shown(v, sums) for v in value.fields]))
    return value


def _without_none(fields: Sequence[Any]) -> tuple[Value, ...]:
    """Fields of a gradient, () where there is no derivative."""
    made = [_without_none(v) if isinstance(v, tuple) else v for v in fields]
    return tuple([() if v is None else v for v in made])


def _has_holes(value: Tagged) -> bool:
    """Whether a field of a value, however deep, is () where its type has numbers: a gradient."""
    stack: list[Value] = [value]
    while stack:
        v = stack.pop()
        if isinstance(v, Tagged):
            stack += v.fields
        elif isinstance(v, tuple):
            if not v:
                return True
            stack += v
    return False


def _is_tagged(value: object) -> bool:
    return isinstance(value, Tagged)


def _leaves_of(value: Tagged) -> list[Any]:
    """What is in the fields, tuples taken apart."""
    found: list[Any] = []
    stack = list(value.fields)[::-1]
    while stack:
        v = stack.pop()
        if isinstance(v, tuple):
            stack += v[::-1]
        else:
            found.append(v)
    return found


def _taken_apart(value: KnownTagged) -> tuple[tuple[Value, ...], object]:
    return value.fields, (value.tag, value.sums)


def _put_together(meta: Any, children: Sequence[Value]) -> KnownTagged:
    return KnownTagged(meta[0], tuple(children), meta[1])


def _as_leaf(value: KnownTagged) -> Instance:
    assert value.sums is not None, "values of programs know their sums"
    return value.sums.instance(value)


register_tree(KnownTagged, _taken_apart, _put_together, _as_leaf)
data_types.fill(Sums)
