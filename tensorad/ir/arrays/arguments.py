"""What functions of tensors ask of their arguments: tensors, arrays and sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from tensorad.errors import BindError, DefinitionError, ShapeError, counted
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


def by_position(
    function: str,
    inputs: Sequence[str],
    sizes: Collection[str],
    arrays: Sequence[object],
    given: Mapping[str, object],
) -> tuple[list[object], dict[str, object]]:
    """The arguments of a call in the order of its inputs, and what is given for sizes.

    Args:
        inputs: their names; `sizes`: those of symbolic sizes, which win where both are called so.
        arrays: what is passed by position; `given`: by name.
    Raises:
        BindError: an input is missing, or given twice; a name is unknown, or that of a size whose
            value is no number; there are too many arguments.
    """
    call = f"{function}({', '.join(inputs)})"
    named = {n: v for n, v in given.items() if n not in sizes}
    rest = inputs[len(arrays) :]
    missing = [n for n in rest if n not in named]
    for name in named:
        _check_known(name, call, inputs, sizes)
    if len(arrays) > len(inputs) or (missing and not any(n in inputs for n in given)):
        raise BindError(
            f"{function} takes {counted(len(inputs), 'array')}, got {len(arrays)}.",
            where=call,
            hint="pass one array per input, in the order given to build.",
        )
    for name in given:
        if name in sizes and name in inputs:
            _check_number(name, given[name], function, call)
        if name in named and name in inputs[: len(arrays)]:
            raise BindError(
                f"argument {name} of {function} is given by position and by name.",
                where=call,
                hint="pass it once.",
            )
    if missing:
        raise BindError(
            f"{function} is called without its argument {missing[0]}.",
            where=call,
            hint=f"the keyword {missing[0]} is the symbolic size: pass the input by position."
            if missing[0] in given
            else f"pass it by position, or by name: {missing[0]}=array.",
        )
    return [*arrays, *[named[n] for n in rest]], {n: v for n, v in given.items() if n in sizes}


def _check_number(name: str, value: object, function: str, call: str) -> None:
    """A size that has the name of an input is given a number."""
    if not isinstance(value, (int, np.integer)):
        raise BindError(
            f"{name} is an input of {function} and a symbolic size, and the keyword is the size.",
            where=call,
            hint="pass the input by position.",
        )


def _check_known(name: str, call: str, inputs: Sequence[str], sizes: Collection[str]) -> None:
    """What is no size is an input."""
    if name not in inputs:
        raise BindError(
            f"unknown keyword argument {name!r}.",
            where=call,
            hint=f"{meant(name, ['out', *inputs, *sizes])}keywords are `out`, the inputs "
            f"({', '.join(inputs) or 'none'}) and the symbolic sizes "
            f"({', '.join(sizes) or 'none'}).",
        )


def meant(name: str, known: Iterable[str]) -> str:
    """A question for the name that is most like an unknown one, case aside; "" if none is."""
    folded = {k.lower(): k for k in known}
    like = get_close_matches(name.lower(), folded, n=1)
    return f"did you mean {folded[like[0]]}? " if like else ""


def _kind(given: object) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
