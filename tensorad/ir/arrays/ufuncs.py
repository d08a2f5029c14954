"""NumPy's elementwise functions of tensors and expressions: those that formulas have, too.

NumPy asks here whenever an operand is one of ours, for its operators as well (`array * X`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir import node
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.elementwise import as_number, elementwise, matmul, over_broadcast
from tensorad.ir.dtypes import BOOL, FLOAT64, float_type
from tensorad.ir.expr import (
    FUNCTIONS,
    OPERATIONS,
    Expr,
    as_expr,
    call,
    cast,
    const,
    operator,
    promote,
    select,
)
from tensorad.ir.tensor import Tensor

OTHER_NAMES: Final = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "negative": "neg", "absolute": "abs", "rint": "round",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq",
    "not_equal": "ne", "bitwise_and": "and", "bitwise_or": "or", "invert": "not",
}  # fmt: skip
"""Of operations that NumPy calls otherwise."""


def _truth(x: Expr) -> Expr:
    return x if x.dtype is BOOL else operator("ne", x, 0)


def _as_float(x: Expr) -> Expr:
    return cast(x, float_type(x.dtype))


def _either(op: str) -> Callable[[Expr, Expr], Expr]:
    """The larger or the smaller one; a number, if the other is none."""

    def either(a: Expr, b: Expr) -> Expr:
        a, b = promote(a, b)
        both = call("maximum" if op == "fmax" else "minimum", a, b)
        if not a.dtype.is_float:
            return both
        return select(call("isnan", a), b, select(call("isnan", b), a, both))

    return either


def _exclusive(a: Expr, b: Expr) -> Expr:
    if a.dtype is not BOOL or b.dtype is not BOOL:
        raise DTypeError(
            "np.bitwise_xor works on conditions here, not on integers.",
            where=f"{a}, {b}",
            hint="compare them with something, e.g. x != 0.",
        )
    return operator("ne", a, b)


def _reciprocal(x: Expr) -> Expr:
    if not x.dtype.is_float:
        raise DTypeError(
            "np.reciprocal of integers is an integer.",
            where=str(x),
            hint="write 1 / x for the quotient, 1 // x for an integer.",
        )
    return operator("div", 1, x)


def _heaviside(x: Expr, at_zero: Expr) -> Expr:
    x, at_zero = promote(_as_float(x), _as_float(at_zero))
    zero, one = const(0, x.dtype), const(1, x.dtype)
    sides = select(operator("gt", x, zero), one, select(operator("lt", x, zero), zero, x))
    return select(operator("eq", x, zero), at_zero, sides)


COMPOSED: Final[dict[str, Callable[..., Expr]]] = {
    "square": lambda x: x * x,
    "reciprocal": _reciprocal,
    "positive": lambda x: x,
    "conjugate": lambda x: x,
    "fabs": lambda x: call("abs", _as_float(x)),
    "float_power": lambda a, b: call("pow", *[cast(x, FLOAT64) for x in (a, b)]),
    "deg2rad": lambda x: _as_float(x) * (math.pi / 180.0),
    "radians": lambda x: _as_float(x) * (math.pi / 180.0),
    "rad2deg": lambda x: _as_float(x) * (180.0 / math.pi),
    "degrees": lambda x: _as_float(x) * (180.0 / math.pi),
    "isinf": lambda x: ~(call("isfinite", x) | call("isnan", x)),
    "fmax": _either("fmax"),
    "fmin": _either("fmin"),
    "heaviside": _heaviside,
    "clip": lambda x, low, high: call("minimum", high, call("maximum", low, x)),
    "logical_and": lambda a, b: _truth(a) & _truth(b),
    "logical_or": lambda a, b: _truth(a) | _truth(b),
    "logical_xor": lambda a, b: operator("ne", _truth(a), _truth(b)),
    "logical_not": lambda x: ~_truth(x),
    "bitwise_xor": _exclusive,
}
"""Formulas of functions that NumPy has by a name of their own."""
INSTEAD: Final = {
    "hypot": "ta.sqrt(a * a + b * b)",
    "logaddexp": "ta.log(ta.exp(a) + ta.exp(b))",
    "logaddexp2": "ta.log2(ta.exp2(a) + ta.exp2(b))",
    "divmod": "a // b and a % b",
    "modf": "x - ta.trunc(x) and ta.trunc(x)",
    "ldexp": "x * ta.exp2(n)",
    "copysign": "ta.select(b < 0, -abs(a), abs(a))",
    "signbit": "x < 0",
    "left_shift": "a * 2**b",
    "right_shift": "a // 2**b",
    "vecdot": "topi.sum(a * b, -1)",
    "matvec": "a @ b",
    "vecmat": "a @ b",
}
"""What to write for functions that have no counterpart."""

_KEYWORDS: Final = {
    "out": "formulas are not written into arrays: a = a + X, not a += X.",
    "where": "choose afterwards: topi.where(c, np.{name}(X), Y).",
    "dtype": "convert before: np.{name}(X.astype(dtype)).",
    "axes": "move axes before: topi.transpose(X, axes).",
    "axis": "move axes before: topi.transpose(X, axes).",
    "keepdims": "add axes afterwards: topi.expand_dims.",
    "order": "leave it out: elements of a formula have no layout and no types of their own.",
}
"""What to write for keywords that NumPy's elementwise functions have."""


