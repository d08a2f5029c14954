"""Elementwise operators of two tensors that are formulas in pieces: signs, steps, shifts."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad import te
from tensorad.errors import DTypeError
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Expr, as_expr, promote
from tensorad.topi.math import binary

_LOG2: Final = float(np.log(2.0))


def _float(x: Expr | float) -> Expr:
    """An operand as a float."""
    e = as_expr(x)
    return e if e.dtype.is_float else e * 1.0


def _copysign(a: Expr | float, b: Expr | float) -> Expr:
    """The size of a with the sign of b, that of -0.0, too; a NaN has none."""
    size, other = te.abs(_float(a)), _float(b)
    below = te.any_of(other < 0, te.all_of(other == 0, 1.0 / other < 0))
    made: Expr = te.select(below, -size, size)
    return made


def _heaviside(x: Expr | float, at_zero: Expr | float) -> Expr:
    """0 below 0, 1 above it, at 0 the second operand; of NaN it is NaN."""
    x = _float(x)
    made: Expr = te.select(x == 0, _float(at_zero), te.select(te.isnan(x), x, (x > 0) * 1.0))
    return made


def _whole(operator: str, a: Expr | float, b: Expr | float) -> tuple[Expr, Expr]:
    """Both operands in their common data type, which is of integers."""
    x = as_expr(a, b.dtype) if isinstance(b, Expr) else as_expr(a)
    x, y = promote(x, as_expr(b, x.dtype))
    if not x.dtype.is_integer or x.dtype is BOOL:
        raise DTypeError(
            f"{operator}: bits of integers are shifted, not of {x.dtype}.",
            hint="convert them to integers, or multiply by a power of 2.",
        )
    return x, y


def _left_shift(a: Expr | float, b: Expr | float) -> Expr:
    """a * 2**b without the bits that leave the word: 0, if all do or b is negative."""
    x, places = _whole("left_shift", a, b)
    zero, two = te.const(0, x.dtype), te.const(2, x.dtype)
    inside = te.all_of(places >= 0, places < x.dtype.bits)
    made: Expr = te.select(inside, x * te.pow(two, te.select(inside, places, zero)), zero)
    return made


def _right_shift(a: Expr | float, b: Expr | float) -> Expr:
    """a // 2**b; if b is negative or no smaller than the word, all bits leave."""
    x, places = _whole("right_shift", a, b)
    zero, two = te.const(0, x.dtype), te.const(2, x.dtype)
    most = te.const(x.dtype.bits - 1, x.dtype)
    inside = te.all_of(places >= 0, places <= most)
    count = te.select(inside, places, most)
    half = count // 2  # 2**most is no number of the dtype
    shifted: Expr = x // te.pow(two, half) // te.pow(two, count - half)
    if x.dtype.kind == "uint":
        shifted = te.select(inside, shifted, zero)
    return shifted


def _share(d: Expr, equal: Expr) -> Expr:
    """The slope by one of two operands that differ by d: half of it, where both are infinite."""
    made: Expr = te.select(te.all_of(equal, te.isnan(d)), 0.5, te.sigmoid(d))
    return made


LOGADDEXP: Final = te.scalar_function(
    lambda a, b: te.select(a == b, a + _LOG2, te.maximum(a, b) + te.log1p(te.exp(-te.abs(a - b)))),
    partials=lambda y, a, b: (_share(a - b, a == b), _share(b - a, a == b)),
    name="logaddexp",
)
"""Smooth, though maximum and abs, which keep it finite, are not."""
_LOGADDEXP2: Final = te.scalar_function(
    lambda a, b: te.select(
        a == b, a + 1.0, te.maximum(a, b) + te.log1p(te.exp2(-te.abs(a - b))) * (1.0 / _LOG2)
    ),
    partials=lambda y, a, b: (_share((a - b) * _LOG2, a == b), _share((b - a) * _LOG2, a == b)),
    name="logaddexp2",
)

copysign = binary("copysign", _copysign)
heaviside = binary("heaviside", _heaviside)
left_shift = binary("left_shift", _left_shift)
right_shift = binary("right_shift", _right_shift)
logaddexp = binary("logaddexp", lambda a, b: LOGADDEXP(_float(a), _float(b)))
logaddexp2 = binary("logaddexp2", lambda a, b: _LOGADDEXP2(_float(a), _float(b)))
