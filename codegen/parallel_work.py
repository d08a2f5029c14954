"""How much work a loop that threads share has: whether it starts them is decided in a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final, TypeGuard

from tensorad.codegen.affine import Ranges
from tensorad.codegen.choices import Schedules
from tensorad.codegen.llvm_lanes import expressions
from tensorad.codegen.loop_place import walked_range
from tensorad.codegen.loopir import Fold, For, If, Kernel, Stmt, Store
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Read,
    Select,
    add,
    call,
    floordiv,
    int_const,
    mul,
    sub,
)
from tensorad.ir.order import AXIS, PARAM, READ, occurs
from tensorad.ir.visit import free_leaves, postorder, substitute
from tensorad.simplify.linear import linear_form

PARALLEL_COST: Final = 200_000
"""Estimated cycles from which several threads pay, even those that sleep and come 60 us late."""
SHARED_COST: Final = 12_000
"""Estimated cycles from which threads pay that are awake: loops with more are shared."""
HEAVY: Final = 16
"""Half cycles of an elementary function for one register of lanes; other operations take one."""
_PLAIN: Final = ("add", "sub", "mul", "div", "neg", "minimum", "maximum", "abs", "and", "or", "not")
_LANES: Final = 16
_MOVED: Final = 2
"""Half cycles until a register is read, from a cache at hand; a store takes twice as long."""
_CHAINED: Final = 8
"""Half cycles of a fold outside of lanes, which waits for the one before."""
_UNKNOWN: Final = 16
"""Iterations of a loop whose bounds come from data."""
_SHARED: Final = 4096
"""Most expression nodes looked at."""


def with_work(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with the work of its parallel loops beside them.

    Threads asked for by hand are started whatever there is to do.
    """
    every = (schedules.everywhere, *schedules.named.values())
    if any(c.parallel for c in every):
        return kernel
    shared = [s for s in kernel.body if isinstance(s, For) and s.kind == "parallel"]
    if not shared:
        return kernel
    work = {s: loop_work(s) for s in shared}
    body = [
        replace(s, work=work[s]) if isinstance(s, For) and s in work else s for s in kernel.body
    ]
    return replace(kernel, body=tuple(body))


def loop_work(loop: For) -> Expr:
    """Cycles of the loop, about: a number, or an expression of sizes."""
    total: Expr = ZERO
    ranges = Ranges()
    outer: dict[Axis, Expr] = {}
    stack: list[tuple[For, Expr, Axis | None]] = [(loop, ONE, None)]
    looked = 0
    while stack:
        s, times, lane = stack.pop()
        ranges.enter(s.axis)
        walks = s is loop and walked_range(s) is not None
        trips = ONE if walks else _trips(s.axis, ranges, outer)
        outer[s.axis] = sub(s.axis.upper, ONE)
        if s.kind == "vector":
            trips, lane = floordiv(add(trips, int_const(_LANES - 1)), int_const(_LANES)), s.axis
        inside = mul(times, trips)
        every = _flat(s.body)
        simple = [c for c in every if not isinstance(c, For)]
        total = add(total, mul(inside, int_const(_half_cycles(simple, lane))))
        stack.extend((c, inside, lane) for c in every if isinstance(c, For))
        looked += len(simple)
        if looked * 8 > _SHARED:
            break  # enough is known: there is much of it
    return floordiv(mul(total, int_const(3)), int_const(4))  # half as much again is not seen


def _flat(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements of a block, those of both sides of its conditions too."""
    found: list[Stmt] = []
    stack = list(reversed(body))
    while stack:
        s = stack.pop()
        if isinstance(s, If):
            stack.extend(reversed((*s.then, *s.orelse)))
        else:
            found.append(s)
    return found


def _half_cycles(body: Sequence[Stmt], lane: Axis | None) -> int:
    """Of the statements of one body, for one register of lanes where they run in lanes."""
    total = 0
    fused: dict[Expr, None] = {}
    for s in body:
        if isinstance(s, Fold):
            total += len(s.targets) * (1 if lane is not None else _CHAINED)
            fused.update(dict.fromkeys(s.values))
        elif isinstance(s, Store):
            total += 2 * _MOVED * len(s.tensors)
    for e in postorder(*[e for s in body for e in expressions(s)]):
        if isinstance(e, Read):
            total += _MOVED * (lane is None or lane in free_leaves(*e.indices))
        elif isinstance(e, Call) and e.dtype.is_float and not (e in fused and e.op == "mul"):
            total += 1 if e.op in _PLAIN else HEAVY
        elif isinstance(e, Select):
            total += 1
    return total


def _trips(a: Axis, ranges: Ranges, outer: dict[Axis, Expr]) -> Expr:
    """Iterations of a loop, at most: outer axes stand where they make it longest."""
    low, high = ranges.of(a.lower)[0], ranges.of(a.upper)[1]
    ends = a.upper.args if _is(a.upper, "minimum") else (a.upper,)
    starts = a.lower.args if _is(a.lower, "maximum") else (a.lower,)
    lengths = [linear_form(sub(e, s)) for e in ends for s in starts]
    numbers = [form.constant for form in lengths if not form.terms]
    if numbers:  # a strip: [max(0, w*o - 1), min(n, w*o + w))
        return _stepped(int_const(max(0, min(numbers))), a)
    if low != -inf and high != inf:
        return _stepped(int_const(max(0, int(high - low))), a)
    first, last = a.lower, a.upper
    for axis in reversed(outer):  # the inner ones first: their ends use outer axes
        last = substitute(last, {axis: outer[axis]})
        first = substitute(first, {axis: axis.lower})
    if occurs(AXIS | PARAM | READ, first, last):
        return int_const(_UNKNOWN)
    return _stepped(call("maximum", sub(last, first), ZERO), a)


def _is(e: Expr, op: str) -> TypeGuard[Call]:
    return isinstance(e, Call) and e.op == op


def _stepped(trips: Expr, a: Axis) -> Expr:
    if isinstance(a.step, Const) and int(a.step.value) > 1:
        return floordiv(add(trips, sub(a.step, ONE)), a.step)
    return trips
