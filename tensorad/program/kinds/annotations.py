"""What annotations of fields say: dtypes with shapes, data types, trees of both."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.dtypes import BOOL, DTYPES, INT64, DType, to_dtype
from tensorad.ir.records import Field, RecordType, stand_ins
from tensorad.ir.tensor import Shape, Tensor
from tensorad.program.data.function_types import ANY_FUNCTION
from tensorad.program.trees import Flat, flatten, unflatten

_BY_NAME = {str(d): d for d in DTYPES}


class Names(NamedTuple):
    """Where names in annotations are looked up.

    Attributes:
        known: by name.
        type_of: the record type of a class that declares one; None for other objects.
    """

    known: Mapping[str, Any]
    type_of: Callable[[object], RecordType | None]


class Fn:
    """The annotation of a field of a data type that has a function, `f: ta.Fn`.

    Values of such a type are containers: where a program is written down it is known which
    alternatives they are, and functions among them are a part of it, with all that they capture.
    """


class Kind:
    """The dtype and shape of a leaf, as a part of a tree of them."""

    def __init__(self, dtype: DType, shape: Shape = ()) -> None:
        self.dtype = dtype
        self.shape = shape

    def __call__(self) -> Field:
        """A field of this kind, without a name. Kinds are callable: they are static in trees."""
        return Field("", self.shape, self.dtype)


def fields_of_annotation(annotation: object, path: str, names: Names) -> tuple[Flat, list[Field]]:
    """The tree of a field, with a leaf for each value, and a field of a variant for each leaf.

    Raises:
        DefinitionError, DTypeError: the annotation says nothing that fields can have.
    """
    tree = _read(annotation, path, names)
    kinds: list[Kind] = []

    def leaf(kind: Kind) -> Tensor:
        kinds.append(kind)
        return stand_ins([Field(path, kind.shape, kind.dtype)])[0]

    flat = flatten(_mapped(tree, leaf), path.rpartition(".")[2])
    pairs = zip(flat.paths, kinds, strict=True)
    return flat, [Field(p, k.shape, k.dtype) for p, k in pairs]


def _mapped(tree: Any, leaf: Callable[[Kind], Tensor]) -> Any:
    if isinstance(tree, Kind):
        return leaf(tree)
    if isinstance(tree, dict):
        return {k: _mapped(tree[k], leaf) for k in sorted(tree)}
    if tree is None:
        return None
    return type(tree)([_mapped(t, leaf) for t in tree])


def _read(a: object, path: str, names: Names) -> Any:
    """A tree of kinds."""
    if isinstance(a, (tuple, list)):
        return type(a)([_read(t, path, names) for t in a])
    if isinstance(a, dict):
        return {k: _read(t, path, names) for k, t in a.items()}
    if isinstance(a, str) and not isinstance(a, DType):
        return _parsed(a, path, names)
    if isinstance(a, (Tensor, np.ndarray)):
        return Kind(to_dtype(a.dtype), tuple(a.shape))
    found = names.type_of(a)
    if found is not None:
        return Kind(found)
    if a is None:
        return None
    if a is Fn:
        return Kind(ANY_FUNCTION)
    if a is int or a is bool:
        return Kind(INT64 if a is int else BOOL)
    if a is float:
        raise DTypeError(
            f"{path} is annotated as float, which may be float32 or float64.",
            hint=f"write {path.rpartition('.')[2]}: 'float64'.",
        )
    if isinstance(a, (DType, np.dtype)) or (isinstance(a, type) and issubclass(a, np.generic)):
        return Kind(to_dtype(a))
    raise _unclear(path, repr(a))


def _unclear(path: str, text: str) -> DefinitionError:
    return DefinitionError(
        f"the annotation of {path} says nothing that a field can have: {text}.",
        hint="write a dtype with a shape, 'float64[3]', the name of a data type, or a tuple, list "
        "or dict of these.",
    )


def _parsed(text: str, path: str, names: Names) -> Any:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise _unclear(path, text) from None
    return _of_node(node, path, names)


def _of_node(node: ast.expr, path: str, names: Names) -> Any:
    match node:
        case ast.Constant(value=str(text)):
            return _parsed(text, path, names)
        case ast.Constant(value=None):
            return None
        case ast.Tuple(elts=parts):
            return tuple([_of_node(p, path, names) for p in parts])
        case ast.List(elts=parts):
            return [_of_node(p, path, names) for p in parts]
        case ast.Dict(keys=keys, values=parts) if all(isinstance(k, ast.Constant) for k in keys):
            named = zip(keys, parts, strict=True)
            return {
                k.value: _of_node(p, path, names) for k, p in named if isinstance(k, ast.Constant)
            }
        case ast.Subscript(value=ast.Name(id=name), slice=at) if name in _BY_NAME:
            extents = at.elts if isinstance(at, ast.Tuple) else [at]
            return Kind(_BY_NAME[name], tuple([_extent(e, path, names) for e in extents]))
        case ast.Name(id=name) if name in _BY_NAME:
            return Kind(_BY_NAME[name])
        case ast.Name() | ast.Attribute():
            return _read(_looked_up(ast.unparse(node), path, names), path, names)
    raise _unclear(path, ast.unparse(node))


def _extent(node: ast.expr, path: str, names: Names) -> int:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = _looked_up(ast.unparse(node), path, names)
    if isinstance(value, int) and value >= 0:
        return int(value)
    raise DefinitionError(
        f"{ast.unparse(node)} is no extent of {path}.",
        hint="extents of fields are whole numbers, or names of such.",
    )


def _looked_up(text: str, path: str, names: Names) -> Any:
    first, *rest = text.split(".")
    if first in names.known:
        found = names.known[first]
        for name in rest:
            found = getattr(found, name, None)
        if found is not None:
            return found
    raise DefinitionError(
        f"the annotation of {path} names {text}, which is no dtype and is not defined there.",
        hint="write a dtype, 'float64[3]', or the name of a data type of the same module.",
    )


def tree_of(flat: Flat, leaves: list[Any]) -> Any:
    """The tree of a field with these leaves."""
    return unflatten(flat.structure, leaves)
