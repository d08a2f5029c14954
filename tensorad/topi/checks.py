"""Argument checks shared by the operators, in the user's names and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.elementwise import same_dim
from tensorad.ir.tensor import Dim, Tensor, format_shape


def check_tensor(operator: str, argument: str, value: object, ndim: int | None = None) -> Tensor:
    """`value` as a tensor of the given rank.

    Raises:
        DefinitionError: it is no tensor.
        ShapeError: its rank differs.
    """
    if not isinstance(value, Tensor):
        raise DefinitionError(
            f"{operator}: {argument} must be a tensor, got {type(value).__name__}.",
            hint="wrap an array with const(array).",
        )
    if ndim is not None and value.ndim != ndim:
        raise ShapeError(
            f"{operator}: {argument} must have {ndim} axes, but {value.name} has shape "
            f"{format_shape(value.shape)}.",
            hint="reshape or expand_dims it first.",
        )
    return value


def check_equal(operator: str, what: str, a: Dim, b: Dim) -> None:
    """Two extents that have to be the same.

    Raises:
        ShapeError: they differ.
    """
    if not same_dim(a, b):
        raise ShapeError(
            f"{operator}: {what} differ: {a} and {b}.",
            hint="change the shape of one of them.",
        )


def normalize_axis(operator: str, axis: object, ndim: int) -> int:
    """An axis number in [0, ndim); negative ones count from the end.

    Raises:
        DefinitionError: not an integer, or out of range.
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise DefinitionError(
            f"{operator}: axis {axis!r} is no integer.",
            hint="count axes from 0, or from -1 at the end.",
        )
    if not -ndim <= axis < ndim:
        raise DefinitionError(
            f"{operator}: axis {axis} is out of range for a tensor with {ndim} axes.",
            hint=f"use an axis from {-ndim} to {ndim - 1}."
            if ndim
            else "a 0-d tensor has no axis.",
        )
    return axis % ndim


def normalize_axes(operator: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Distinct axis numbers in increasing order; None means all.

    Raises:
        DefinitionError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, Iterable) else (axis,)
    axes = [normalize_axis(operator, a, ndim) for a in given]
    if len(set(axes)) < len(axes):
        raise DefinitionError(
            f"{operator}: an axis is named twice in {tuple(given)}.",
            hint="name every axis once; None means all of them.",
        )
    return tuple(sorted(axes))


def pair(operator: str, argument: str, value: object, minimum: int) -> tuple[int, int]:
    """An integer, or two, each at least `minimum`.

    Raises:
        DefinitionError: anything else.
    """
    values = (value, value) if isinstance(value, int) else value
    if (
        isinstance(values, (tuple, list))
        and len(values) == 2
        and all(isinstance(v, int) and not isinstance(v, bool) and v >= minimum for v in values)
    ):
        return int(values[0]), int(values[1])
    raise DefinitionError(
        f"{operator}: {argument} must be an integer or a pair of integers >= {minimum}, "
        f"got {value!r}.",
        hint=f"e.g. {argument}=2 or {argument}=(2, 1).",
    )


def four_sides(operator: str, value: object) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right) from an integer, (height, width) or all four.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(value, (tuple, list)) and len(value) == 4:
        if all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value):
            top, left, bottom, right = value
            return top, left, bottom, right
        raise DefinitionError(
            f"{operator}: padding must be integers >= 0, got {value!r}.",
            hint="pad with an integer, (height, width) or (top, left, bottom, right).",
        )
    height, width = pair(operator, "padding", value, 0)
    return height, width, height, width
