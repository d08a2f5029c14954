"""Quotients of inner axes as axes of their own: conditions without divisions."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.expr import (
    Axis,
    Call,
    Const,
    Expr,
    axis,
    call,
    int_const,
    logical_and,
    mul,
    sub,
)
from tensorad.ir.visit import free_leaves, rewrite


class Quotients:
    """e // c = t with c*t <= e < c*t + c, and e % c = e - c*t, for e over inner axes."""

    def __init__(self, inner: Sequence[Axis]) -> None:
        self.inner = dict.fromkeys(inner)
        self.axes: list[Axis] = []
        self.definitions: list[Expr] = []
        self._memo: dict[tuple[Expr, int], Axis] = {}

    def linear(self, root: Expr) -> Expr:
        """The expression over inner axes and quotients."""
        return rewrite(root, self._rewritten)

    def _rewritten(self, e: Expr) -> Expr | None:
        if not isinstance(e, Call) or e.op not in ("floordiv", "mod"):
            return None
        value, divisor = e.args
        if not isinstance(divisor, Const) or divisor.value <= 0:
            return None
        if not any(isinstance(a, Axis) and a in self.inner for a in free_leaves(value)):
            return None
        t = self._quotient(value, int(divisor.value))
        return t if e.op == "floordiv" else sub(value, mul(divisor, t))

    def _quotient(self, value: Expr, divisor: int) -> Axis:
        key = (value, divisor)
        if key not in self._memo:
            name = value.name if isinstance(value, Axis) else "t"
            t = axis(f"{name}{divisor}", 0, 0)
            rest = sub(value, mul(int_const(divisor), t))
            self._memo[key] = t
            self.axes.append(t)
            self.inner[t] = None
            self.definitions.append(
                logical_and(call("ge", rest, int_const(0)), call("lt", rest, int_const(divisor)))
            )
        return self._memo[key]
