"""Data types: alternatives with fields, declared as classes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature, get_annotations
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from tensorad.autodiff.local.record_gradients import declared_type, kept_places
from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import DTYPES
from tensorad.ir.records import Field, RecordType, Variant, is_record
from tensorad.ir.reference.records import Column, Maker
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program.calls import bound_call, shape_of
from tensorad.program.data import instances
from tensorad.program.data.function_types import data_of, is_function
from tensorad.program.data.instances import Instance, holds_tensors
from tensorad.program.kinds.annotations import Names, fields_of_annotation, tree_of
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import LEAF, Branching, Flat, Structure, children_like, flatten, is_leaf
from tensorad.program.values import dtype_of, promoted


@dataclass(eq=False)
class Alternative:
    """One alternative of a data type.

    Attributes:
        name: the user's; `annotations` what fields have.
        kind: the class.
        trees: of each field, once they were asked for; `fields` those of the variant.
        is_flat: whether each field is known to be one leaf.
    """

    name: str
    annotations: Mapping[str, object]
    kind: type[Instance]
    trees: dict[str, Flat] = field(default_factory=dict)
    fields: list[Field] = field(default_factory=list)
    is_flat: bool = False

    def resolve(self, trees: Mapping[str, Flat], fields: Sequence[Field]) -> None:
        """Say what the fields are."""
        self.trees.update(trees)
        self.fields = list(fields)
        self.is_flat = all(t.structure is LEAF for t in trees.values())

    def grouped(self, leaves: Sequence[Any]) -> list[Any]:
        """The fields' trees, of a leaf for each field of the variant."""
        if self.is_flat:
            return list(leaves)
        rest = iter(leaves)
        return [tree_of(f, [next(rest) for _ in f.leaves]) for f in self.trees.values()]


_NUMPY: Final = {d: np.dtype(str(d)) for d in DTYPES}


class DataType:
    """A data type: its record type and its alternatives."""

    def __init__(self, name: str, names: Names) -> None:
        self.name = name
        self.names = names
        self.record_type = RecordType(name)
        self.alternatives: list[Alternative] = []

    def add(self, alternatives: Mapping[str, Mapping[str, object]]) -> None:
        """Say what alternatives there are: annotations of fields by name."""
        for name, own in alternatives.items():
            _alternative(self, name, own, type(name, (), {}))
        self.record_type.later(self.variants)

    def resolved(self) -> list[Alternative]:
        """The alternatives with their fields: names of types may be defined after them."""
        for a in self.alternatives:
            if len(a.trees) < len(a.annotations):
                trees: dict[str, Flat] = {}
                fields: list[Field] = []
                for name, annotation in a.annotations.items():
                    path = f"{self.name}.{a.name}.{name}"
                    trees[name], own = fields_of_annotation(annotation, path, self.names)
                    fields += own
                a.resolve(trees, fields)
        return self.alternatives

    def variants(self) -> list[Variant]:
        """The kinds of records."""
        return [Variant(a.name, tuple(a.fields)) for a in self.resolved()]


_types: Final[WeakKeyDictionary[RecordType, DataType]] = WeakKeyDictionary()
"""By record type: those that users declare, and those that are made where they are asked for."""


def data_type(record_type: RecordType) -> DataType:
    """The data type of records."""
    known = _types.get(record_type)
    if known is None and declared_type(record_type) is not record_type:
        return _of_gradients(data_type(declared_type(record_type)), record_type)
    if known is None:
        known = DataType(str(record_type), Names({}, lambda value: None))
        known.record_type = record_type
        _types[record_type] = known
        for v in record_type.variants:
            own = {f.name: Tensor for f in v.fields}
            made = _alternative(known, v.name, own, type(v.name, (), {}))
            made.resolve({f.name: Flat([0.0], [f.name], LEAF) for f in v.fields}, v.fields)
    return known


def _of_gradients(own: DataType, record_type: RecordType) -> DataType:
    """The data type of gradients or Jacobians: subclasses of the alternatives, with None where
    there is no derivative."""
    made = DataType(own.name, own.names)
    made.record_type = record_type
    _types[record_type] = made
    pairs = zip(own.resolved(), own.record_type.variants, record_type.variants, strict=True)
    for a, whole, kept in pairs:
        names = {
            "record_type": record_type,
            "__module__": a.kind.__module__,
            "__doc__": a.kind.__doc__,
        }
        kind = type(a.name, (a.kind,), {**names, "__qualname__": a.kind.__qualname__})
        places = kept_places(whole)
        smooth = iter([n in places for n in range(len(whole.fields))])
        trees = {name: _with_holes(tree, name, smooth) for name, tree in a.trees.items()}
        alternative = Alternative(a.name, a.annotations, kind)
        alternative.resolve(trees, kept.fields)
        made.alternatives.append(alternative)
        type.__setattr__(kind, "_alternative", alternative)
    return made


