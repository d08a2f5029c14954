"""Trees of arrays: containers taken apart into leaves with paths, and put together again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import copysign
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.arrays.exchange import Owner, as_array, is_foreign
from tensorad.ir.expr import Expr
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Tensor
from tensorad.program.data.closures import Handle
from tensorad.program.data.instances import Instance, as_chosen, rebuilt
from tensorad.te.places import Place, Places

_OWN: Final = (Tensor, Expr, np.ndarray, Instance)
_NUMBERS: Final = (bool, int, float, np.generic)
_STATIC: Final = (str, bytes, Enum, np.dtype, Handle)


@dataclass(frozen=True)
class Leaf:
    """The place of an array, a number or a tensor."""


LEAF: Final = Leaf()


@dataclass(frozen=True)
class Static:
    """A part that is known when a program is traced: a string, a callable, an enum."""

    kind: Hashable
    """Of which class, and of which the items of tuples are: 1, 1.0 and True are equal."""
    value: Any


def static(value: object) -> Static:
    """A part that is known when a program is traced."""
    return Static(_kind(value), value)


def _kind(value: object) -> Any:
    """What values that are equal may differ in."""
    if isinstance(value, tuple):
        return (type(value), *map(_kind, value))
    if isinstance(value, float):
        return (type(value), copysign(1.0, value))
    return type(value)


@dataclass(frozen=True)
class Branching:
    """A container: of which class, with what beside its children."""

    kind: type
    meta: Hashable
    keys: tuple[str, ...]
    """What is written behind the container to get each child, e.g. "['w']"."""
    children: tuple[Structure, ...]


Structure = Leaf | Static | Branching
"""What a tree is without its leaves; equal and hashable by value."""


class _Parts(NamedTuple):
    meta: Any
    keys: tuple[str, ...]
    children: tuple[object, ...]


class _Registered(NamedTuple):
    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    as_leaf: Callable[[Any], Any] | None


_registered: Final[dict[type, _Registered]] = {}


def register_tree(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    as_leaf: Callable[[Any], Any] | None = None,
) -> None:
    """Let objects of a class be trees.

    Args:
        cls: the class itself; subclasses are registered on their own.
        flatten: object -> (children, what else it has, hashable).
        unflatten: (what else it has, children) -> object; the children may be any objects.
        as_leaf: object -> a function, or a value of a data type, that takes its place where it
            meets one that has something else; without it they cannot meet.
    Raises:
        DefinitionError: `cls` is no class, or is registered already.
    """
    if not isinstance(cls, type):
        raise DefinitionError(
            f"register_tree takes a class, got {cls!r}.",
            hint="pass the class of the objects, then how they are taken apart and put together.",
        )
    if cls in _registered:
        raise DefinitionError(
            f"{cls.__name__} is registered as a tree already.", hint="register a class once."
        )
    _registered[cls] = _Registered(flatten, unflatten, as_leaf)


class Flat(NamedTuple):
    """A tree taken apart."""

    leaves: list[Any]
    paths: list[str]
    """Where each leaf is, as users write it: "params['w'][0]"."""
    structure: Structure


class _Place:
    """A container whose children are being taken apart."""

    def __init__(self, value: object, parts: _Parts, path: str) -> None:
        self.value = value
        self.parts = parts
        self.path = path
        self.done: list[Structure] = []


def flatten(tree: object, name: str = "") -> Flat:
    """A tree as leaves and structure.

    Args:
        tree: dicts (by sorted keys; ordered ones as they are), lists, tuples, named tuples,
            dataclasses, None and registered classes, of tensors, formulas, arrays and numbers.
            Arrays of other libraries become NumPy's.
            Values of data types are leaves, or containers if they hold functions.
            Strings, callables, enums and dataclass fields with metadata {"static": True} belong
            to the structure.
        name: what paths begin with.
    Raises:
        DefinitionError: a part is of another class, or contains itself.
        BindError, DTypeError: an array of another library does not give its elements.
    """
    leaves: list[Any] = []
    paths: list[str] = []
    open_places: list[_Place] = []
    around: set[int] = set()
    value, path = tree, name
    while True:
        made: Structure | None = None
        parts = None if isinstance(value, (Place, Places)) else _parts(value, path)
        if parts is not None:
            if id(value) in around:
                raise _endless(value, path)
            around.add(id(value))
            open_places.append(_Place(value, parts, path))
        elif is_leaf(value):
            leaves.append(_own(value, path))
            paths.append(path)
            made = LEAF
        elif isinstance(value, (Place, Places)):
            raise _no_tree(value, path)
        elif isinstance(value, _STATIC) or callable(value):
            made = static(value)
        elif isinstance(value, Fixed):
            made = static(value.value)
        else:
            raise _no_tree(value, path)
        while open_places:
            place = open_places[-1]
            if made is not None:
                place.done.append(made)
                made = None
            if len(place.done) < len(place.parts.children):
                n = len(place.done)
                value, path = place.parts.children[n], place.path + place.parts.keys[n]
                break
            open_places.pop()
            around.discard(id(place.value))
            meta, keys, _ = place.parts
            made = Branching(type(place.value), meta, keys, tuple(place.done))
        else:
            assert made is not None, "the outermost part is done"
            return Flat(leaves, paths, made)


def is_leaf(value: object) -> bool:
    """Whether it is a tensor, a formula, an array, a number or a value of a data type."""
    if isinstance(value, _OWN):
        return True
    if isinstance(value, _NUMBERS):  # NumPy's strings are strings
        return not isinstance(value, (Enum, str, bytes))
    return not isinstance(value, _STATIC) and is_foreign(value)


def _own(value: Any, path: str) -> Any:
    """A leaf, arrays of other libraries as NumPy's.

    Raises:
        BindError, DTypeError: there is no array of its elements.
    """
    if isinstance(value, (*_OWN, *_NUMBERS)):
        return value
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    return as_array(value, Owner(path or "the value", path or "x", kind))


class Fixed(NamedTuple):
    """A part that is marked static: a dataclass field, an argument."""

    value: object


def _parts(value: object, path: str = "") -> _Parts | None:
    """A container's children; None for anything else."""
    kind = type(value)
    if value is None:
        return _Parts(None, (), ())
    if kind in _registered:
        found, meta = _taken_apart(value, path)
        return _Parts(meta, tuple([f"[{n}]" for n in range(len(found))]), found)
    if isinstance(value, Fixed):
        return None
    if kind in (dict, OrderedDict):
        assert isinstance(value, dict)
        order = _sorted(value) if kind is dict else list(value)
        children = tuple([value[k] for k in order])
        return _Parts(tuple(order), tuple([f"[{k!r}]" for k in order]), children)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _Parts(None, tuple([f".{f}" for f in value._fields]), tuple(value))
    if kind in (list, tuple):
        assert isinstance(value, (list, tuple))
        return _Parts(None, tuple([f"[{n}]" for n in range(len(value))]), tuple(value))
    if isinstance(value, Instance):
        is_one = value.is_container or value.record_type.holds_functions
        return _parts_of_value(value) if is_one else None
    if is_dataclass(value) and not isinstance(value, (type, Enum)):
        own = fields(value)
        children = tuple(
            [
                Fixed(getattr(value, f.name))
                if f.metadata.get("static")
                else getattr(value, f.name)
                for f in own
            ]
        )
        return _Parts(tuple([f.name for f in own]), tuple([f".{f.name}" for f in own]), children)
    return None


