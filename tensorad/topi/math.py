"""Elementwise operators on whole tensors, with NumPy's broadcasting."""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Sequence

import numpy as np

from tensorad import te
from tensorad.errors import DTypeError, ShapeError
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.elementwise import broadcast_read, broadcast_shapes, same_dim
from tensorad.ir.dtypes import BOOL, to_dtype
from tensorad.ir.expr import Axis, Expr, as_expr
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.topi.arguments import as_number, check_extents, check_number, check_scalar
from tensorad.topi.checks import check_tensor
from tensorad.topi.definition import define

Operand = Tensor | np.ndarray | float | int


def _unary(name: str, function: Callable[..., object]) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        x = check_tensor(name, "x", x)
        return define(x.shape, lambda *i: function(x[i]), name)

    operator.__name__ = name
    operator.__doc__ = f"{name} of every element; shape of x."
    return operator


exp = _unary("exp", te.exp)
log = _unary("log", te.log)
log1p = _unary("log1p", te.log1p)
expm1 = _unary("expm1", te.expm1)
sqrt = _unary("sqrt", te.sqrt)
rsqrt = _unary("rsqrt", te.rsqrt)
tanh = _unary("tanh", te.tanh)
sigmoid = _unary("sigmoid", te.sigmoid)
erf = _unary("erf", te.erf)
sin = _unary("sin", te.sin)
cos = _unary("cos", te.cos)
tan = _unary("tan", te.tan)
asin = _unary("asin", te.asin)
acos = _unary("acos", te.acos)
atan = _unary("atan", te.atan)
sinh = _unary("sinh", te.sinh)
cosh = _unary("cosh", te.cosh)
exp2 = _unary("exp2", te.exp2)
log2 = _unary("log2", te.log2)
log10 = _unary("log10", te.log10)
cbrt = _unary("cbrt", te.cbrt)
asinh = _unary("asinh", te.asinh)
acosh = _unary("acosh", te.acosh)
atanh = _unary("atanh", te.atanh)
erfc = _unary("erfc", te.erfc)
erfinv = _unary("erfinv", te.erfinv)
lgamma = _unary("lgamma", te.lgamma)
digamma = _unary("digamma", te.digamma)
trigamma = _unary("trigamma", te.trigamma)
abs = _unary("abs", te.abs)
sign = _unary("sign", te.sign)
floor = _unary("floor", te.floor)
ceil = _unary("ceil", te.ceil)
round = _unary("round", te.round)
trunc = _unary("trunc", te.trunc)
isnan = _unary("isnan", te.isnan)
isfinite = _unary("isfinite", te.isfinite)


def negative(x: Tensor) -> Tensor:
    """-x.

    Raises:
        DTypeError: of booleans, as in NumPy.
    """
    x = check_tensor("negative", "x", x)
    if x.dtype is BOOL:
        raise DTypeError(
            f"negative: {x.name} is of booleans, which have no negative.",
            hint="logical_not is true where it is false; x.astype('int64') is of integers.",
        )
    return -x


def square(x: Tensor) -> Tensor:
    """x * x."""
    x = check_tensor("square", "x", x)
    return define(x.shape, lambda *i: x[i] * x[i], "square")


def _at(operand: Tensor | Expr | float, index: tuple[Axis, ...]) -> Expr | float:
    return broadcast_read(operand, index) if isinstance(operand, Tensor) else operand


def _scalar(operand: object) -> Expr | float:
    """A number, which stays weak, or an expression."""
    number = as_number(operand)
    return as_expr(operand) if number is None else number


def _elementwise(name: str, function: Callable[..., object], *given: object) -> Tensor:
    operands = [o if isinstance(o, Tensor) else _scalar(o) for o in given]
    shapes = [o.shape for o in operands if isinstance(o, Tensor)]
    return define(
        broadcast_shapes(name, *shapes), lambda *i: function(*[_at(o, i) for o in operands]), name
    )


def binary(name: str, function: Callable[..., object]) -> Callable[[Operand, Operand], Tensor]:
    """The operator of two tensors whose elements are the function's, with its name."""

    def operator(a: Operand, b: Operand) -> Tensor:
        a, b = with_constants((a, b))  # type: ignore[assignment]  # checked next
        if not isinstance(a, Tensor):
            b = check_tensor(name, "b", b)
        return _elementwise(name, function, a, b)

    operator.__name__ = name
    operator.__doc__ = f"{name} of two tensors, or one and an array or a number; shapes broadcast."
    return operator