def _with_holes(tree: Flat, name: str, is_kept: Iterator[bool]) -> Flat:
    """The tree of a field with None in the place of leaves that are left out."""
    return flatten(tree_of(tree, [0.0 if next(is_kept) else None for _ in tree.leaves]), name)


def declared(name: str) -> DataType:
    """A data type whose alternatives are to be added."""
    made = DataType(name, Names({}, _record_type_of))
    _types[made.record_type] = made
    return made


def value_of(own: DataType, n: int, leaves: Sequence[Any]) -> Instance:
    """A value of the n-th alternative, of leaves that are known to fit."""
    a = own.resolved()[n]
    made: Instance = object.__new__(a.kind)
    _give(made, a, a.grouped(leaves), leaves)
    return made


def variant(declared: Any, /, **alternatives: Mapping[str, object]) -> Any:
    """A data type: a value is one of several alternatives, each with fields.

    A decorator of a class whose inner classes are the alternatives:

        @ta.variant
        class Tree:
            class Leaf:
                value: "float64[3]"
            class Node:
                left: "Tree"
                right: "Tree"

    Values are made by `Tree.Leaf(x)` and taken apart by `ta.match`. They are arguments, results,
    carries, and fields of others, as arrays are; inside of a program they are records.

    Args:
        declared: the class; or the name of a type whose alternatives are keywords, each a dict of
            annotations: `ta.variant("List", Nil={}, Cons={"head": "float64", "tail": "List"})`.
            Annotations are dtypes with shapes, data types, also by names that are defined later,
            `ta.Fn` for a function, and tuples, lists and dicts of these.
    Returns:
        the class; its alternatives are dataclasses.
    Raises:
        DefinitionError: there are no alternatives. An annotation that says nothing is refused when
            the type is first used.
    """
    where = sys._getframe(1)
    known = {**vars(np), **where.f_globals, **where.f_locals}
    owner: Any = declared
    if isinstance(declared, str):
        owner = type(declared, (), {"__module__": where.f_globals.get("__name__", "")})
        own = {name: (dict(a), type(name, (), {})) for name, a in alternatives.items()}
    else:
        inner = [(n, c) for n, c in vars(declared).items() if isinstance(c, type)]
        own = {n: (get_annotations(c), c) for n, c in inner}
    if not own:
        raise DefinitionError(
            f"the data type {owner.__name__} has no alternatives.",
            hint="write a class for each inside of it, with annotations of its fields.",
        )
    globals_of = _Late({owner.__name__: owner}, where.f_globals, known)
    made = DataType(owner.__name__, Names(globals_of, _record_type_of))
    _types[made.record_type] = made
    for name, (of_fields, kind) in own.items():
        a = _alternative(made, name, of_fields, kind)
        a.kind.__qualname__ = f"{owner.__qualname__}.{name}"
        a.kind.__module__ = owner.__module__
        setattr(owner, name, a.kind)
    owner.record_type = made.record_type
    made.record_type.later(made.variants, is_ready=True)
    return owner