def _parts_of_value(value: Instance) -> _Parts:
    """The fields of a value that is a container, as one that holds functions is: these are parts
    of it as they are of others."""
    own = value.field_names
    return _Parts(None, tuple([f".{n}" for n in own]), tuple([getattr(value, n) for n in own]))


def children_like(tree: object, structure: Branching) -> tuple[object, ...] | None:
    """The children of a tree that branches as told; None if it does otherwise."""
    parts = _parts(tree)
    same = (structure.kind, structure.meta, structure.keys)
    if parts is None or (type(tree), parts.meta, parts.keys) != same:
        return None
    return parts.children


def n_leaves(structure: Structure) -> int:
    """How many leaves a tree has."""
    count, stack = 0, [structure]
    while stack:
        at = stack.pop()
        count += isinstance(at, Leaf)
        stack += at.children if isinstance(at, Branching) else ()
    return count


def _taken_apart(value: object, path: str) -> tuple[tuple[object, ...], Any]:
    """What the flatten of a registered class returns."""
    kind = type(value)
    made = _registered[kind].flatten(value)
    match made:
        case (children, meta) if isinstance(children, Iterable):
            return tuple(children), meta
    raise DefinitionError(
        f"the flatten of {kind.__name__} must return (children, what else it has), got {made!r}.",
        where=path or None,
        hint="children are a tuple or a list; return ((x.a, x.b), None) where there is nothing "
        "else.",
    )


