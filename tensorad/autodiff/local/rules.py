"""The partial derivatives of the operations of formulas; a scalar function's are in its record.

A rule takes the node's own value y and its arguments and returns one partial per argument.
None means zero everywhere (structural: no term is built). What happens at kinks and poles is
stated at each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad.errors import InternalError
from tensorad.ir.elementary.table import Partials
from tensorad.ir.expr import (
    FUNCTIONS,
    Call,
    Const,
    Expr,
    Number,
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
    rule = FUNCTIONS[e.op].partials if e.op in FUNCTIONS else RULES.get(e.op)
    if rule is None:
        raise InternalError(f"no partials for {e.op!r} in {e}")
    return rule(e, *e.args)


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