def own_name(name: str) -> str:
    """The operation or scalar function that NumPy or SciPy calls so; the name itself if none."""
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    return next((f.name for f in FUNCTIONS.values() if f.ufunc == name), name)


def apply_ufunc(
    ufunc: np.ufunc, method: str, operands: Sequence[object], keywords: Mapping[str, object]
) -> Any:
    """What a NumPy function gives: an expression, or a tensor if an operand is one.

    Raises:
        DefinitionError: formulas have no such function, or it is not called with operands alone.
    """
    name = ufunc.__name__
    if method != "__call__":
        raise DefinitionError(
            f"np.{name}.{method} works on arrays, but this is a formula.",
            where=_shown(operands),
            hint="reduce whole tensors by topi (topi.sum), elements over a reduce_axis (ta.sum).",
        )
    if keywords:
        instead = _KEYWORDS[next((k for k in keywords if k in _KEYWORDS), "order")]
        raise DefinitionError(
            f"np.{name} of a formula takes its operands alone, not {', '.join(keywords)}.",
            where=_shown(operands),
            hint=_KEYWORDS[next((k for k in keywords if k in _KEYWORDS), "order")].format(
                name=name
            ),
        )
    if name == "matmul":
        return matmul(*operands)
    op = own_name(name)
    of_elements = any(isinstance(o, Expr) for o in operands)
    whole = not of_elements or any(isinstance(o, Tensor) and o.ndim for o in operands)
    if whole and op in ("eq", "ne"):
        raise DefinitionError(
            f"{'==' if op == 'eq' else '!='} of a tensor is about the object, not its elements.",
            where=_shown(operands),
            hint=f"compare elements by topi.{name}(X, Y), or in a formula, X[i, j] == Y[i, j].",
        )
    if name in COMPOSED:
        return _composed(name, operands, whole=whole)
    if op not in FUNCTIONS and op not in OPERATIONS:
        instead = INSTEAD.get(name, "it with the functions of tensorad, e.g. ta.exp, ta.select")
        raise DefinitionError(
            f"np.{name} is no function of formulas.",
            where=_shown(operands),
            hint=f"write {instead}.",
        )
    if whole:
        return elementwise(op, *operands)
    if len(operands) == 2:
        return operator(op, *operands)
    return call(op, *[as_expr(o) for o in operands])


def _composed(name: str, operands: Sequence[object], *, whole: bool) -> Any:
    body = COMPOSED[name]
    like = next(o.dtype for o in operands if isinstance(o, (Tensor, Expr)))
    if not whole:
        return body(*[as_expr(o, like) for o in operands])
    given = [o if isinstance(o, Tensor) else as_number(name, o, like)
             for o in with_constants(operands)]  # fmt: skip
    return over_broadcast(name, given, lambda at: body(*at))


def _shown(operands: Sequence[object]) -> str:
    """The operands that are ours."""
    own = [o.name if isinstance(o, Tensor) else str(o) for o in operands
           if isinstance(o, (Tensor, Expr))]  # fmt: skip
    return ", ".join(own)


node.apply_ufunc.fill(apply_ufunc)
