"""How much work a loop that threads share has at given sizes: decided when it is called."""

from __future__ import annotations

from math import inf
from typing import Final, TypeGuard

from tensorad.codegen.affine import Ranges
from tensorad.codegen.llvm_lanes import expressions, statements
from tensorad.codegen.loopir import Fold, For, If, Stmt
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Param,
    Read,
    Size,
    add,
    call,
    floordiv,
    int_const,
    mul,
    sub,
)
from tensorad.ir.order import SIZE, occurs
from tensorad.ir.visit import postorder, substitute
from tensorad.simplify.linear import linear_form

PARALLEL_COST: Final = 200_000
"""Estimated cycles from which several threads pay, even those that sleep and come 60 us late."""
HEAVY: Final = 8
"""Cycles of an elementary function for eight lanes; other operations count one."""
_PLAIN: Final = ("add", "sub", "mul", "div", "neg", "minimum", "maximum", "abs", "and", "or", "not")
_LANES: Final = 8
_UNKNOWN: Final = 16
"""Iterations of a loop whose bounds come from data."""
_SHARED: Final = 4096
"""Most expression nodes looked at."""


def symbolic_work(loop: For) -> Expr | None:
    """Cycles of the loop, about, as an expression of sizes; None where they are known before."""
    loops = [s.axis for s in statements((loop,)) if isinstance(s, For)]
    if not occurs(SIZE, *[e for a in loops for e in (a.lower, a.upper, a.step)]):
        return None
    total: Expr = ZERO
    ranges = Ranges()
    outer: dict[Axis, Expr] = {}
    stack: list[tuple[Stmt, Expr]] = [(loop, ONE)]
    looked = 0
    while stack:
        s, times = stack.pop()
        if isinstance(s, For):
            ranges.enter(s.axis)
            trips = _trips(s.axis, ranges, outer)
            outer[s.axis] = sub(s.axis.upper, ONE)
            if s.kind == "vector":
                trips = floordiv(add(trips, int_const(_LANES - 1)), int_const(_LANES))
            inside = mul(times, trips)
            stack.extend((c, inside) for c in s.body)
            continue
        if isinstance(s, If):
            stack.extend((c, times) for c in (*s.then, *s.orelse))
            continue
        looked += 1
        total = add(total, mul(times, int_const(_cycles(s))))
        if looked * 8 > _SHARED:
            break  # enough is known: there is much of it
    return total if any(isinstance(e, Size) for e in postorder(total)) else None


def _cycles(s: Stmt) -> int:
    """Of one statement for eight lanes."""
    nodes = postorder(*expressions(s))
    calls = [e for e in nodes if isinstance(e, Call) and e.dtype.is_float]
    heavy = sum(c.op not in _PLAIN for c in calls)
    reads = sum(isinstance(e, Read) for e in nodes)
    return 1 + isinstance(s, Fold) + len(calls) + (HEAVY - 1) * heavy + reads


def _trips(a: Axis, ranges: Ranges, outer: dict[Axis, Expr]) -> Expr:
    """Iterations of a loop, at most: outer axes stand where they make it longest."""
    low, high = ranges.of(a.lower)[0], ranges.of(a.upper)[1]
    for e in a.upper.args if _is_minimum(a.upper) else (a.upper,):
        form = linear_form(sub(e, a.lower))
        if not form.terms:  # a strip: [w*o, min(n, w*o + w))
            return _stepped(int_const(max(0, form.constant)), a)
    if low != -inf and high != inf:
        return _stepped(int_const(max(0, int(high - low))), a)
    first, last = a.lower, a.upper
    for axis in reversed(outer):  # the inner ones first: their ends use outer axes
        last = substitute(last, {axis: outer[axis]})
        first = substitute(first, {axis: axis.lower})
    if any(isinstance(e, (Axis, Param, Read)) for e in postorder(first, last)):
        return int_const(_UNKNOWN)
    return _stepped(call("maximum", sub(last, first), ZERO), a)


def _is_minimum(e: Expr) -> TypeGuard[Call]:
    return isinstance(e, Call) and e.op == "minimum"


def _stepped(trips: Expr, a: Axis) -> Expr:
    if isinstance(a.step, Const) and int(a.step.value) > 1:
        return floordiv(add(trips, sub(a.step, ONE)), a.step)
    return trips
