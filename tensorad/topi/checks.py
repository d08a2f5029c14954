"""Argument checks shared by the operators, in the user's names and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.topi.arguments import as_integer, as_integers, as_listed, shown


def check_tensor(operator: str, argument: str, value: object, ndim: int | None = None) -> Tensor:
    """`value` as a tensor of the given rank; an array is a constant.

    Raises:
        DefinitionError: it is neither.
        DTypeError: there are no tensors of the array's dtype.
        ShapeError: its rank differs.
    """
    (value,) = with_constants((value,))
    if not isinstance(value, Tensor):
        got = type(value).__name__
        raise DefinitionError(
            f"{operator}: {argument} must be a tensor or an array with axes, got {got}.",
            hint="e.g. a placeholder, or np.array([1.0, 2.0]).",
        )
    if ndim is not None and value.ndim != ndim:
        raise ShapeError(
            f"{operator}: {argument} must have {ndim} axes, but {value.name} has shape "
            f"{format_shape(value.shape)}.",
            hint="reshape or expand_dims it first.",
        )
    return value


def check_optional(operator: str, argument: str, value: object, ndim: int) -> Tensor | None:
    """`check_tensor` of what may be left out."""
    return None if value is None else check_tensor(operator, argument, value, ndim)


def check_tensors(operator: str, argument: str, value: object) -> list[Tensor]:
    """`value` as a list of tensors.

    Raises:
        DefinitionError: it is no list, or holds something else.
    """
    given = as_listed(value)
    if given is None:
        raise DefinitionError(
            f"{operator}: {argument} must be a list of tensors, got {shown(value)}.",
            hint="e.g. [A, B].",
        )
    return [check_tensor(operator, f"{argument}[{n}]", t) for n, t in enumerate(given)]


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


def check_same(operator: str, x: Tensor, d: int, t: Tensor, e: int) -> None:
    """Axis d of x, and axis e of t, which belongs to it.

    Raises:
        ShapeError: their extents differ.
    """
    check_equal(operator, f"axis {d} of {x.name} and {t.name}", x.shape[d], t.shape[e])


def check_indices(operator: str, argument: str, value: object, ndim: int | None = None) -> Tensor:
    """`value` as a tensor of integers.

    Raises:
        DTypeError: it holds something else.
    """
    t = check_tensor(operator, argument, value, ndim)
    if not t.dtype.is_integer:
        raise DTypeError(
            f"{operator}: {argument} must be integers, but {t.name} has dtype {t.dtype}.",
            hint=f"convert them: {t.name}.astype('int64').",
        )
    return t


def normalize_axis(operator: str, axis: object, ndim: int) -> int:
    """An axis number in [0, ndim); negative ones count from the end.

    Raises:
        DefinitionError: not an integer, or out of range.
    """
    number = as_integer(axis)
    if number is None:
        raise DefinitionError(
            f"{operator}: axis {shown(axis)} is no integer.",
            hint="count axes from 0, or from -1 at the end.",
        )
    if not -ndim <= number < ndim:
        raise DefinitionError(
            f"{operator}: axis {number} is out of range for a tensor with {ndim} axes.",
            hint=f"use an axis from {-ndim} to {ndim - 1}."
            if ndim
            else "a 0-d tensor has no axis.",
        )
    return number % ndim


def normalize_axes(operator: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Distinct axis numbers in increasing order; None means all.

    Raises:
        DefinitionError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    listed = as_listed(axis)
    given = (axis,) if listed is None else listed
    axes = [normalize_axis(operator, a, ndim) for a in given]
    if len(set(axes)) < len(axes):
        raise DefinitionError(
            f"{operator}: an axis is named twice in {shown(given)}.",
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
    single = as_integer(value)
    values = as_integers(value) if single is None else (single,) * rank
    if values is not None and len(values) == rank and min(values) >= minimum:
        return values
    several = {1: "", 2: " or a pair of integers", 3: " or three integers"}[rank]
    example = {1: "", 2: f" or {argument}=(2, 1)", 3: f" or {argument}=(2, 1, 1)"}[rank]
    raise DefinitionError(
        f"{operator}: {argument} must be an integer{several} >= {minimum}, got {shown(value)}.",
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
    given = as_listed(value)
    if given is not None and len(given) == 2 * rank:
        values = as_integers(given)
        if values is not None and min(values) >= 0:
            return tuple(zip(values[:rank], values[rank:], strict=True))
        raise DefinitionError(
            f"{operator}: padding must be integers >= 0, got {shown(value)}.",
            hint=f"pad with an integer{_AXES[rank]} or {_SIDES[rank]}.",
        )
    own = value if given is None else given
    return tuple([(p, p) for p in per_axis(operator, "padding", own, 0, rank)])
