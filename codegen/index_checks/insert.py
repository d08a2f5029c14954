"""Data-dependent indices are verified by loops of their own, before the loops that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.index_checks.facts import Fact, counts, facts_of
from tensorad.codegen.index_checks.joins import Joint, joined
from tensorad.codegen.loops.index_ranges import unravelled
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, If, Kernel, Stmt
from tensorad.codegen.loops.visit import all_expressions, statements
from tensorad.codegen.nest.folds import lower_values
from tensorad.ir.combiner import all_combiner
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Expr,
    Param,
    Read,
    Select,
    axis,
    call,
    logical_and,
    logical_not,
    param,
    read,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, dim_expr
from tensorad.ir.visit import free_leaves, postorder, reads, substitute

LANES: Final = 16
"""Indices that a test folds side by side."""


def with_checks(units: Sequence[Unit], sizes: bool = False) -> tuple[Unit, ...]:
    """The units of a call, each with the kernels that check its indices; those that sizes may put
    outside as well, if `sizes`.

    What follows from a fact checked before is not checked again; a fact from which one follows
    that is due is checked in its place as soon as what it reads is there.
    """
    facts = [_unit_facts(u, sizes) for u in units]
    plan = _Plan(units, [f for found in facts for f in found])
    kernels: dict[Fact, Kernel] = {}
    result: list[Unit] = []
    for n, (unit, found) in enumerate(zip(units, facts, strict=True)):
        checked = dict.fromkeys(g for f in found for g in plan.settle(f, n))
        new = [g for g in checked if g not in kernels]
        if new:
            kernels.update(dict.fromkeys(new, _kernel(unit, new)))
        checks = tuple(dict.fromkeys([kernels[g] for g in checked]))
        result.append(replace(unit, checks=checks) if checks else unit)
    return tuple(result)


def _unit_facts(unit: Unit, sizes: bool) -> list[Fact]:
    into = unit.live[0] if len(unit.parts) > 1 else None
    return [f for op in unit.parts for f in facts_of(op, into, sizes)]


class _Plan:
    """Which facts of a call are checked, and from which of them the others follow."""

    def __init__(self, units: Sequence[Unit], facts: Sequence[Fact]) -> None:
        self.made = {t: n for n, u in enumerate(units) for t in u.live}
        """The number of the unit that makes a tensor."""
        self.of_read: dict[tuple[Op, Read], list[Fact]] = {}
        self.related: dict[object, list[Fact]] = {}
        """By what facts have in common if one covers the other."""
        self.checked: dict[object, list[Fact]] = {}
        self.needed: dict[Fact, list[Fact]] = {}
        """Facts that are checked -> those that are checked before them."""
        self.under_way: dict[Fact, None] = {}
        for f in facts:
            self.of_read.setdefault((f.op, f.site), []).append(f)
            for key in f.traits():
                self.related.setdefault(key, []).append(f)

    def settle(self, fact: Fact, n: int) -> list[Fact]:
        """The facts that have to be checked before unit n for this one to hold, in order."""
        for key in fact.traits():
            for g in self.checked.get(key, ()):
                if g.covers(fact):
                    return [*self.needed[g], g]
        chosen = self.strongest(fact, n)
        self.needed[chosen] = self.first(chosen, n)
        for key in chosen.traits():
            self.checked.setdefault(key, []).append(chosen)
        return [*self.needed[chosen], chosen]

    def first(self, fact: Fact, n: int) -> list[Fact]:
        """What makes it safe to evaluate what a fact is about."""
        self.under_way[fact] = None
        inner = [f for f in self.about(fact) if f not in self.under_way]
        found = [g for f in inner for g in self.settle(f, n)]
        del self.under_way[fact]
        return found

    def about(self, fact: Fact) -> list[Fact]:
        """The facts about reads inside of its own loops."""
        inside = reads(*fact.roots())
        return [f for r in inside for f in self.of_read.get((fact.op, r), ())]

    def strongest(self, fact: Fact, n: int) -> Fact:
        """A fact that can be checked before unit n, and from which this one follows."""
        found = fact
        for key in fact.traits():
            for g in self.related[key]:
                stronger = g.covers(found) and not found.covers(g)
                if stronger and g not in self.under_way and self.is_ready(g, n):
                    found = g
        return found

    def is_ready(self, fact: Fact, n: int) -> bool:
        """Whether all that its loops read is there before unit n."""
        todo, seen = [fact], {fact: None}
        while todo:
            f = todo.pop()
            if any(self.made.get(r.tensor, -1) >= n for r in reads(*f.roots())):
                return False
            inner = [g for g in self.about(f) if g not in seen]
            seen.update(dict.fromkeys(inner))
            todo.extend(inner)
        return True


def _kernel(unit: Unit, facts: Sequence[Fact]) -> Kernel:
    body = tuple([s for j in joined(facts) for s in _tested(j)])
    used = dict.fromkeys(r.tensor for r in reads(*all_expressions(statements(body))))
    return Kernel(f"{unit.op.name}.check", body, (), tuple(used))


def _tested(joint: Joint) -> tuple[Stmt, ...]:
    """One test of several indices; where it fails, each is checked to find the wrong one."""
    first, *others = joint.facts
    if not others and joint.axes == first.axes:
        return _loops(first)
    combiner, inside = all_combiner(), param("inside", BOOL)
    each = [s for f in joint.facts for s in _loops(f)]
    return (
        Assign((inside,), combiner.identity),
        *_test(joint, inside),
        If(logical_not(inside), tuple(each), rare=True),
    )


def _test(joint: Joint, inside: Param) -> tuple[Stmt, ...]:
    """The loops that fold whether all points of a test are right."""
    before, (condition,) = lower_values((joint.guard,))
    inner, (index,) = lower_values((joint.index,))
    axes: Sequence[Axis] = joint.axes
    joined = None if inner or condition is not TRUE else _one_row(index, axes)
    if joined is not None:
        row, index = joined
        axes = (row,)
    right = logical_and(ZERO <= index, index < joint.limit)
    fold = Fold((inside,), all_combiner(), (right,))
    block: tuple[Stmt, ...] = (*inner, fold)
    if condition is not TRUE:
        block = (*before, If(condition, block))
    return _nest(axes, block, fold, index)


def _line(op: Op) -> str:
    """Where the user wrote an operation with indices."""
    return op.source if isinstance(op, (Compute, Scan, Scatter)) else ""


def _loops(fact: Fact) -> tuple[Stmt, ...]:
    """The loops that check one fact."""
    before, (condition,) = lower_values((fact.guard,))
    inner, (value,) = lower_values((fact.index,))
    indices: list[Expr] = [ZERO] * len(fact.read.indices)  # the others are checked on their own
    indices[fact.dimension] = value
    checked = read(fact.read.tensor, tuple(indices))
    assert isinstance(checked, Read)  # what the factory makes
    check = Check(checked, fact.dimension, fact.extent, fact.user, fact.writes, _line(fact.op))
    joined = None if inner or condition is not TRUE else _one_row(value, fact.axes)
    if joined is not None:
        row, index = joined
        return (For(row, (replace(check, looked_at=index),), "vector"),)
    axes, counting = fact.axes, [a for a in fact.axes[-1:] if counts(value, a)]
    block: tuple[Stmt, ...] = (*inner, check)
    if counting and not inner and counting[0] not in free_leaves(condition):
        axes, block = axes[:-1], _ends(check, counting[0])
    if condition is not TRUE:
        block = (*before, If(condition, block))
    elif block == (check,) and (rows := _rows_in_one(check, axes)):
        return rows
    return _nest(axes, block, check, value)  # lanes look at one index: the first wrong one is named


def _nest(
    axes: Sequence[Axis], block: tuple[Stmt, ...], only: Stmt, index: Expr
) -> tuple[Stmt, ...]:
    """Loops around a block, vectorised where `only` looks at an index that suits them."""
    lanes = LANES if isinstance(only, Fold) else 0
    for a in reversed(axes):
        if block == (only,) and _is_vectorisable(index, a):
            block = (For(a, block, "vector", lanes=lanes),)
        else:
            block = (For(a, block),)
    return block


def _one_row(index: Expr, axes: Sequence[Axis]) -> tuple[Axis, Expr] | None:
    """The loop over all elements of a tensor as one, and the index in it."""
    found = reads(index)
    if len(found) != 1 or len(axes) < 2 or not _walks(found[0], axes):
        return None
    first, *_, last = axes
    size = prod([a.extent or 1 for a in axes[1:]])
    row = axis(last.name, first.lower * size, first.upper * size)
    digits = unravelled(row, [a.upper for a in axes])
    return row, substitute(index, dict(zip(axes, digits, strict=True)))


def _rows_in_one(check: Check, axes: Sequence[Axis]) -> tuple[Stmt, ...] | None:
    """Ragged rows, each of which begins where the one before it ends, as one; else one by one."""
    if len(axes) != 2:
        return None
    outer, row = axes
    following = substitute(row.lower, {outer: outer + 1})
    if following is not row.upper or outer.step is not ONE or row.step is not ONE:
        return None
    if outer in free_leaves(check.index) or not _is_vectorisable(check.index, row):
        return None
    ends = [substitute(row.lower, {outer: b}) for b in (outer.lower, outer.upper)]
    all_rows = axis(row.name, *ends)
    index = substitute(check.index, {row: all_rows})
    combiner, ordered = all_combiner(), param("ordered", BOOL)
    return (
        Assign((ordered,), combiner.identity),
        For(outer, (Fold((ordered,), combiner, (row.lower <= row.upper,)),)),
        If(
            logical_and(ordered, outer.lower < outer.upper),
            (For(all_rows, (replace(check, looked_at=index),), "vector"),),
            (For(outer, (For(row, (check,), "vector"),)),),
        ),
    )


def _walks(r: Read, axes: Sequence[Axis]) -> bool:
    """Whether loops over the axes take elements of a tensor as they lie in memory."""
    if len(axes) != len(r.indices) or any(a.extent is None for a in axes[1:]):
        return False
    return all(
        i is a and a.step is ONE and (n == 0 or (a.lower is ZERO and a.upper is dim_expr(extent)))
        for n, (i, a, extent) in enumerate(zip(r.indices, axes, r.tensor.shape, strict=True))
    )


def _ends(check: Check, a: Axis) -> tuple[Stmt, ...]:
    """Check indices that count upwards by the first and the last of them.

    If the first is right but the last is not, then the first wrong one is the extent.
    """
    index = check.index
    last = call("minimum", substitute(index, {a: a.upper - 1}), check.extent)
    ends = [substitute(index, {a: a.lower}), last]
    both = tuple([replace(check, looked_at=e) for e in ends])
    filled = a.lower < a.upper
    return both if filled is TRUE else (If(filled, both),)


def _is_vectorisable(index: Expr, a: Axis) -> bool:
    """Whether lanes look at neighbouring indices: all are read, none by another."""
    nested = any(occurs(READ, *r.indices) for r in reads(index))
    moves = a in free_leaves(index)
    return moves and not nested and not any(isinstance(e, Select) for e in postorder(index))