def _fmod(a: Expr | float, b: Expr | float) -> Expr:
    """What is left of a, with its sign, as np.fmod; of integers exactly."""
    if not (_is_whole(a) and _is_whole(b)):
        return te.fmod(a, b)
    rest = as_expr(a % b)
    other_sign = te.all_of(rest != 0, (rest < 0) != (a < 0))
    chosen: Expr = te.select(other_sign, rest - b, rest)
    return chosen


def _is_whole(operand: Expr | float) -> bool:
    return operand.dtype.is_integer if isinstance(operand, Expr) else isinstance(operand, int)


def _xor(a: Expr | float, b: Expr | float) -> Expr:
    """Whether just one of two conditions holds."""
    return (as_expr(a) & True) != (as_expr(b) & True)


add = binary("add", op.add)
subtract = binary("subtract", op.sub)
multiply = binary("multiply", op.mul)
divide = binary("divide", op.truediv)
floor_divide = binary("floor_divide", op.floordiv)
mod = binary("mod", op.mod)
pow = binary("pow", te.pow)
power = binary("power", te.pow)
maximum = binary("maximum", te.maximum)
minimum = binary("minimum", te.minimum)
atan2 = binary("atan2", te.atan2)
fmod = binary("fmod", _fmod)
less = binary("less", op.lt)
less_equal = binary("less_equal", op.le)
greater = binary("greater", op.gt)
greater_equal = binary("greater_equal", op.ge)
equal = binary("equal", op.eq)
not_equal = binary("not_equal", op.ne)
logical_and = binary("logical_and", op.and_)
logical_or = binary("logical_or", op.or_)
logical_xor = binary("logical_xor", _xor)


def logical_not(x: Tensor) -> Tensor:
    """The negation of a boolean tensor."""
    return ~check_tensor("logical_not", "x", x)


def clip(x: Tensor, low: float, high: float) -> Tensor:
    """min(high, max(low, x)); at both ends the bound wins, so that the derivative there is 0."""
    x = check_tensor("clip", "x", x)
    low, high = check_scalar("clip", "low", low), check_scalar("clip", "high", high)
    return define(x.shape, lambda *i: te.minimum(high, te.maximum(low, x[i])), "clip")


def cast(x: Tensor, dtype: object) -> Tensor:
    """Every element converted to `dtype`."""
    return check_tensor("cast", "x", x).astype(dtype)


def where(condition: Tensor | np.ndarray, a: Operand, b: Operand) -> Tensor:
    """a where the condition holds, otherwise b; shapes broadcast."""
    chosen = check_tensor("where", "condition", condition)
    return _elementwise("where", te.select, chosen, *with_constants((a, b)))


def broadcast_to(x: Tensor, shape: Sequence[Dim] | Dim) -> Tensor:
    """x repeated along its axes of extent 1 and along new leading axes.

    Raises:
        ShapeError: the shapes do not broadcast.
    """
    x = check_tensor("broadcast_to", "x", x)
    wanted = check_extents("broadcast_to", shape)
    if len(wanted) == x.ndim and all(map(same_dim, x.shape, wanted)):
        return x
    own = wanted[len(wanted) - x.ndim :]
    fits = [same_dim(n, 1) or same_dim(n, m) for n, m in zip(x.shape, own, strict=False)]
    if len(own) < x.ndim or not all(fits):
        raise ShapeError(
            f"broadcast_to: shape {format_shape(x.shape)} does not broadcast to "
            f"{format_shape(wanted)}.",
            where=x.name,
            hint="trailing axes must be equal, or 1 in the tensor.",
        )
    return define(wanted, lambda *i: broadcast_read(x, i), "broadcast_to")


def full(shape: Sequence[Dim] | Dim, value: float, dtype: object = "float32") -> Tensor:
    """A tensor of one value."""
    constant = te.const(check_number("full", "value", value), to_dtype(dtype))
    return define(check_extents("full", shape), lambda *i: constant, "full")


def full_like(x: Tensor, value: float) -> Tensor:
    """One value in the shape and dtype of x."""
    x = check_tensor("full_like", "x", x)
    return full(x.shape, value, x.dtype)
