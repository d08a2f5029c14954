"""Values of data types as containers, of which fields are parts in trees, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, is_record
from tensorad.ir.tensor import Tensor
from tensorad.program.data import instances
from tensorad.program.data.instances import Instance, folded, rebuilt
from tensorad.program.kinds.variants import data_type, leaves_like, value_of


def container_of(value: Instance) -> Instance:
    """The value as one that stands for its fields in trees: what its alternatives are is known."""

    def make(at: Instance, inner: list[Any]) -> Instance:
        rest = iter(inner)
        a = data_type(at.record_type).resolved()[at.tag]
        pairs = zip(at.leaves, a.fields, strict=True)
        leaves = [next(rest) if isinstance(v, Instance) else _as_field(v, f) for v, f in pairs]
        return rebuilt.call(_container_kind(type(at)), a.grouped(leaves))

    holds_functions = value.record_type.holds_functions
    made: Instance = value if holds_functions else folded(value, _inner, make)
    return made


def value_in(container: Instance) -> Instance:
    """The value of such fields, which have to fit."""

    def parts(at: Instance) -> list[Any]:
        a = data_type(at.record_type).resolved()[at.tag]
        fields = [(getattr(at, name), tree, name) for name, tree in a.trees.items()]
        return [v for own, tree, name in fields for v in leaves_like(own, tree, name, a.name)]

    def make(at: Instance, inner: list[Any]) -> Instance:
        rest = iter(inner)
        leaves = [next(rest) if isinstance(v, Instance) else v for v in parts(at)]
        return value_of(data_type(at.record_type), at.tag, leaves)

    made: Instance = folded(container, lambda at: _instances(parts(at)), make)
    return made


def _inner(value: Instance) -> list[Instance]:
    return _instances(value.leaves)


def _instances(parts: Sequence[Any]) -> list[Instance]:
    return [v for v in parts if isinstance(v, Instance)]


def _as_field(value: Any, f: Field) -> Any:
    """What is in a field, of the field's dtype."""
    if isinstance(value, (Tensor, Expr)) or is_record(f.dtype):
        return value
    return np.asarray(value, str(f.dtype))


def _container_kind(kind: type[Instance]) -> type[Instance]:
    """The class of containers like values of an alternative."""
    if "_container" not in vars(kind):
        own = {"is_container": True, "__module__": kind.__module__}
        made = type(kind.__name__, (kind,), {**own, "__qualname__": kind.__qualname__})
        type.__setattr__(kind, "_container", made)
    found: type[Instance] = vars(kind)["_container"]
    return found


instances.as_container.fill(container_of)
instances.as_value.fill(value_in)
