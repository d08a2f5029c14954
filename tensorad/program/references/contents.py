"""What references hold: leaves as they are kept, and whether another tree may take their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.order import AXIS, occurs
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program.calls import shape_of
from tensorad.program.data.closures import Handle
from tensorad.program.data.function_types import data_of, is_function
from tensorad.program.leaf_types import opened, with_leaves
from tensorad.program.references.frames import Cell, Held, current
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import (
    Branching,
    Flat,
    Static,
    Structure,
    flatten,
    unflatten,
)
from tensorad.program.values import alone, as_tensor, check_dtype, dtype_of, promoted


def first_held(tree: object, name: str) -> Held:
    """What a new reference holds.

    Raises:
        DefinitionError: it is no tree.
    """
    flat = flatten(tree, name)
    leaves = [_kept(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
    dtypes = [dtype_of(v) for v in leaves]
    return Held(tuple(leaves), tuple(flat.paths), flat.structure, tuple(dtypes))


def under(held: Held, name: str) -> Held:
    """The same tree as that of a reference of another name."""
    flat = flatten(unflatten(held.structure, held.leaves), name)
    return held._replace(paths=tuple(flat.paths), structure=flat.structure)


def shown(held: Held) -> Any:
    """The tree as users get it: inside of functions arrays are tensors."""
    inside = is_tracing() or current() is not None
    pairs = zip(held.leaves, held.paths, strict=True)
    return unflatten(held.structure, [_as_tensor(v, p) if inside else v for v, p in pairs])


def _as_tensor(value: Any, path: str) -> Any:
    if data_of(value) is not None and not isinstance(value, Tensor):
        return value.value
    return as_tensor(value, path) if isinstance(value, np.ndarray) else value


def _kept(value: Any, path: str) -> Any:
    """A leaf as it is held: arrays copied, inside of functions as tensors."""
    check_dtype(value, path)
    if isinstance(value, Expr) and occurs(AXIS, value):
        return as_tensor(value, path)  # which says what is wrong
    if isinstance(value, (Tensor, Expr)) or type(value) in (bool, int, float):
        return value
    if is_tracing() or current() is not None:
        return as_tensor(value, path)
    copy = np.array(value)
    copy.flags.writeable = False
    return copy


def with_functions(held: Sequence[Held], name: str) -> list[Held]:
    """The trees with leaves where they have different functions.

    Args:
        name: what their paths begin with.
    """
    flats = opened([h.flat for h in held], name)
    return [_with_dtypes(h, flat) for h, flat in zip(held, flats, strict=True)]


def with_leaves_at(held: Held, name: str, paths: Sequence[str]) -> Held:
    """The tree with leaves at these paths, where functions are known."""
    if all(p in held.paths for p in paths):
        return held
    return _with_dtypes(held, with_leaves(held.flat, name, paths))


def _with_dtypes(held: Held, flat: Flat) -> Held:
    """The tree with leaves more, old ones of their dtypes."""
    known = dict(zip(held.paths, held.dtypes, strict=True))
    pairs = zip(flat.leaves, flat.paths, strict=True)
    dtypes = tuple([known[p] if p in known else dtype_of(v) for v, p in pairs])
    return Held(tuple(flat.leaves), tuple(flat.paths), flat.structure, dtypes)


def fitted(cell: Cell, held: Held, tree: object, path: str) -> Held:
    """The tree as one that may take the place of `held`.

    Args:
        held: what the reference holds, or a part of it, at `path`.
    Raises:
        DefinitionError: the structure is another one.
        ShapeError, DTypeError: a leaf has another shape or dtype.
    """
    flat = flatten(tree, path)
    check_structure(cell, held, flat, path)
    leaves: list[Any] = []
    dtypes: list[DType] = []
    for value, path in zip(flat.leaves, flat.paths, strict=True):
        if is_function(value):  # in the place of any other
            leaves.append(value)
            dtypes.append(dtype_of(value))
            continue
        kept = _kept(value, path)
        if path not in held.paths:  # which reference it is, in the place of one that is known
            leaves.append(kept)
            dtypes.append(dtype_of(kept))
            continue
        n = held.at(path)
        own, before = shape_of(kept), shape_of(held.leaves[n])
        if len(own) != len(before) or not all(map(same_dim, own, before)):
            raise _unlike(ShapeError, "shape", cell, held, n, kept)
        dtype = promoted([held.dtypes[n], dtype_of(kept)])
        if dtype is None:
            raise _unlike(DTypeError, "dtype", cell, held, n, kept)
        leaves.append(in_dtype(kept, path, dtype))
        dtypes.append(dtype)
    return Held(tuple(leaves), tuple(flat.paths), flat.structure, tuple(dtypes))


def in_dtype(value: Any, path: str, dtype: DType) -> Any:
    """A leaf in the dtype of what it met."""
    if dtype_of(value) is dtype or (isinstance(value, Tensor) and value.dtype is alone(dtype)):
        return value
    if dtype.is_weak and type(value) is int:
        return float(value)
    return as_tensor(value, path, alone(dtype))


def check_structure(cell: Cell, held: Held, new: Flat, name: str) -> None:
    """A tree has the structure of what is held, up to which functions and references are in it.

    Raises:
        DefinitionError: it has another one.
    """
    one, other = opened([held.flat, new], name)
    if not are_alike(one.structure, other.structure):
        path = first_difference(held.flat, new, name)
        raise DefinitionError(
            f"{cell.described} is written with another structure at {path}.",
            where=side_by_side(("held", "written"), held.flat, new, name),
            hint="a reference holds trees of one structure: make another one for what is another "
            "tree.",
        )


def are_alike(one: Structure, other: Structure) -> bool:
    """Whether structures are equal, apart from which functions and references are in them."""
    stack = [(one, other)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, Branching) and isinstance(b, Branching):
            if (a.kind, a.meta, a.keys) != (b.kind, b.meta, b.keys):
                return False
            stack += zip(a.children, b.children, strict=True)
        elif (
            a != b
            and not (_is_function(a) and _is_function(b))
            and not (_is_handle(a) and _is_handle(b))
        ):
            return False
    return True


def _is_function(s: Structure) -> bool:
    return isinstance(s, Static) and callable(s.value)


def _is_handle(s: Structure) -> bool:
    return isinstance(s, Static) and isinstance(s.value, Handle)


def _unlike(
    kind: type[UserError], what: str, cell: Cell, held: Held, n: int, value: object
) -> UserError:
    shape = format_shape(shape_of(held.leaves[n]))
    hint = "a reference holds one shape: make it with an array of this one."
    if kind is DTypeError:
        hint = f"convert the value with .astype('{alone(held.dtypes[n])}'), or make the reference "
        hint += f"with {alone(dtype_of(value))}."
    return kind(
        f"{cell.described} is written with another {what} at {held.paths[n]}.",
        where=f"held: {alone(held.dtypes[n])} {shape}, written: {leaf_text(value)}",
        hint=hint,
    )
