"""Interned immutable nodes: equal structure is the same object, so `is` compares."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, Self, TypeVar, dataclass_transform

import numpy as np

from tensorad.ir.hooks import Hook
from tensorad.process import Guard


class _Entry(weakref.ref[Any]):
    """A weak reference that knows its key (weakref.KeyedRef, without its Python methods)."""

    __slots__ = ("key",)
    key: tuple[object, ...]


_table: dict[tuple[object, ...], _Entry] = {}
_guard = Guard()
_new = object.__new__


def _remove(ref: _Entry) -> None:
    if _table.get(ref.key) is ref:
        del _table[ref.key]


def _key(value: object) -> object:
    """Identity of a field: nodes and nominal objects by address, constants by their repr."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is tuple:
        return tuple([_key(v) for v in value])  # type: ignore[attr-defined]
    if kind is float or kind is bool:
        return (id(kind), repr(value))
    return id(value)


@dataclass_transform(frozen_default=True, eq_default=False)
class NodeMeta(type):
    """Turns annotations into slots and makes construction intern."""

    _setters: tuple[Any, ...]
    has_place = False
    """Set in a class whose first fields, a nominal object and a number, tell the others."""
    has_operands = False
    """Set in a class whose fields are (a nominal object, anything, a tuple of nodes): the nodes
    are also called `below`."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> NodeMeta:
        own = tuple(namespace.get("__annotations__", ()))
        namespace.setdefault("__slots__", own)
        cls = super().__new__(mcls, name, bases, namespace)
        fields = tuple(f for b in bases for f in getattr(b, "__match_args__", ())) + own
        type.__setattr__(cls, "__match_args__", fields)
        type.__setattr__(cls, "_setters", tuple(getattr(cls, f).__set__ for f in fields))
        if cls.has_operands:
            type.__setattr__(cls, "below", getattr(cls, own[-1]))
        return cls

    def __call__(cls, *values: Any, **named: Any) -> Any:
        if named:
            values += tuple(named.pop(f) for f in cls.__match_args__[len(values) :])  # type: ignore[attr-defined]
        if named or len(values) != len(cls._setters):
            raise TypeError(f"{cls.__name__} takes the fields {cls.__match_args__}")  # type: ignore[attr-defined]
        key: tuple[object, ...]
        if cls.has_operands:  # most nodes: no need to ask what the operands are
            what = values[1]
            own = what if type(what) is str else id(what)
            key = (id(cls), id(values[0]), own, *map(id, values[2]))
        elif cls.has_place:
            key = (id(cls), id(values[0]), values[1])
        else:  # numbers and strings only: the garbage collector need not look into keys
            key = (id(cls), *[_key(v) for v in values])
        ref = _table.get(key)
        if ref is not None and (found := ref()) is not None:
            return found
        self: Any = _new(cls)  # type: ignore[arg-type]  # NodeMeta classes are types
        if cls.has_operands:
            first, second, third = cls._setters
            first(self, values[0])
            second(self, values[1])
            third(self, values[2])
        else:
            for setter, value in zip(cls._setters, values, strict=True):
                setter(self, value)
        self._complete()
        entry = _Entry(self, _remove)
        entry.key = key
        with _guard.lock:
            ref = _table.get(key)
            if ref is not None and (found := ref()) is not None:
                return found
            _table[key] = entry
        return self


def _refuse(self: object, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")


R = TypeVar("R")
Method = Callable[[Any, object], R]


def both_sides(operator: Hook[..., R], op: str) -> tuple[Method[R], Method[R]]:
    """The methods of a Python operator: for a node on its left, and on its right."""
    return (
        lambda self, other: operator.call(op, self, other),
        lambda self, other: operator.call(op, other, self),
    )


class Node(metaclass=NodeMeta):
    """Base of the interned nodes, formulas both; hash and equality are identity."""

    __slots__ = ("__weakref__",)

    def _complete(self) -> None:
        """Fill slots that follow from the fields, once they are set."""

    __setattr__ = _refuse
    __delattr__ = _refuse

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return reduced_node.call(self)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *operands: object, **keywords: object
    ) -> Any:
        """NumPy's functions, and its operators with NumPy scalars and arrays on the left."""
        return apply_ufunc.call(ufunc, method, operands, keywords)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        """NumPy's functions of whole arrays."""
        if not all(issubclass(t, (Node, np.ndarray)) for t in types):
            return NotImplemented
        return apply_array_function.call(function, args, keywords)

    def __pos__(self) -> Self:
        return self

    def _no_number(self, name: str) -> NoReturn:
        """Say that Python wants a number where there is a formula.

        Expressions and tensors say it each in their own words. Nobody makes a bare node; the
        metaclass of nodes interns them, so it is not that of abstract classes.
        """
        raise NotImplementedError

    def __int__(self) -> int:
        self._no_number("int()")

    def __float__(self) -> float:
        self._no_number("float() or a function of the math module")

    def __round__(self, digits: int = 0) -> int:
        self._no_number("round()")

    def __trunc__(self) -> int:
        self._no_number("math.trunc()")

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: object) -> Node:
        return self


apply_ufunc: Final[Hook[[np.ufunc, str, Sequence[object], Mapping[str, object]], Any]] = Hook(
    "tensorad.ir.arrays.ufuncs"
)
apply_array_function: Final[Hook[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]] = (
    Hook("tensorad.topi.as_numpy.dispatch")
)
reduced_node: Final[Hook[[Node], tuple[Any, ...]]] = Hook("tensorad.ir.text.pickling")
