"""Operators that programs name: those of topi, arithmetic, comparisons, conversions."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final

from tensorad import topi
from tensorad.errors import DefinitionError
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.tensor import Tensor
from tensorad.language.types import DTYPE_NAMES
from tensorad.program.trees import is_leaf
from tensorad.program.values import as_tensor
from tensorad.te import compute, const


def ones_like(x: Tensor) -> Tensor:
    """Ones of the shape and dtype of x."""
    return _filled(x, 1, "ones_like")


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the shape and dtype of x."""
    return _filled(x, 0, "zeros_like")


def _filled(x: Tensor, value: int, name: str) -> Tensor:
    made: Tensor = compute(x.shape, lambda *axes: const(value, x.dtype), name=name)
    return made


def _conversion(dtype: str) -> Callable[[Tensor], Any]:
    return lambda x: topi.cast(x, dtype)


SIGNS: Final[Mapping[str, Callable[..., Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": topi.equal, "!=": topi.not_equal,
}  # fmt: skip
OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    **{n: f for n, f in vars(topi).items() if isinstance(f, FunctionType)},
    "ones_like": ones_like,
    "zeros_like": zeros_like,
    **{name: _conversion(name) for name in DTYPE_NAMES},
    **SIGNS,
}
"""What programs may write, by name."""


def applied(
    name: str, args: Sequence[Tensor | bool | int | float], options: Mapping[str, object]
) -> tuple[Tensor, ...] | Tensor:
    """What an operator makes of tensors and numbers; numbers take the dtype of what they meet.

    Raises:
        DefinitionError: there is no such operator, or it does not take these arguments.
    """
    if name not in OPERATORS:
        raise DefinitionError(f"there is no operator {name}.", hint="operators are those of topi.")
    given = list(args)
    if not any(isinstance(a, Tensor) for a in given):
        given = [number_tensor(a) if isinstance(a, (bool, int, float)) else a for a in given]
    function = operator.neg if name == "-" and len(given) == 1 else OPERATORS[name]
    try:
        inspect.signature(function).bind(*given, **options)
    except TypeError as e:
        raise DefinitionError(
            f"{name} does not take these arguments: {e}.", hint=f"see topi.{name}."
        ) from None
    made: Any = function(*given, **options)
    if isinstance(made, (tuple, list)):
        return tuple([as_tensor(t, name) for t in made])
    if not is_leaf(made):
        raise DefinitionError(f"{name} makes no tensor.", hint="use another operator.")
    return as_tensor(made, name)


def arrays_made(make: Callable[[Sequence[Any]], Any], params: Sequence[Any]) -> Any:
    """What `make` makes, where tensors are indexed and compared as arrays are."""
    with tracing():
        return make(params)


def number_tensor(value: bool | int | float) -> Tensor:
    """A number as a tensor of the dtype that it has alone."""
    return as_tensor(value, "number")


_FOLDED: Final[Mapping[str, Callable[..., Any]]] = {
    **SIGNS, "==": operator.eq, "!=": operator.ne
}  # fmt: skip


def folded(name: str, args: Sequence[bool | int | float]) -> bool | int | float | None:
    """What a sign makes of numbers alone; None if it makes a tensor of them.

    Raises:
        DefinitionError: a division by zero.
    """
    if name == "-" and len(args) == 1:
        return -args[0]
    if name not in _FOLDED or name == "@":
        return None
    if name in ("/", "//", "%") and not args[1]:
        raise DefinitionError("a number is divided by zero.", hint="divide by something else.")
    found = _FOLDED[name](*args)
    return found if isinstance(found, (bool, int, float)) else None
