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
from tensorad.ir.tensor import Dim, Tensor, dim_expr, format_shape
from tensorad.simplify.bounds.reads import check_reads, unproved_reads
from tensorad.te.accumulate import scatter
from tensorad.te.checks import element
from tensorad.te.items import part_name
from tensorad.te.reducers import all_of, comm_reducer
from tensorad.te.scalars import select
from tensorad.te.selection import Gather, Point, Selection, Window, broadcast_indices, selection
from tensorad.te.tensors import compute

_LAST: Final = comm_reducer(lambda x, y: y, lambda dtype: 0, name="set", associative=True)
_COMBINE: Final[dict[str, object]] = {
    "set": _LAST, "add": "sum", "mul": "prod", "min": "min", "max": "max",
}  # fmt: skip
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
        return _changed("set", self.tensor, self.selected, value)

    def add(self, value: Any) -> Tensor:
        """What was there plus the values."""
        return _changed("add", self.tensor, self.selected, value)

    def mul(self, value: Any) -> Tensor:
        """What was there times the values."""
        return _changed("mul", self.tensor, self.selected, value)

    def min(self, value: Any) -> Tensor:
        """The smaller one of what was there and the values."""
        return _changed("min", self.tensor, self.selected, value)

    def max(self, value: Any) -> Tensor:
        """The larger one of what was there and the values."""
        return _changed("max", self.tensor, self.selected, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _refuse(self, name, f"it has {', '.join(_COMBINE)}", "at[i].mul(value)")


def _refuse(given: Places | Place, name: str, has: str, example: str) -> NoReturn:
    """An attribute that is not there; Python's own names are not spoken of."""
    if name.startswith("_") or name in ("tensor", "selected"):
        raise AttributeError(name, name=name, obj=given)
    x = given.tensor.name
    what = f"{x}.at" if isinstance(given, Places) else f"{x}.at[...]"
    raise AttributeError(f"{what} has no {name}: {has}, as in {x}.{example}", name=name, obj=given)


def _changed(method: str, x: Tensor, chosen: Selection, value: object) -> Tensor:
    name = part_name(x, method)
    new = _value(method, x, chosen, value)
    if _is_affine(name, x, chosen):
        return _where_selected(method, name, x, chosen, new)
    made: Tensor = scatter(
        x.shape,
        chosen.shape,
        lambda *at: (chosen.indices(at), new(at)),
        _COMBINE[method],
        x,
        name,
    )
    return made


Value = Callable[[Sequence[Expr]], Expr]
"""The value for one index of what is selected."""


def _value(method: str, x: Tensor, chosen: Selection, value: object) -> Value:
    """Values in the tensor's dtype.

    Raises:
        DTypeError: it does not hold them.
        ShapeError: they do not broadcast to what is selected.
    """
    what = f"{x.name}.at[...].{method}"
    if method != "set" and x.dtype is BOOL:
        raise DTypeError(
            f"{what}: {x.name} holds truth values.",
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
        return lambda at: _fitting(what, x, e)
    given = value
    own, wanted = given.shape, chosen.shape
    fits = len(own) <= len(wanted) and all(
        same_dim(a, 1) or same_dim(a, b) for a, b in zip(own[::-1], wanted[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{what}: values of shape {format_shape(own)} do not broadcast to the selected "
            f"{format_shape(wanted)}.",
            where=f"{x.name} with shape {format_shape(x.shape)}",
            hint="trailing axes must be equal or 1; reshape the values first.",
        )
    _fitting(what, x, checked_read(given, (ZERO,) * given.ndim))
    return lambda at: cast(read(given, broadcast_indices(own, at[len(at) - len(own) :])), x.dtype)


def _fitting(what: str, x: Tensor, e: Expr) -> Expr:
    """A value in the tensor's dtype; floats of any width are one kind."""
    both_floats = e.dtype.is_float and x.dtype.is_float
    if both_floats or result_type(e.dtype, x.dtype) is x.dtype:
        return cast(e, x.dtype)
    raise DTypeError(
        f"{what}: values of {e.dtype} do not fit into {x.name} of {x.dtype}.",
        hint=f"convert one of them: value.astype({str(x.dtype)!r}), or the tensor.",
    )


def _is_affine(name: str, x: Tensor, chosen: Selection) -> bool:
    """Whether indices of the tensor alone tell what is selected, and all of it is inside.

    Raises:
        BoundsError: something is surely outside.
    """
    axes = compute_axes(chosen.shape)
    places = chosen.indices(axes)
    if any(isinstance(p, Gather) for p in chosen.parts) or occurs(READ, *places):
        return False
    element_there = (read(x, places),)
    check_reads(name, axes, element_there)
    return not unproved_reads(axes, element_there)


def _where_selected(method: str, name: str, x: Tensor, chosen: Selection, new: Value) -> Tensor:
    """The change as a choice at each index of the tensor."""

    def body(*i: Expr) -> Expr:
        at: list[Expr] = [ZERO] * len(chosen.shape)
        inside: list[Expr] = []
        windows = iter(chosen.axes)
        for part, k, n in zip(chosen.parts, i, x.shape, strict=True):
            if isinstance(part, Point):
                inside.append(call("eq", k, part.index))
            elif isinstance(part, Window):
                at[next(windows)] = _within(part, k, n, inside)
        old = read(x, i)
        changed = _OPERATIONS[method](old, new(at))
        return select(all_of(*inside), changed, old) if inside else changed

    made: Tensor = compute(x.shape, body, name)
    return made


def _within(window: Window, k: Expr, n: Dim, inside: list[Expr]) -> Expr:
    """Which element of the window is at k; what has to hold there is added to `inside`."""
    by, count = abs(window.step), dim_expr(window.count)
    low = window.start if window.step > 0 else window.index(count - 1)
    if low is not ZERO:
        inside.append(call("ge", k, low))
    if by > 1:
        inside.append(call("eq", (k - low) % by, ZERO))
    nth = (k - low) // by
    if not (low is ZERO and by == 1 and same_dim(window.count, n)):
        inside.append(call("lt", nth, count))
    return nth if window.step > 0 else count - 1 - nth


array_methods.places.fill(Places)
