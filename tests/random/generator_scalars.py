"""Scalar operations of random programs, each with the bound of its result's magnitude."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorad.ir.expr import Const, Expr, call, const, select

Operation = tuple[int, Callable[..., tuple[Expr, float]]]
"""How many operands, and the result of operands with their magnitudes."""


def _unary(op: str, inner: Callable[[Expr], Any], bound: Callable[[float], float]) -> Operation:
    return 1, lambda x: (call(op, inner(x[0])), bound(x[1]))


def _binary(op: str, bound: Callable[[float, float], float]) -> Operation:
    return 2, lambda x, y: (call(op, x[0], y[0]), bound(x[1], y[1]))


def _divided(op: str, x: Expr, y: Expr) -> Expr:
    """x // y or x % y; a divisor that is zero at run time is part of the language."""
    return call(op, x, const(3, y.dtype) if isinstance(y, Const) and y.value == 0 else y)


FLOAT: tuple[Operation, ...] = (
    _binary("add", lambda a, b: a + b),
    _binary("sub", lambda a, b: a + b),
    _binary("mul", lambda a, b: a * b),
    _binary("mul", lambda a, b: a * b),
    _binary("maximum", max),
    _binary("minimum", max),
    (2, lambda x, y: (x[0] / (y[0] * y[0] + 1.0), x[1])),
    (2, lambda x, y: (call("pow", x[0] * x[0] + 0.3, call("tanh", y[0])), 4 + x[1] ** 2)),
    (1, lambda x: (x[0] ** 2, x[1] ** 2)),
    (1, lambda x: (x[0] ** 3, x[1] ** 3)),
    (1, lambda x: (-x[0], x[1])),
    _unary("tanh", lambda x: x, lambda a: 1.0),
    _unary("sigmoid", lambda x: x, lambda a: 1.0),
    _unary("sin", lambda x: x, lambda a: 1.0),
    _unary("abs", lambda x: x, lambda a: a),
    _unary("exp", lambda x: -(x * x), lambda a: 1.0),
    _unary("log", lambda x: x * x + 0.5, lambda a: 5.0),
    _unary("sqrt", lambda x: x * x + 0.1, lambda a: a + 1.0),
    _unary("erf", lambda x: x, lambda a: 1.0),
)
INTEGER: tuple[Operation, ...] = (
    _binary("add", lambda a, b: a + b),
    _binary("sub", lambda a, b: a + b),
    _binary("mul", lambda a, b: a * b),
    _binary("maximum", max),
    _binary("minimum", max),
    (2, lambda x, y: (_divided("floordiv", x[0], y[0]), x[1])),
    (2, lambda x, y: (_divided("mod", x[0], y[0]), y[1])),
    (1, lambda x: (-x[0], x[1])),
    (1, lambda x: (call("abs", x[0]), x[1])),
    (2, lambda x, y: (select(x[0] < y[0], x[0], y[0] * 2), 2 * x[1] + 2 * y[1])),
)
