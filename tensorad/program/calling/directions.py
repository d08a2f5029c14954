"""Derivatives by values of data types: values like them, given and returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tensorad.autodiff.local.record_gradients import (
    as_derivative,
    as_gradient,
    gradient_type,
    kept_places,
)
from tensorad.autodiff.local.records import tangent_type
from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.records import RecordType, is_record
from tensorad.ir.tensor import Tensor
from tensorad.program.data.instances import Instance, copied
from tensorad.program.trees import flatten, unflatten
from tensorad.program.values import as_tensor, dtype_of, is_number


def like_value(value: Tensor, derivative: object) -> object:
    """The derivative by a tensor as users get it: by a value of a data type a value like it."""
    if isinstance(derivative, Tensor) and is_record(value.dtype):
        return as_gradient(value, derivative)
    return derivative


def direction(t: Tensor, value: object, path: str, subject: str) -> Tensor:
    """What a user gives as tangent, cotangent or vector of a value of a data type.

    Args:
        path: where it is; `subject`: what errors call it.
    Raises:
        DTypeError: it is no value like it.
    """
    own = t.dtype
    assert isinstance(own, RecordType), "others have arrays as directions"
    dtype = dtype_of(value)
    if dtype not in (own, gradient_type(own), tangent_type(own)):
        raise DTypeError(
            f"the {subject} is of {dtype}, but what it belongs to is of the data type {own}.",
            where=path,
            hint=f"pass a value of {own}: of the same alternatives, with numbers for directions.",
        )
    return as_derivative(as_tensor(value, path))


class _Pair(NamedTuple):
    value: Instance
    given: Instance
    path: str


def check_alternatives(values: object, given: object, kind: str, name: str, title: str) -> None:
    """Directions of values of data types are of the same alternatives, at every depth.

    Args:
        values: a tree; `given`: what is given for it, a tree with the same paths.
        kind: "cotangent", "tangent" or "vector".
        name: what paths begin with; `title`: of which derivative, as errors say it.
    Raises:
        DefinitionError: one is of another alternative.
    """
    flat = flatten(given, name)
    found = dict(zip(flat.paths, flat.leaves, strict=True))
    own = flatten(values, name)
    pairs = [
        _Pair(v, found[path], path)
        for v, path in zip(own.leaves, own.paths, strict=True)
        if isinstance(v, Instance) and isinstance(found.get(path), Instance)
    ]
    seen: set[tuple[int, int]] = set()
    stack = [p for p in pairs[::-1] if p.given.record_type in _alike(p.value.record_type)]
    while stack:
        at = stack.pop()
        if (id(at.value), id(at.given)) in seen:
            continue
        seen.add((id(at.value), id(at.given)))
        if at.value.tag != at.given.tag:
            raise _unlike(at, kind, title)
        stack += _inner(at)[::-1]


def _alike(own: RecordType) -> Mapping[RecordType, None]:
    return dict.fromkeys([own, gradient_type(own)])


def _inner(at: _Pair) -> list[_Pair]:
    """The values in the fields of a pair that may be unlike."""
    own = at.value.record_type
    variant = own.variants[at.value.tag]
    kept = kept_places(variant)
    leaves = at.given.leaves
    if at.given.record_type is own:
        leaves = tuple([leaves[k] for k in kept])
    every = [
        (variant.fields[k].name, at.value.leaves[k], v) for k, v in zip(kept, leaves, strict=True)
    ]
    return [
        _Pair(v, d, f"{at.path}.{name}")
        for name, v, d in every
        if isinstance(v, Instance) and isinstance(d, Instance)
    ]


def _unlike(at: _Pair, kind: str, title: str) -> DefinitionError:
    given, own = type(at.given).__name__, type(at.value).__name__
    return DefinitionError(
        f"the {kind} of {title} has {given} where the value that it belongs to has {own}.",
        where=at.path,
        hint=f"a {kind} of a value of {at.value.record_type} is of the same alternatives, with "
        "numbers for directions.",
    )


def as_now(tree: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as they are now: arrays may be changed before a derivative is asked for."""
    flat = flatten(tree)
    return tuple(unflatten(flat.structure, [_kept(v) for v in flat.leaves]))


def _kept(value: object) -> object:
    if isinstance(value, Instance):
        return copied(value)
    return value if is_number(value) else np.array(value)