class _Late(Mapping[str, Any]):
    """Names where a type is declared, those that a module defines later included."""

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(dict.fromkeys([n for layer in self._layers for n in layer]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _record_type_of(value: object) -> RecordType | None:
    found = vars(value).get("record_type") if isinstance(value, type) else None
    return found if isinstance(found, RecordType) else None


_OF_DATACLASSES: Final = (
    "__dict__", "__weakref__", "__init__", "__repr__", "__eq__", "__hash__", "__setattr__",
    "__delattr__", "__match_args__", "__dataclass_fields__", "__dataclass_params__",
)  # fmt: skip


def _alternative(
    owner: DataType, name: str, annotations: Mapping[str, object], declared: type
) -> Alternative:
    """One more alternative, with the methods of the class that declares it."""
    own = {n: v for n, v in vars(declared).items() if n not in (*_OF_DATACLASSES, *annotations)}
    own |= {
        "record_type": owner.record_type,
        "tag": len(owner.alternatives),
        "field_names": tuple(annotations),
        "__match_args__": tuple(annotations),
    }
    made = Alternative(name, annotations, type(name, (_Made,), own), is_flat=not annotations)
    owner.alternatives.append(made)
    type.__setattr__(made.kind, "_alternative", made)
    return made


class _Made(Instance):
    """How values are made."""

    _alternative: ClassVar[Alternative]

    def __init__(self, *args: Any, **named: Any) -> None:
        known = self._alternative
        fits = known.is_flat and not named and len(args) == len(known.fields)
        if fits and all(map(_is_plain, args, known.fields)):
            _give(self, known, args, args)
            return
        own = _types[self.record_type]
        a = own.alternatives[self.tag]
        if len(a.trees) < len(a.annotations):
            own.resolved()
        name = f"{own.name}.{a.name}"
        if named or len(args) != len(a.trees):
            args = _by_position(name, tuple(a.trees), args, named)
        leaves: list[Any] = []
        for value, (title, tree) in zip(args, a.trees.items(), strict=True):
            some = [value] if tree.structure is LEAF else leaves_like(value, tree, title, name)
            for v in some:
                _check(v, a.fields[len(leaves)], name)
                leaves.append(v)
        _give(self, a, args, leaves)

    def __setattr__(self, name: str, value: object) -> None:
        kind = type(self)
        raise DefinitionError(
            f"{name} of a {kind.__qualname__} cannot be assigned to: values never change.",
            hint=f"make another one: {kind.__qualname__}({', '.join(self.field_names)}).",
        )


def _give(made: Instance, a: Alternative, values: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Give fields to a value."""
    opens = any(map(holds_tensors, leaves))
    made.__dict__.update(zip(a.trees, values, strict=True), leaves=tuple(leaves), is_open=opens)


def _fill(a: Alternative, made: Sequence[Instance], columns: Sequence[Column]) -> None:
    """Give fields to values: leaves that are known to fit."""
    names, is_flat = tuple(a.trees), a.is_flat
    each = zip(*columns, strict=True) if columns else [()] * len(made)
    for one, leaves in zip(made, each, strict=True):
        own = leaves if is_flat else a.grouped(leaves)
        fields = one.__dict__
        fields["leaves"], fields["is_open"] = leaves, False
        fields.update(zip(names, own, strict=True))


def _by_position(
    name: str, titles: Sequence[str], args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    signature = Signature([Parameter(t, kind) for t in titles])
    return bound_call(name, signature, args, named).args


def leaves_like(value: object, tree: Flat, title: str, name: str) -> list[Any]:
    """The leaves of a field that is a tree."""
    leaves: list[Any] = []
    stack: list[tuple[Structure, Any]] = [(tree.structure, value)]
    while stack:
        at, part = stack.pop()
        if not isinstance(at, Branching):
            leaves.append(part)
            continue
        children = children_like(part, at)
        if children is None:
            flat = flatten(value, title)
            path = first_difference(tree, flat, title)
            raise DefinitionError(
                f"the field {title} of {name} has another structure, first at {path}.",
                where=side_by_side(("declared", "given"), tree, flat, title),
                hint="pass a tree like the annotation.",
            )
        stack += list(zip(at.children, children, strict=True))[::-1]
    return leaves


def _check(value: object, f: Field, name: str) -> None:
    """What is in a field has its dtype and shape."""
    if _is_plain(value, f):
        return
    if f.dtype.is_function:
        shown = leaf_text(value) if is_leaf(value) else f"a {type(value).__name__}"
        raise DTypeError(
            f"the field {f.name} of {name} must be a function, got {shown}.",
            hint="pass a function, or a lambda.",
        )
    if not is_leaf(value):
        raise _unfit(DTypeError, f, name, f"a {type(value).__name__}")
    if promoted([f.dtype, dtype_of(value)]) is not f.dtype:
        raise _unfit(DTypeError, f, name, leaf_text(value))
    shape = shape_of(value)
    if len(shape) != len(f.shape) or not all(map(same_dim, shape, f.shape)):
        raise _unfit(ShapeError, f, name, leaf_text(value))


def _is_plain(value: object, f: Field) -> bool:
    """Whether a value fits at first sight."""
    if f.dtype.is_function:
        return is_function(value) and data_of(value) is None
    if isinstance(value, Instance):
        return value.record_type is f.dtype
    if is_record(f.dtype) and data_of(value) is f.dtype:
        return True
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype is _NUMPY.get(f.dtype) and value.shape == f.shape
    is_number = type(value) is float and f.dtype.is_float
    return (is_number or (type(value) is int and f.dtype.is_integer)) and not f.shape


def _unfit(kind: type[UserError], f: Field, name: str, given: str) -> UserError:
    wanted = f"a {f.dtype}" if is_record(f.dtype) else f"{f.dtype} {format_shape(f.shape)}"
    hint = f"make a value of {f.dtype}." if is_record(f.dtype) else "convert or reshape it."
    return kind(f"the field {f.name} of {name} must be {wanted}, got {given}.", hint=hint)


def _makers(record_type: RecordType) -> list[Maker]:
    every = data_type(record_type).resolved()
    return [Maker(partial(object.__new__, a.kind), partial(_fill, a)) for a in every]


def _of_fields(kind: type[Instance], values: Sequence[Any]) -> Instance:
    """A value of these fields, which need not fit: parts of a tree may become anything."""
    made = object.__new__(kind)
    fields = zip(kind.field_names, values, strict=True)
    made.__dict__.update(fields, leaves=tuple(values), is_open=any(map(holds_tensors, values)))
    return made


instances.alternatives.fill(_makers)
instances.rebuilt.fill(_of_fields)
