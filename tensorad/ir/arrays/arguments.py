"""What functions of tensors ask of their arguments: tensors, arrays and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.nodes import LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Tensor, dim_expr, format_shape


def check_tensor(given: object, function: str) -> Tensor:
    """A tensor.

    Args:
        function: how the error calls the function.
    Raises:
        DefinitionError: anything else.
    """
    if isinstance(given, Tensor):
        return given
    raise DefinitionError(
        f"{function} takes a tensor, got {_kind(given)}.",
        hint="pass what placeholder, compute or an operator returned.",
    )


def check_tensors(given: object, function: str) -> list[Tensor]:
    """A tensor, or several, as a list.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(given, (Tensor, str, Mapping)) or not isinstance(given, Iterable):
        return [check_tensor(given, function)]
    return [check_tensor(t, function) for t in given]


def check_settled(tensors: Iterable[Tensor], function: str) -> None:
    """Shapes that are known before anything runs.

    Raises:
        ShapeError: a shape depends on how often a loop runs where only the run tells.
    """
    for t in tensors:
        if any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape))):
            raise ShapeError(
                f"{function} needs shapes that are known before a loop runs, but {t.name} has a "
                "row for each of its iterations.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint="use what has a shape of its own: a sum over the rows, or the last carry.",
            )


def check_arrays(given: object, function: str) -> Mapping[Tensor, Any]:
    """A mapping from tensors to their values.

    Raises:
        DefinitionError: anything else.
    """
    if not isinstance(given, Mapping):
        raise DefinitionError(
            f"{function} takes the values of tensors as a dict, got {_kind(given)}.",
            hint="write {X: x, W: w}, with tensors as keys.",
        )
    for t in given:
        if not isinstance(t, Tensor):
            raise DefinitionError(
                f"{function} takes the values of tensors, but a key is {_kind(t)}.",
                hint="write {X: x}, not {'X': x}.",
            )
    return given


def check_sizes(given: object) -> Mapping[str, int]:
    """Values of symbolic sizes by name; None stands for none.

    Raises:
        DefinitionError: anything else, or a value that is no integer >= 0.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DefinitionError(
            f"sizes must be a dict, got {_kind(given)}.", hint='write sizes={"n": 8}.'
        )
    for name, n in given.items():
        if not isinstance(name, str):
            raise DefinitionError(
                f"sizes are given by name, got {_kind(name)}.", hint='write sizes={"n": 8}.'
            )
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise DefinitionError(
                f"size {name} must be an integer >= 0, got {n!r}.", hint='write sizes={"n": 8}.'
            )
    return given


def _kind(given: object) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
