"""`x.at[...]`: copies of an array with other elements at some places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from tensorad.errors import DTypeError, ShapeError
from tensorad.ir import array_methods
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import compute_axes, same_dim
from tensorad.ir.dtypes import BOOL, result_type
from tensorad.ir.expr import ZERO, Expr, call, cast, checked_read, read
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import Shape, Tensor, format_shape
from tensorad.simplify.bounds.reads import check_reads, unproved_reads
from tensorad.te.accumulate import scatter
from tensorad.te.checks import element
from tensorad.te.items import part_name
from tensorad.te.reducers import all_of, comm_reducer
from tensorad.te.scalars import select
from tensorad.te.selection import Selection, broadcast_indices, selection
from tensorad.te.tensors import compute
from tensorad.te.views import View, selected, whole

_LAST: Final = comm_reducer(lambda x, y: y, lambda dtype: 0, name="set", associative=True)
COMBINE: Final[dict[str, object]] = {
    "set": _LAST, "add": "sum", "mul": "prod", "min": "min", "max": "max",
}  # fmt: skip
"""Combiners of `scatter` by the words for what is done to an element."""
_OPERATIONS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: call("add", old, new),
    "mul": lambda old, new: call("mul", old, new),
    "min": lambda old, new: call("minimum", old, new),
    "max": lambda old, new: call("maximum", old, new),
}


@dataclass(frozen=True, eq=False)
class Places:
    """What `x.at` is: index it as the tensor itself, slices and gathers included."""

    tensor: Tensor

    def __getitem__(self, key: object) -> Place:
        return Place(self.tensor, selection(self.tensor, key))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _refuse(self, name, "index it", "at[i].set(value)")


@dataclass(frozen=True, eq=False)
class Place:
    """Some elements of a tensor. Each method gives a copy of the tensor in which they are others.

    Values broadcast to the shape of what is selected and have a dtype that the tensor's holds.
    Where an element is selected several times its values are taken one after the other.
    """

    tensor: Tensor
    selected: Selection

    def set(self, value: Any) -> Tensor:
        """The values themselves."""
        return self._changed("set", value)

    def add(self, value: Any) -> Tensor:
        """What was there plus the values."""
        return self._changed("add", value)

    def mul(self, value: Any) -> Tensor:
        """What was there times the values."""
        return self._changed("mul", value)

    def min(self, value: Any) -> Tensor:
        """The smaller one of what was there and the values."""
        return self._changed("min", value)

    def max(self, value: Any) -> Tensor:
        """The larger one of what was there and the values."""
        return self._changed("max", value)

    def _changed(self, method: str, value: object) -> Tensor:
        return changed(method, selected(whole(self.tensor), self.selected), value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _refuse(self, name, f"it has {', '.join(COMBINE)}", "at[i].mul(value)")


def _refuse(given: Places | Place, name: str, has: str, example: str) -> NoReturn:
    """An attribute that is not there; Python's own names are not spoken of."""
    if name.startswith("_") or name in ("tensor", "selected"):
        raise AttributeError(name, name=name, obj=given)
    x = given.tensor.name
    what = f"{x}.at" if isinstance(given, Places) else f"{x}.at[...]"
    raise AttributeError(f"{what} has no {name}: {has}, as in {x}.{example}", name=name, obj=given)


def changed(method: str, view: View, value: object, title: str = "") -> Tensor:
    """A copy of a tensor in which the elements of a view of it are others.

    Args:
        method: "set", "add", "mul", "min" or "max".
        value: what is there, or is combined with what was.
        title: what errors call the tensor, if not by its name.
    Raises:
        DTypeError, ShapeError: the value does not fit.
        BoundsError: an element is surely outside.
    """
    x = view.base
    name = f"{title}_{method}" if title else part_name(x, method)
    new = _value(method, x, title or x.name, view.shape, value)
    if _is_affine(name, view):
        return _where_selected(method, name, view, new)
    made: Tensor = scatter(
        x.shape,
        view.shape,
        lambda *at: (view.indices(at), new(at)),
        COMBINE[method],
        x,
        name,
    )
    return made


Value = Callable[[Sequence[Expr]], Expr]
"""The value for one index of what is selected."""


def _value(method: str, x: Tensor, title: str, wanted: Shape, value: object) -> Value:
    """Values in the tensor's dtype.

    Raises:
        DTypeError: it does not hold them.
        ShapeError: they do not broadcast to what is selected.
    """
    what = f"{title}.at[...].{method}"
    if method != "set" and x.dtype is BOOL:
        raise DTypeError(
            f"{what}: {title} holds truth values.",
            hint="set them, or convert the tensor: .astype('int64').",
        )
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
        if value.dtype.kind in "fi" and not x.dtype.is_float <= (value.dtype.kind == "i"):
            value = value.astype(str(x.dtype))
    if isinstance(value, np.ndarray) and value.ndim:
        value = constant(value, None if value.dtype.kind == "f" else x.dtype, what)
    if not isinstance(value, Tensor):
        e = element(f"the value of {what}", value, x.dtype)
        return lambda at: _fitting(what, title, x, e)
    given = value
    own = given.shape
    fits = len(own) <= len(wanted) and all(
        same_dim(a, 1) or same_dim(a, b) for a, b in zip(own[::-1], wanted[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{what}: values of shape {format_shape(own)} do not broadcast to the selected "
            f"{format_shape(wanted)}.",
            where=f"{title} with shape {format_shape(x.shape)}",
            hint="trailing axes must be equal or 1; reshape the values first.",
        )
    _fitting(what, title, x, checked_read(given, (ZERO,) * given.ndim))
    return lambda at: cast(read(given, broadcast_indices(own, at[len(at) - len(own) :])), x.dtype)


def _fitting(what: str, title: str, x: Tensor, e: Expr) -> Expr:
    """A value in the tensor's dtype; floats of any width are one kind."""
    both_floats = e.dtype.is_float and x.dtype.is_float
    if both_floats or result_type(e.dtype, x.dtype) is x.dtype:
        return cast(e, x.dtype)
    raise DTypeError(
        f"{what}: values of {e.dtype} do not fit into {title} of {x.dtype}.",
        hint=f"convert one of them: value.astype({str(x.dtype)!r}), or the tensor.",
    )


def _is_affine(name: str, view: View) -> bool:
    """Whether indices of the tensor alone tell what is selected, and all of it is inside.

    Raises:
        BoundsError: something is surely outside.
    """
    axes = compute_axes(view.shape)
    places = view.indices(axes)
    if view.inverse is None or occurs(READ, *places):
        return False
    element_there = (read(view.base, places),)
    check_reads(name, axes, element_there)
    return not unproved_reads(axes, element_there)


def _where_selected(method: str, name: str, view: View, new: Value) -> Tensor:
    """The change as a choice at each index of the tensor."""
    x, inverse = view.base, view.inverse
    assert inverse is not None, "asked for by _is_affine"

    def body(*i: Expr) -> Expr:
        inside, at = inverse(i)
        old = read(x, i)
        changed = _OPERATIONS[method](old, new(at))
        return select(all_of(*inside), changed, old) if inside else changed

    made: Tensor = compute(x.shape, body, name)
    return made


array_methods.places.fill(Places)
