"""The partial derivatives of every scalar operation: the only file with calculus.

A rule takes the node's own value y and its arguments and returns one partial per argument.
None means zero everywhere (structural: no term is built). What happens at kinks and poles is
stated at each rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tensorad.errors import InternalError
from tensorad.ir.expr import (
    Call,
    Const,
    Expr,
    Number,
    add,
    call,
    const,
    div,
    logical_and,
    logical_not,
    mul,
    neg,
    select,
    sub,
)

Partials = tuple[Expr | None, ...]
Rule = Callable[..., Partials]
RULES: Final[dict[str, Rule]] = {}


def partials(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule under the names of operations."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            RULES[op] = rule
        return rule

    return register


def partials_of(e: Call) -> Partials:
    """The partial derivatives of one operation by its arguments."""
    if e.op not in RULES:
        raise InternalError(f"no partials for {e.op!r} in {e}")
    return RULES[e.op](e, *e.args)


def _number(value: Number, like: Expr) -> Const:
    return const(value, like.dtype)


@partials("add")
def _add(y: Expr, a: Expr, b: Expr) -> Partials:
    return (_number(1, y), _number(1, y))


@partials("sub")
def _sub(y: Expr, a: Expr, b: Expr) -> Partials:
    return (_number(1, y), _number(-1, y))


@partials("neg")
def _neg(y: Expr, x: Expr) -> Partials:
    return (_number(-1, y),)


@partials("mul")
def _mul(y: Expr, a: Expr, b: Expr) -> Partials:
    return (b, a)


@partials("div")
def _div(y: Expr, a: Expr, b: Expr) -> Partials:
    return (div(_number(1, y), b), neg(div(y, b)))


@partials("abs")
def _abs(y: Expr, x: Expr) -> Partials:
    return (call("sign", x),)  # 0 at x = 0


@partials("floor", "ceil", "round", "trunc", "sign", "isnan", "isfinite", "not")
def _flat_unary(y: Expr, x: Expr) -> Partials:
    return (None,)  # 0 at the jumps too


@partials("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "floordiv", "mod")
def _flat_binary(y: Expr, a: Expr, b: Expr) -> Partials:
    return (None, None)


@partials("exp")
def _exp(y: Expr, x: Expr) -> Partials:
    return (y,)


@partials("expm1")
def _expm1(y: Expr, x: Expr) -> Partials:
    return (call("exp", x),)


@partials("log")
def _log(y: Expr, x: Expr) -> Partials:
    return (div(_number(1, y), x),)  # inf at 0


@partials("log1p")
def _log1p(y: Expr, x: Expr) -> Partials:
    return (div(_number(1, y), add(_number(1, y), x)),)


@partials("sqrt")
def _sqrt(y: Expr, x: Expr) -> Partials:
    return (div(_number(0.5, y), y),)  # inf at 0


@partials("rsqrt")
def _rsqrt(y: Expr, x: Expr) -> Partials:
    return (div(mul(_number(-0.5, y), y), x),)


@partials("tanh")
def _tanh(y: Expr, x: Expr) -> Partials:
    return (sub(_number(1, y), mul(y, y)),)


@partials("sigmoid")
def _sigmoid(y: Expr, x: Expr) -> Partials:
    return (mul(y, sub(_number(1, y), y)),)


@partials("erf")
def _erf(y: Expr, x: Expr) -> Partials:
    return (mul(_number(2 / math.sqrt(math.pi), y), call("exp", neg(mul(x, x)))),)


@partials("sin")
def _sin(y: Expr, x: Expr) -> Partials:
    return (call("cos", x),)


@partials("cos")
def _cos(y: Expr, x: Expr) -> Partials:
    return (neg(call("sin", x)),)


@partials("tan")
def _tan(y: Expr, x: Expr) -> Partials:
    return (add(_number(1, y), mul(y, y)),)


@partials("sinh")
def _sinh(y: Expr, x: Expr) -> Partials:
    return (call("cosh", x),)


@partials("cosh")
def _cosh(y: Expr, x: Expr) -> Partials:
    return (call("sinh", x),)


def _one_minus_square(x: Expr) -> Expr:
    one = _number(1, x)
    return mul(sub(one, x), add(one, x))  # accurate near |x| = 1


@partials("asin")
def _asin(y: Expr, x: Expr) -> Partials:
    return (call("rsqrt", _one_minus_square(x)),)  # inf at |x| = 1


@partials("acos")
def _acos(y: Expr, x: Expr) -> Partials:
    return (neg(call("rsqrt", _one_minus_square(x))),)  # -inf at |x| = 1


@partials("atan")
def _atan(y: Expr, x: Expr) -> Partials:
    return (div(_number(1, y), add(_number(1, y), mul(x, x))),)


@partials("atan2")
def _atan2(y: Expr, a: Expr, b: Expr) -> Partials:
    norm = add(mul(a, a), mul(b, b))  # NaN at the origin
    return (div(b, norm), neg(div(a, norm)))


@partials("pow")
def _pow(y: Expr, x: Expr, n: Expr) -> Partials:
    """Constant exponents need no logarithm: exact for negative x and at 0 when n is whole."""
    if isinstance(n, Const):
        if n.value == 0:
            return (None, None)  # x**0 is 1 everywhere, also at 0
        return (mul(n, call("pow", x, _number(n.value - 1, n))), None)
    log_x = select(x > 0, call("log", select(x > 0, x, _number(1, x))), _number(0, x))
    lower = call("pow", x, sub(n, _number(1, n)))
    flat = logical_and(call("eq", n, _number(0, n)), logical_not(call("isfinite", lower)))
    by_base = select(flat, _number(0, n), mul(n, lower))  # x**0 is 1 everywhere: not 0 * inf
    return (by_base, mul(y, log_x))
