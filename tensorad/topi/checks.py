"""Argument checks shared by the operators, in the user's names and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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


def per_axis(
    operator: str, argument: str, value: object, minimum: int, rank: int
) -> tuple[int, ...]:
    """One integer >= `minimum` per spatial axis; a single integer stands for all of them.

    Raises:
        DefinitionError: anything else.
    """
    values = (value,) * rank if isinstance(value, int) else value
    if (
        isinstance(values, (tuple, list))
        and len(values) == rank
        and all(isinstance(v, int) and not isinstance(v, bool) and v >= minimum for v in values)
    ):
        return tuple(values)
    several = {1: "", 2: " or a pair of integers", 3: " or three integers"}[rank]
    example = {1: "", 2: f" or {argument}=(2, 1)", 3: f" or {argument}=(2, 1, 1)"}[rank]
    raise DefinitionError(
        f"{operator}: {argument} must be an integer{several} >= {minimum}, got {value!r}.",
        hint=f"e.g. {argument}=2{example}.",
    )


_SIDES: Final = {1: "(left, right)", 2: "(top, left, bottom, right)",
                 3: "(front, top, left, back, bottom, right)"}  # fmt: skip
_AXES: Final = {1: "", 2: ", (height, width)", 3: ", (depth, height, width)"}


def sides(operator: str, value: object, rank: int) -> tuple[tuple[int, int], ...]:
    """Padding as (before, after) per spatial axis.

    Given as an integer, one for each axis, or all at the beginnings and then all at the ends.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 * rank:
        if all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value):
            return tuple(zip(value[:rank], value[rank:], strict=True))
        raise DefinitionError(
            f"{operator}: padding must be integers >= 0, got {value!r}.",
            hint=f"pad with an integer{_AXES[rank]} or {_SIDES[rank]}.",
        )
    return tuple([(p, p) for p in per_axis(operator, "padding", value, 0, rank)])
