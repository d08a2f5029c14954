"""References: what they hold is read and written while a program is written down."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.order import AXIS, occurs
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program.calls import shape_of
from tensorad.program.references.frames import Cell, Held, current, read, write
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Branching, Handle, Static, Structure, flatten, unflatten
from tensorad.program.values import alone, as_tensor, check_dtype, dtype_of, promoted


class Ref(Cell):
    """A place that holds a tree; see `ref`."""

    def __repr__(self) -> str:
        return f"<Ref {self.name} made at {self.source}>"

    def get(self) -> Any:
        """The tree that it holds now: tensors; outside of functions arrays as they were given.

        Raises:
            DefinitionError: what made the reference is done, so it holds nothing.
        """
        held = read(self)
        inside = is_tracing() or current() is not None
        leaves = [
            _as_tensor(v, p) if inside else v for v, p in zip(held.leaves, held.paths, strict=True)
        ]
        return unflatten(held.structure, leaves)

    def set(self, tree: object) -> None:
        """Let it hold another tree.

        Args:
            tree: of the same structure, shapes and dtypes; a Python number takes the dtype of
                what it meets. Functions and references in it may be others.
        Raises:
            DefinitionError: the structure is another one; or references are not written here.
            ShapeError, DTypeError: a leaf has another shape or dtype.
        """
        write(self, _fitted(self, read(self), tree))

    def add(self, tree: object) -> None:
        """Add a tree of the same structure, leaf by leaf."""
        self._combine(add, tree)

    def mul(self, tree: object) -> None:
        """Multiply by a tree of the same structure, leaf by leaf."""
        self._combine(mul, tree)

    def _combine(self, operation: Callable[[Any, Any], Any], tree: object) -> None:
        old, new = flatten(self.get(), self.name), flatten(tree, self.name)
        _check_structure(
            self, read(self), Held(tuple(new.leaves), tuple(new.paths), new.structure, ())
        )
        pairs = zip(old.leaves, new.leaves, strict=True)
        self.set(unflatten(old.structure, [operation(a, b) for a, b in pairs]))


def ref(tree: object, name: str = "ref") -> Ref:
    """A reference: a place that holds a tree, which is read and written.

    Functions, branches and loops read and write references of outside: what an arm of `ta.cond`
    or `ta.switch` writes becomes a result of the branch, what the body of a loop writes is
    carried. A function that is differentiated leaves what its own run writes. A reference is no
    value: it is no result of a function, and no carry.

    Args:
        tree: what it holds first: tensors, arrays, numbers, and trees of them, with functions and
            other references in them.
        name: what errors and texts call it.
    Returns:
        a `Ref`: `get`, `set`, `add`, `mul`; `at` for parts.
    Raises:
        DefinitionError: something is no tree.
    """
    flat = flatten(tree, name)
    leaves = [_kept(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
    held = Held(
        tuple(leaves), tuple(flat.paths), flat.structure, tuple([dtype_of(v) for v in leaves])
    )
    return Ref(name, source_line(), held)


def _as_tensor(value: Any, path: str) -> Any:
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


def _fitted(cell: Cell, held: Held, tree: object) -> Held:
    """The tree as one that a reference may hold after `held`."""
    flat = flatten(tree, cell.name)
    new = Held(tuple(flat.leaves), tuple(flat.paths), flat.structure, ())
    _check_structure(cell, held, new)
    leaves: list[Any] = []
    dtypes: list[DType] = []
    for n, (value, path) in enumerate(zip(flat.leaves, flat.paths, strict=True)):
        kept = _kept(value, path)
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


def _check_structure(cell: Cell, held: Held, new: Held) -> None:
    if not are_alike(held.structure, new.structure):
        path = first_difference(held.flat, new.flat, cell.name)
        raise DefinitionError(
            f"{cell.described} is written with another structure at {path}.",
            where=side_by_side(("held", "written"), held.flat, new.flat, cell.name),
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
