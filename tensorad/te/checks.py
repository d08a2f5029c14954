"""What the language accepts: names, extents, bounds and elements, refused in the user's words."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from tensorad.errors import DefinitionError, ShapeError, UserError
from tensorad.ir.dtypes import FLOAT32, INT64, WEAK_INT, DType, result_type
from tensorad.ir.expr import (
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    Size,
    as_expr,
    cast,
)
from tensorad.ir.tensor import Dim, Shape, Tensor, dim_of, format_shape
from tensorad.ir.visit import postorder
from tensorad.ir.weak import settled

_VARARGS: Final = inspect.CO_VARARGS
_LETTERS: Final = "ijklmnpq"
_LONG: Final = 200
"""Characters of an expression that an error shows."""


def check_name(name: object) -> str:
    """A tensor's or axis's name: one line of text.

    Raises:
        DefinitionError: anything else.
    """
    if isinstance(name, str) and name.isprintable() and name.strip():
        return name
    kind = repr(name) if isinstance(name, str) else type(name).__name__
    raise DefinitionError(
        f"a name must be a line of visible text, got {kind}.",
        hint='give a short string, e.g. name="Y".',
    )


def check_shape(name: str, shape: object) -> Shape:
    """Extents as non-negative integers or expressions of sizes.

    Raises:
        ShapeError: an extent is something else.
    """
    if isinstance(shape, (int, np.integer, Expr)):
        shape = (shape,)
    if isinstance(shape, (str, Tensor)) or not isinstance(shape, Iterable):
        raise ShapeError(
            f"the shape of {name} must be a tuple of extents, got {_kind(shape)}.",
            hint="write the extents as a tuple, e.g. (32, 10), (n, 10) or () for a scalar.",
        )
    dims = tuple(shape)
    return tuple([_check_extent(name, d, n, dims) for d, n in enumerate(dims)])


def _check_extent(name: str, position: int, extent: object, shape: tuple[object, ...]) -> Dim:
    if type(extent) is int and 0 <= extent <= INT64.highest:
        return extent
    if isinstance(extent, Expr):
        return dim_of(check_size_expr(f"extent {position} of {name}", extent))
    if isinstance(extent, np.integer) and extent >= 0:
        return int(extent)
    if type(extent) is int and extent > 0:
        raise ShapeError(
            f"extent {position} of {name} is {extent}, more than an index can count.",
            hint="indices are 64-bit integers.",
        )
    raise ShapeError(
        f"extent {position} of {name} must be an integer >= 0, got {extent!r}.",
        where=f"{name} with shape {shape!r}",
        hint='use an integer, or a symbolic extent: n = size("n").',
    )


def check_size_expr(what: str, e: Expr) -> Expr:
    """An integer expression of sizes and numbers alone.

    Raises:
        ShapeError: it has another dtype, or depends on axes or data.
    """
    allowed = (Size, Const, Call, Cast, Select)
    if e.dtype.is_integer and all(isinstance(part, allowed) for part in postorder(e)):
        if isinstance(e, Const) and e.value < 0:
            raise ShapeError(f"{what} must be an integer >= 0, got {e}.")
        return e.astype("int64")
    kind = "" if e.dtype.is_integer else f" of dtype {e.dtype}"
    raise ShapeError(
        f"{what} must be an integer expression of sizes, got {e}{kind}.",
        hint='an extent is fixed before the loops start: use numbers and size("n").',
    )


def check_range(what: str, bounds: object) -> tuple[int | Expr, int | Expr]:
    """(lower, upper) from an extent n, which is [0, n), or a pair (lo, hi).

    Raises:
        DefinitionError: a bound is no integer, or hi < lo.
    """
    pair = (0, bounds) if isinstance(bounds, (int, np.integer, Expr)) else bounds
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise DefinitionError(
            f"{what} needs an extent or a pair (lo, hi), got {bounds!r}.",
            hint="write 10 for [0, 10), or (2, 10).",
        )
    lower, upper = (_bound(what, b) for b in pair)
    if isinstance(lower, int) and isinstance(upper, int) and upper < lower:
        raise DefinitionError(
            f"{what} ends before it starts: [{lower}, {upper}).",
            hint="an empty axis has equal bounds, e.g. (0, 0).",
        )
    return lower, upper


def _bound(what: str, bound: object) -> int | Expr:
    if isinstance(bound, Const) and bound.dtype.is_integer:
        return int(bound.value)
    if isinstance(bound, Expr) and bound.dtype.is_integer:
        return bound.astype("int64")
    if isinstance(bound, (int, np.integer)) and not isinstance(bound, bool):
        value = int(bound)
        if INT64.lowest <= value <= INT64.highest:
            return value
    kind = f"{bound} of dtype {bound.dtype}" if isinstance(bound, Expr) else repr(bound)
    raise DefinitionError(
        f"the bounds of {what} must be 64-bit integers, got {kind}.",
        hint='use integers or sizes: n = size("n"), (0, n).',
    )


def _kind(value: object) -> str:
    return f"tensor {value.name}" if isinstance(value, Tensor) else repr(value)


def axis_names(what: str, function: object, ndim: int, where: str) -> tuple[str, ...]:
    """The names that a function of `ndim` indices gives its axes.

    Args:
        what: how a message calls the function, e.g. "the body of Y".
        function: the user's function.
        ndim: how many indices it will be called with.
        where: what fixes that number.
    Raises:
        DefinitionError: it is not callable or takes another number of indices.
    """
    if not callable(function):
        raise DefinitionError(
            f"{what} must be a function of its indices, got {type(function).__name__}.",
            hint=f"write {_lambda(ndim)}",
        )
    names, required, variadic = _positional(function)
    if ndim < required or (ndim > len(names) and not variadic):
        count = f"{required} {'index' if required == 1 else 'indices'}"
        if required < len(names):
            count = f"{required} to {len(names)} indices"
        raise DefinitionError(
            f"{what} takes {count}, but there {_axes_text(ndim)}.",
            where=where,
            hint=f"give it one parameter per axis: {_lambda(ndim)}",
        )
    return (*names[:ndim], *[f"i{n}" for n in range(len(names), ndim)])


def _lambda(ndim: int) -> str:
    names = ", ".join(_LETTERS[:ndim]) if ndim <= len(_LETTERS) else "*indices"
    return f"lambda {names}: ..." if ndim else "lambda: ..."


def _axes_text(ndim: int) -> str:
    return "is 1 axis" if ndim == 1 else f"are {ndim or 'no'} axes"


def _positional(body: Callable[..., object]) -> tuple[tuple[str, ...], int, bool]:
    """Names of the positional parameters, how many have no default, and whether *args follow."""
    if isinstance(body, types.FunctionType):
        code = body.__code__
        names = code.co_varnames[: code.co_argcount]
        variadic = bool(code.co_flags & _VARARGS)
        return names, len(names) - len(body.__defaults__ or ()), variadic
    try:
        parameters = list(inspect.signature(body).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature takes what it takes
        return (), 0, True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = tuple([p.name for p in positional])
    required = len([p for p in positional if p.default is p.empty])
    return names, required, any(p.kind is p.VAR_POSITIONAL for p in parameters)


def element(
    what: str, value: object, like: DType = FLOAT32, error: type[UserError] = DefinitionError
) -> Expr:
    """One element of a formula: an expression, a number or a 0-d tensor.

    Args:
        what: how a message names the value, e.g. "the body of Y".
        value: what the user gave.
        like: the dtype that a number takes, or a formula of numbers, if it is of the kind.
        error: the class of the error.
    Raises:
        UserError: it is anything else.
    """
    e = operand(what, value, like, error)
    return settled(cast(e, result_type(e.dtype, like)) if e.dtype.is_weak else e)


def operand(
    what: str, value: object, like: DType = WEAK_INT, error: type[UserError] = DefinitionError
) -> Expr:
    """`element`, but weak if it is a number or a formula of numbers.

    Args:
        what: how a message names the value, e.g. "the body of Y".
        value: what the user gave.
        like: the dtype a number takes.
        error: the class of the error.
    Raises:
        UserError: it is anything else.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, Tensor) and not value.shape:
        return value.as_scalar()
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return as_expr(value, like)
    if isinstance(value, np.ndarray) and not value.ndim:
        return as_expr(value, like)
    if isinstance(value, Tensor):
        indices = ", ".join(_LETTERS[: value.ndim])
        raise error(
            f"{what} must be one element, got the whole tensor {value.name} of shape "
            f"{format_shape(value.shape)}.",
            hint=f"read it at indices, {value.name}[{indices}]; topi works on whole tensors.",
        )
    kind = "None" if value is None else type(value).__name__
    raise error(f"{what} must be an expression, got {kind}.", hint=_element_hint(value))


def _element_hint(value: object) -> str:
    if value is None:
        return "return the formula: a def needs a return statement."
    if isinstance(value, np.ndarray):
        indices = ", ".join(_LETTERS[: value.ndim])
        return f"make a tensor of it, A = ta.const(array), and read A[{indices}]."
    if isinstance(value, list):
        return "a tuple makes several tensors; ta.const(list) makes a constant tensor."
    return "build it from expressions, numbers and reads X[i, j]."


def excerpt(*parts: Expr) -> str:
    """Expressions as text, cut to a readable length."""
    text = ", ".join([str(p) for p in parts])
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."


def foreign_leaf(e: Expr, own: dict[Expr, None]) -> Expr | None:
    """Something a combiner may not use: an axis, size, read, reduction or another's operand."""
    for part in postorder(e):
        if isinstance(part, (Axis, Size, Read, Reduce)):
            return part
        if isinstance(part, Param) and part not in own:
            return part
    return None