def _endless(value: object, path: str) -> DefinitionError:
    return DefinitionError(
        f"{path or 'the value'} is a {type(value).__name__} that contains itself.",
        hint="a tree ends in arrays and numbers: copy what is meant, or leave it out.",
    )


def _sorted(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:  # keys of several classes
        return sorted(keys, key=lambda k: (type(k).__name__, repr(k)))


def _no_tree(value: object, path: str) -> DefinitionError:
    if isinstance(value, (Place, Places)):
        return DefinitionError(
            f"{path or 'the value'} names places of {value.tensor.name}, but not what is put "
            "there.",
            where=f"{value.tensor.name}.at[...]",
            hint=f"write {value.tensor.name}.at[i].set(value), or add, mul, min, max.",
        )
    return DefinitionError(
        f"{path or 'the value'} is of class {type(value).__name__}, which is neither an array nor "
        "a tree of arrays.",
        hint="pass arrays, numbers, tensors, and dicts, lists, tuples or dataclasses of them; "
        "tell how another class is taken apart with ta.register_tree.",
    )


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves, in the order of `flatten`."""
    given = iter(leaves)
    stack: list[tuple[Branching, Iterator[Structure], list[Any]]] = []
    at = structure
    while True:
        made: list[object] = []
        match at:
            case Leaf():
                made.append(next(given))
            case Static(value=value):
                made.append(value)
            case Branching():
                stack.append((at, iter(at.children), []))
        while stack:
            node, rest, done = stack[-1]
            done += made
            made = []
            following = next(rest, None)
            if following is not None:
                at = following
                break
            stack.pop()
            made.append(_built(node, done))
        else:
            return made[0]


def is_container(value: object) -> bool:
    """Whether a tree branches at a value."""
    return _parts(value) is not None


def apart(value: object) -> tuple[tuple[Any, ...], Any]:
    """The children of a container, and what it has beside them."""
    parts = _parts(value)
    assert parts is not None, "containers alone are taken apart"
    return parts.children, parts.meta


def together(kind: type, meta: Any, children: Sequence[Any]) -> Any:
    """The container of a class with these children, and this beside them."""
    return _built(Branching(kind, meta, (), ()), list(children))


def leaf_maker(at: Structure) -> Callable[[Any], Any] | None:
    """What makes one leaf of such a part of a tree, if anything does."""
    if not isinstance(at, Branching):
        return None
    if at.kind in _registered:
        return _registered[at.kind].as_leaf
    return None if data_type_of(at) is None else as_chosen.call


def data_type_of(at: Structure) -> RecordType | None:
    """The data type of a part that is a value with functions in it; None of anything else."""
    if not isinstance(at, Branching) or not issubclass(at.kind, Instance) or at.kind.is_container:
        return None
    return at.kind.record_type if at.kind.record_type.holds_functions else None


def _built(node: Branching, children: list[Any]) -> object:
    kind = node.kind
    if kind is type(None):
        return None
    if kind in _registered:
        return _registered[kind].unflatten(node.meta, children)
    if kind in (dict, OrderedDict):
        return kind(zip(node.meta, children, strict=True))  # type: ignore[call-overload]
    if issubclass(kind, tuple):
        return kind(*children) if hasattr(kind, "_fields") else tuple(children)
    if kind is list:
        return children
    if issubclass(kind, Instance):
        return rebuilt.call(kind, children)
    made = object.__new__(kind)
    for name, child in zip(node.meta, children, strict=True):  # type: ignore[call-overload]
        object.__setattr__(made, name, child)
    return made


def statics(
    structure: Structure, name: str = "", enters: Callable[[Structure], bool] | None = None
) -> list[tuple[str, object]]:
    """The static parts with their paths; `enters`: which containers are looked into."""
    found: list[tuple[str, object]] = []
    stack: list[tuple[Structure, str]] = [(structure, name)]
    while stack:
        at, path = stack.pop()
        if isinstance(at, Static):
            found.append((path, at.value))
        elif isinstance(at, Branching) and (enters is None or enters(at)):
            pairs = zip(at.children, at.keys, strict=True)
            stack += [(child, path + key) for child, key in pairs][::-1]
    return found
