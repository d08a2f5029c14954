"""Arguments that are no tensors: integers, numbers, words, flags and shapes."""

from __future__ import annotations

import operator as op
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Shape, Tensor
from tensorad.te.checks import check_shape

_LONG: Final = 60
"""Characters of a value that an error shows."""


def shown(value: object) -> str:
    """A value as an error shows it: one short line."""
    if isinstance(value, Tensor):
        return f"tensor {value.name}"
    text = " ".join((str(value) if isinstance(value, Expr) else repr(value)).split())
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."


def as_integer(value: object) -> int | None:
    """An integer of Python or NumPy as an int; None for anything else, booleans included."""
    if isinstance(value, (bool, Expr)):
        return None
    try:
        return op.index(value)  # type: ignore[arg-type]  # any object may come
    except TypeError:
        return None


def as_listed(value: object) -> tuple[Any, ...] | None:
    """The elements of a tuple, list, array, range or the like; None for anything else."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping, Tensor, Expr)):
        return None
    if isinstance(value, np.ndarray) and not value.ndim:
        return None
    return tuple(value)


def as_integers(value: object) -> tuple[int, ...] | None:
    """One integer or several, as a tuple; None for anything else."""
    given = (value,) if as_integer(value) is not None else as_listed(value)
    if given is None:
        return None
    numbers = [n for n in map(as_integer, given) if n is not None]
    return tuple(numbers) if len(numbers) == len(given) else None


def _refused(
    operator: str, argument: str, wanted: str, value: object, hint: str
) -> DefinitionError:
    text = f"{operator}: {argument} must be {wanted}, got {shown(value)}."
    return DefinitionError(text, hint=hint)


def check_integer(
    operator: str, argument: str, value: object, least: int | None = None, hint: str | None = None
) -> int:
    """`value` as an int of at least `least`.

    Raises:
        DefinitionError: anything else.
    """
    number = as_integer(value)
    if number is not None and (least is None or number >= least):
        return number
    kind = {None: "an integer", 1: "a positive integer"}.get(least, f"an integer >= {least}")
    example = hint or f"e.g. {argument}={max(1, least or 0)}."
    raise _refused(operator, argument, kind, value, example)


def check_integers(operator: str, argument: str, value: object) -> tuple[int, ...]:
    """One integer or several, as a tuple.

    Raises:
        DefinitionError: anything else.
    """
    numbers = as_integers(value)
    if numbers is None:
        raise _refused(operator, argument, "integers", value, f"e.g. {argument}=(1, 2).")
    return numbers


def check_extents(operator: str, shape: object) -> Shape:
    """A shape: extents as integers >= 0 or expressions of sizes; an integer is a shape of one axis.

    Raises:
        ShapeError: anything else.
    """
    extents = _extents(shape)
    return check_shape(operator, shape if extents is None else extents)


def check_new_shape(operator: str, shape: object) -> tuple[Dim, ...]:
    """A shape some of whose extents may be -1.

    Raises:
        ShapeError: anything else.
    """
    extents = _extents(shape) or ()
    unknown = [d for d, n in enumerate(extents) if as_integer(n) == -1]
    known = [1 if d in unknown else n for d, n in enumerate(extents)]
    checked = check_shape(operator, known if extents else shape)
    return tuple([-1 if d in unknown else n for d, n in enumerate(checked)])


def _extents(shape: object) -> tuple[object, ...] | None:
    given = (shape,) if as_integer(shape) is not None else as_listed(shape)
    if given is None:
        return None
    return tuple([n if as_integer(n) is None else as_integer(n) for n in given])


def as_number(value: object) -> float | None:
    """A real number of Python or NumPy, or a 0-d array, as one of Python; else None."""
    if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
        value = value.item()
    return value if isinstance(value, (bool, int, float)) else None


def check_number(operator: str, argument: str, value: object) -> float:
    """`value` as a Python number.

    Raises:
        DefinitionError: anything else.
    """
    number = as_number(value)
    if number is None:
        raise _refused(operator, argument, "a number", value, f"e.g. {argument}=1.0.")
    return number


def check_positive(operator: str, argument: str, value: object) -> float:
    """A Python number above 0.

    Raises:
        DefinitionError: anything else.
    """
    number = check_number(operator, argument, value)
    if not number > 0:
        raise _refused(operator, argument, "positive", number, f"use {argument}=1.")
    return number


def check_scalar(operator: str, argument: str, value: object) -> Any:
    """A number, or one element: a 0-d tensor or an expression of sizes.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, Tensor) and not value.ndim:
        return value.as_scalar()
    return check_number(operator, argument, value)


def check_word(operator: str, argument: str, value: object, words: Sequence[str], hint: str) -> str:
    """One of the words.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(value, str) and value in words:
        return value
    *others, last = map(repr, words)
    raise _refused(operator, argument, f"{', '.join(others)} or {last}", value, hint)


def check_flag(operator: str, argument: str, value: object) -> bool:
    """True or False; 1 and 0 stand for them.

    Raises:
        DefinitionError: anything else.
    """
    number = as_number(value)
    if number is None or number not in (0, 1):
        raise _refused(operator, argument, "True or False", value, f"write {argument}=True.")
    return bool(number)
