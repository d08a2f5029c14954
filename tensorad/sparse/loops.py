"""Loops over the entries of a matrix in order; the position of an entry is known or counted.

Where the number of entries in a loop's body does not depend on the loop, positions are affine
in the loop indices and iterations are independent; otherwise a scalar counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.codegen.loops.index_ranges import Ranges, fold_by_ranges
from tensorad.codegen.loops.ir import Assign, For, If, LoopKind, Stmt, Store
from tensorad.codegen.nest.folds import lower_values
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Const,
    Expr,
    Param,
    add,
    call,
    floordiv,
    int_const,
    mul,
    param,
    sub,
)
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import uses_any
from tensorad.simplify.sets.visit_points import Loop, Point, Scanning, Test

PARALLEL_ENTRIES = 300_000
"""Entries of a loop from which several threads pay."""
LANES = 8
"""Iterations from which a loop runs in lanes."""

Leaf = Callable[[Point, Expr], tuple[Stmt, ...]]
"""The statements of a point whose entry has a position."""


class Emitter:
    """From isl's loops to ours.

    Attributes:
        leaf: what happens at a point.
        width: how many positions a point takes.
    """

    def __init__(self, leaf: Leaf, width: Callable[[Point], int]) -> None:
        self.leaf = leaf
        self.width = width
        self.counts: dict[Scanning, Expr | None] = {}
        self.ranges = Ranges()

    def run(self, body: Sequence[Scanning], start: Expr) -> tuple[tuple[Stmt, ...], Expr]:
        """The statements, and the position after the last entry."""
        count = self.count(body)
        if count is not None:
            return self.closed(body, start, outermost=True), add(start, count)
        p = param("at", INT64)
        return (Assign((p,), (start,)), *self.running(body, p)), p

    # Counting

    def count(self, body: Sequence[Scanning]) -> Expr | None:
        """How many positions the points of a block take; None if no formula is known."""
        total: Expr = ZERO
        for s in body:
            if s not in self.counts:
                self.counts[s] = self._count(s)
            count = self.counts[s]
            if count is None:
                return None
            total = add(total, count)
        return total

    def _count(self, s: Scanning) -> Expr | None:
        if isinstance(s, Point):
            return int_const(self.width(s))
        if isinstance(s, Test):
            then, orelse = self.count(s.then), self.count(s.orelse)
            return then if then is orelse else None
        each = self.count(s.body)
        if each is None or each is ZERO:
            return each
        return None if uses_any(each, [s.axis]) else mul(_trips(s.axis), each)

    # Positions by formula

    def closed(
        self, body: Sequence[Scanning], start: Expr, outermost: bool = False
    ) -> tuple[Stmt, ...]:
        """A block whose counts are known, from a position on."""
        result: list[Stmt] = []
        for s in body:
            result.extend(self.closed_one(s, start, outermost))
            count = self.count([s])
            assert count is not None  # the caller asked
            start = add(start, count)
        return tuple(result)

    def closed_one(self, s: Scanning, start: Expr, outermost: bool) -> tuple[Stmt, ...]:
        if isinstance(s, Point):
            return self.leaf(s, start)
        if isinstance(s, Test):
            then, orelse = self.closed(s.then, start), self.closed(s.orelse, start)
            return (If(s.condition, then, orelse),) if then or orelse else ()
        self.ranges.enter(s.axis)
        each = self.count(s.body)
        assert each is not None  # as above
        passed = floordiv(sub(s.axis, s.axis.lower), s.axis.step)
        body = self.closed(s.body, add(start, mul(passed, each)))
        return self.loop(s.axis, body, each, outermost)

    def loop(self, a: Axis, body: tuple[Stmt, ...], each: Expr, outer: bool) -> tuple[Stmt, ...]:
        """A loop with independent iterations."""
        if not body:
            return ()
        kind: LoopKind = "serial"
        total = mul(_trips(a), each)
        if outer and isinstance(total, Const) and int(total.value) >= PARALLEL_ENTRIES:
            kind = "parallel"
        elif each is ONE and a.step is ONE and all(isinstance(s, Store) for s in body):
            kind = "vector" if (a.extent or LANES) >= LANES else "serial"
        return (For(a, body, kind),)

    # Positions by counting

    def running(self, body: Sequence[Scanning], p: Param) -> tuple[Stmt, ...]:
        """A block that starts at position p and leaves p behind its last entry."""
        result: list[Stmt] = []
        ahead: Expr = ZERO
        for s in body:
            count = self.count([s])
            if count is not None:
                result.extend(self.closed_one(s, add(p, ahead), outermost=False))
                ahead = add(ahead, count)
                continue
            if ahead is not ZERO:
                result.append(Assign((p,), (add(p, ahead),)))
                ahead = ZERO
            if isinstance(s, Loop):
                self.ranges.enter(s.axis)
                result.append(For(s.axis, self.running(s.body, p)))
            elif isinstance(s, Test):
                then, orelse = self.running(s.then, p), self.running(s.orelse, p)
                result.append(If(s.condition, then, orelse))
        if ahead is not ZERO:
            result.append(Assign((p,), (add(p, ahead),)))
        return tuple(result)

    def fold(self, e: Expr) -> Expr:
        """The expression with what the loops around it settle replaced."""
        return fold_by_ranges(e, self.ranges, {})


def _trips(a: Axis) -> Expr:
    """How many values an axis takes."""
    if a.extent is not None:
        return int_const(a.extent)
    extent = sub(a.upper, a.lower)
    if a.step is not ONE:
        extent = floordiv(add(extent, sub(a.step, ONE)), a.step)
    return call("maximum", extent, ZERO)


def store(t: Tensor, position: Expr, value: Expr) -> tuple[Stmt, ...]:
    """t[position] = value, its reductions in loops before."""
    before, (result,) = lower_values((value,))
    return (*before, Store((t,), (position,), (result,)))
