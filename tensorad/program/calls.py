"""How the functions of users are called: names of their parameters, operands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorad.errors import BindError, DefinitionError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Shape, Tensor
from tensorad.program.data.instances import Instance
from tensorad.program.trees import flatten, unflatten
from tensorad.program.values import as_tensor, check_dtype


def check_callable(function: object, what: str) -> None:
    """A function, or anything else that is called.

    Raises:
        DefinitionError: it cannot be called.
    """
    if isinstance(function, Expr) or not callable(function) or _is_array(function):
        kind = type(function).__name__
        raise DefinitionError(
            f"{what} must be a function, got {kind}.", hint="pass a function, or a lambda."
        )


def _is_array(value: object) -> bool:
    return isinstance(value, Tensor) and not value.is_function


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function; any, of one that is written in C."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.signature(lambda *args, **options: None)


def call_text(name: str, signature: inspect.Signature) -> str:
    """ "f(x, scale=1.0)": how a function is called."""
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{inspect.Signature(bare)}"


def bound_call(
    name: str, signature: inspect.Signature, args: Sequence[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments by parameter.

    Raises:
        BindError: they do not fit.
    """
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        raise BindError(
            f"the arguments do not fit {name}: {error}.",
            where=call_text(name, signature),
            hint="call it as it is defined.",
        ) from None


def check_takes(function: object, what: str, given: Sequence[str]) -> None:
    """A function that can be called with arguments called so.

    Raises:
        DefinitionError: it is none, or takes others.
    """
    check_callable(function, what)
    assert callable(function), "this was checked"
    own = signature_of(function)
    try:
        own.bind(*given)
    except TypeError as error:
        raise DefinitionError(
            f"{what} is called as f({', '.join(given)}): {error}.",
            where=call_text(getattr(function, "__name__", type(function).__name__), own),
            hint="write a function of these arguments; several values are one argument, as a "
            "tuple or another tree.",
        ) from None


def operand(tree: object, name: str) -> Any:
    """A tree as a user's function is given it: arrays as constants, numbers as they are."""
    flat = flatten(tree, name)
    for value, path in zip(flat.leaves, flat.paths, strict=True):
        check_dtype(value, path)
    return unflatten(flat.structure, [_as_operand(v, name) for v in flat.leaves])


def _as_operand(value: object, name: str) -> object:
    if isinstance(value, (Tensor, Expr, Instance)) or type(value) in (bool, int, float):
        return value
    return as_tensor(value, name)


def shape_of(value: object) -> Shape:
    """The shape of a leaf."""
    if isinstance(value, Tensor):
        return value.shape
    return () if isinstance(value, (Expr, Instance)) or callable(value) else np.asarray(value).shape


def parameter_names(function: Callable[..., Any], defaults: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the first parameters of a function, as many as there are defaults."""
    try:
        own = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        return defaults
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in own if p.kind in kinds]
    return (*names, *defaults[len(names) :])[: len(defaults)]
