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
    COMPARISONS,
    FUNCTIONS,
    ROUNDING,
    TESTS,
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


def partials_of(e: Call) -> Partials:
    """The partial derivatives of one operation by its arguments."""
    rule = FUNCTIONS[e.op].partials if e.op in FUNCTIONS else RULES.get(e.op)
    if rule is None:
        raise InternalError(f"no partials for {e.op!r} in {e}")
    return rule(e, *e.args)


def _number(value: Number, like: Expr) -> Const:
    return const(value, like.dtype)


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


RULES: Final[dict[str, Rule]] = {
    "add": lambda y, a, b: (_number(1, y), _number(1, y)),
    "sub": lambda y, a, b: (_number(1, y), _number(-1, y)),
    "neg": lambda y, x: (_number(-1, y),),
    "mul": lambda y, a, b: (b, a),
    "div": lambda y, a, b: (div(_number(1, y), b), neg(div(y, b))),
    "abs": lambda y, x: (call("sign", x),),  # 0 at x = 0
    "pow": _pow,
    **dict.fromkeys((*ROUNDING, *TESTS, "sign", "not"), lambda y, x: (None,)),  # 0 at jumps too
    **dict.fromkeys((*COMPARISONS, "and", "or", "floordiv", "mod"), lambda y, a, b: (None, None)),
}
"""By the name of the operation."""
