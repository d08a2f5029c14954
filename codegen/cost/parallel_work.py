"""How much work a loop that threads share has: whether it starts them is decided in a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, TypeGuard

from tensorad.codegen.cost.memory_model import SHARED_BYTES_PER_CYCLE
from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.loops.ir import Fold, For, If, Kernel, Stmt, Store
from tensorad.codegen.loops.substitute import walked_range
from tensorad.codegen.loops.visit import all_expressions, inside, places
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import ASSUMED_STEPS, elements_formula
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
    select,
    sub,
)
from tensorad.ir.order import AXIS, PARAM, READ, occurs
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, substitute
from tensorad.simplify.index.linear import linear_form

PARALLEL_COST: Final = 200_000
"""Estimated cycles from which several threads pay, even those that sleep and come 60 us late."""
SHARED_COST: Final = 12_000
"""Estimated cycles from which threads pay that are awake: loops with more are shared."""
_LANES: Final = 16
_MOVED: Final = 2
"""Half cycles until a register is read, from a cache at hand; a store takes twice as long."""
_CHAINED: Final = 8
"""Half cycles of a fold that is not vectorised, which waits for the one before."""
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
    work = {s: call("maximum", loop_work(s), _cycles_of_memory(s)) for s in shared}
    body = [
        replace(s, work=work[s]) if isinstance(s, For) and s in work else s for s in kernel.body
    ]
    return replace(kernel, body=tuple(body))


def loop_work(loop: For) -> Expr:
    """Cycles of the loop, about: a number, or an expression of sizes."""
    total: Expr = ZERO
    for b in _bodies(loop):
        total = add(total, mul(b.times, int_const(_half_cycles(b.simple, b.lane))))
    return floordiv(mul(total, int_const(3)), int_const(4))  # half as much again is not seen


def _cycles_of_memory(loop: For) -> Expr:
    """Cycles in which one CPU brings what the loop moves, where the second cache cannot hold it."""
    every: dict[Tensor, dict[tuple[Expr, ...], Expr]] = {}
    for b in _bodies(loop):
        for tensor, indices in places(b.simple):
            used = free_leaves(*indices)
            elements: Expr = ONE
            for a, n in b.trips.items():
                elements = mul(elements, n) if a in used else elements
            every.setdefault(tensor, {})[indices] = elements
    total: Expr = ZERO
    for tensor, found in every.items():
        touched: Expr = ZERO
        for elements in found.values():
            touched = add(touched, elements)
        reached = call("minimum", touched, elements_formula(tensor.shape))
        total = add(total, mul(reached, int_const(tensor.dtype.size_bytes)))
    beyond = call("gt", total, int_const(machine.current().l2))
    return select(beyond, floordiv(total, int_const(SHARED_BYTES_PER_CYCLE)), ZERO)


@dataclass(frozen=True)
class _Body:
    """Statements of a loop, but for the loops among them.

    Attributes:
        trips: the iterations of each loop around them.
        times: how often they run, vectorised ones once for each register.
        lane: the vectorised axis, if there is one.
    """

    simple: list[Stmt]
    trips: Mapping[Axis, Expr]
    times: Expr
    lane: Axis | None


def _bodies(loop: For) -> Iterator[_Body]:
    """The body of a loop and those of all loops inside."""
    ranges = Ranges()
    outer: dict[Axis, Expr] = {}
    stack: list[tuple[For, Mapping[Axis, Expr], Expr, Axis | None]] = [(loop, {}, ONE, None)]
    looked = 0
    while stack:
        s, around, times, lane = stack.pop()
        ranges.enter(s.axis)
        walks = s is loop and walked_range(s) is not None
        count = ONE if walks else _trips(s.axis, ranges, outer)
        trips = {**around, s.axis: count}
        outer[s.axis] = sub(s.axis.upper, ONE)
        if s.kind == "vector":
            count, lane = floordiv(add(count, int_const(_LANES - 1)), int_const(_LANES)), s.axis
        times = mul(times, count)
        every = _flat(s.body)
        found = _Body([c for c in every if not isinstance(c, For)], trips, times, lane)
        yield found
        stack.extend((c, trips, times, lane) for c in every if isinstance(c, For))
        looked += len(found.simple)
        if looked * 8 > _SHARED:
            break  # enough is known: there is much of it


def _flat(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements of a block, those of both sides of its conditions too."""
    return [c for s in body for c in (_flat(inside(s)) if isinstance(s, If) else (s,))]


def _half_cycles(body: Sequence[Stmt], lane: Axis | None) -> int:
    """Of the statements of one body, for one register of lanes where they are vectorised."""
    total = 0
    fused: dict[Expr, None] = {}
    for s in body:
        if isinstance(s, Fold):
            total += len(s.targets) * (1 if lane is not None else _CHAINED)
            fused.update(dict.fromkeys(s.values))
        elif isinstance(s, Store):
            total += 2 * _MOVED * len(s.tensors)
    for e in postorder(*all_expressions(body)):
        if isinstance(e, Read):
            total += _MOVED * (lane is None or lane in free_leaves(*e.indices))
        elif isinstance(e, Call) and e.dtype.is_float and not (e in fused and e.op == "mul"):
            total += cost_of(e).half_cycles
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
        return int_const(ASSUMED_STEPS)
    return _stepped(call("maximum", sub(last, first), ZERO), a)


def _is(e: Expr, op: str) -> TypeGuard[Call]:
    return isinstance(e, Call) and e.op == op


def _stepped(trips: Expr, a: Axis) -> Expr:
    if isinstance(a.step, Const) and int(a.step.value) > 1:
        return floordiv(add(trips, sub(a.step, ONE)), a.step)
    return trips
