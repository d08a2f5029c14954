"""Operators that programs name: those of topi, arithmetic, comparisons, conversions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final

from tensorad import topi
from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Tensor
from tensorad.language.types import DTYPE_NAMES
from tensorad.program.trees import is_leaf
from tensorad.program.values import as_tensor


def ones_like(x: Tensor) -> Any:
    """Ones of the shape and dtype of x."""
    return topi.full_like(x, 1)


def zeros_like(x: Tensor) -> Any:
    """Zeros of the shape and dtype of x."""
    return topi.full_like(x, 0)


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
    if name == "-" and len(args) == 1:
        made: Any = -args[0]
    else:
        given = list(args)
        if name not in SIGNS or not any(isinstance(a, Tensor) for a in given):
            given = [as_tensor(a, "x") if i == 0 else a for i, a in enumerate(given)]
        try:
            made = OPERATORS[name](*given, **options)
        except TypeError as e:
            if e.__traceback__ is not None and e.__traceback__.tb_next is None:
                raise DefinitionError(
                    f"{name} does not take these arguments: {e}.", hint=f"see topi.{name}."
                ) from None
            raise
    if isinstance(made, (tuple, list)):
        return tuple([as_tensor(t, name) for t in made])
    if not is_leaf(made):
        raise DefinitionError(f"{name} makes no tensor.", hint="use another operator.")
    return as_tensor(made, name)
