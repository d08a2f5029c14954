"""Points of integer sets counted, and visited in order by loops (isl's code generator).

Method: S. Verdoolaege, S. Grosser and A. Cohen, "Polyhedral AST Generation Is More Than Scanning
Polyhedra" (TOPLAS 2015): loops that visit several sets together, in lexicographic order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import islpy as isl

from tensorad.errors import InternalError
from tensorad.ir.expr import (
    Axis,
    Expr,
    add,
    axis,
    call,
    floordiv,
    int_const,
    logical_and,
    logical_or,
    mod,
    mul,
    neg,
    select,
    sub,
)
from tensorad.simplify.sets.integer_set import IntegerSet

_OP = isl.ast_expr_op_type
_FOLDS: dict[Any, Callable[[Expr, Expr], Expr]] = {
    _OP.add: add,
    _OP.sub: sub,
    _OP.mul: mul,
    _OP.div: floordiv,  # exact
    _OP.fdiv_q: floordiv,
    _OP.pdiv_q: floordiv,  # of a number >= 0
    _OP.pdiv_r: mod,
    _OP.zdiv_r: mod,  # only compared with 0
    _OP.min: lambda a, b: call("minimum", a, b),
    _OP.max: lambda a, b: call("maximum", a, b),
    _OP.and_: logical_and,
    _OP.and_then: logical_and,
    _OP.or_: logical_or,
    _OP.or_else: logical_or,
    _OP.eq: lambda a, b: call("eq", a, b),
    _OP.le: lambda a, b: call("le", a, b),
    _OP.lt: lambda a, b: call("lt", a, b),
    _OP.ge: lambda a, b: call("ge", a, b),
    _OP.gt: lambda a, b: call("gt", a, b),
}


@dataclass(frozen=True, eq=False)
class Point:
    """A point of set `number`, its coordinates over the loops around it."""

    number: int
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Loop:
    """The body for each value of the axis."""

    axis: Axis
    body: tuple[Scanning, ...]


@dataclass(frozen=True, eq=False)
class Test:
    """One of two blocks."""

    condition: Expr
    then: tuple[Scanning, ...]
    orelse: tuple[Scanning, ...]


Scanning = Point | Loop | Test


def scan_in_order(sets: Sequence[IntegerSet], separated: int) -> tuple[Scanning, ...]:
    """Loops that visit the points of all sets in lexicographic order, each point once per set.

    The sets have no parameters and as many dims each. Along the first `separated` dims loops are
    cut so that no iteration asks which sets it belongs to.

    Raises:
        BudgetExceeded: isl gave up (inside `budget`).
    """
    parts = []
    for n, s in enumerate(sets):
        there = s._data.coalesce().identity()
        parts.append(isl.UnionMap.from_map(there.set_tuple_name(isl.dim_type.in_, f"S{n}")))
    schedule = reduce(lambda a, b: a.union(b), parts)
    dims = ", ".join([f"c{n}" for n in range(len(sets[0].space.dims))])
    context = schedule.get_ctx()
    build = isl.AstBuild.from_context(isl.Set("{ : }", context))
    if separated:
        text = f"{{ [{dims}] -> separate[d] : 0 <= d < {separated} }}"
        build = build.set_options(isl.UnionMap(text, context))
    return _Reader().block(build.node_from_schedule_map(schedule))


class _Reader:
    """From isl's tree to ours."""

    def __init__(self) -> None:
        self.leaves: dict[str, Expr] = {}

    def block(self, node: Any) -> tuple[Scanning, ...]:
        kind = node.get_type()
        if kind == isl.ast_node_type.block:
            children = node.block_get_children()
            parts = [self.block(children.get_at(n)) for n in range(children.n_ast_node())]
            return tuple([s for part in parts for s in part])
        if kind == isl.ast_node_type.for_:
            return self.loop(node)
        if kind == isl.ast_node_type.if_:
            orelse = self.block(node.if_get_else_node()) if node.if_has_else_node() else ()
            condition = self.value(node.if_get_cond())
            return (Test(condition, self.block(node.if_get_then_node()), orelse),)
        if kind == isl.ast_node_type.user:
            return (self.point(node.user_get_expr()),)
        raise InternalError(f"isl wrote a node of kind {kind}")

    def loop(self, node: Any) -> tuple[Scanning, ...]:
        name = node.for_get_iterator().get_id().get_name()
        lower = self.value(node.for_get_init())
        if node.for_is_degenerate():
            self.leaves[name] = lower
            return self.block(node.for_get_body())
        end = node.for_get_cond()
        upper = self.value(end.get_op_arg(1))
        if end.get_op_type() == _OP.le:
            upper = add(upper, int_const(1))
        a = axis(name, lower, upper, self.value(node.for_get_inc()))
        self.leaves[name] = a
        return (Loop(a, self.block(node.for_get_body())),)

    def point(self, e: Any) -> Point:
        number = int(e.get_op_arg(0).get_id().get_name().removeprefix("S"))
        values = [self.value(e.get_op_arg(n)) for n in range(1, e.get_op_n_arg())]
        return Point(number, tuple(values))

    def value(self, e: Any) -> Expr:
        kind = e.get_type()
        if kind == isl.ast_expr_type.int:
            return int_const(int(e.get_val().to_str()))
        if kind == isl.ast_expr_type.id:
            return self.leaves[e.get_id().get_name()]
        op = e.get_op_type()
        operands = [self.value(e.get_op_arg(n)) for n in range(e.get_op_n_arg())]
        if op == _OP.minus:
            return neg(operands[0])
        if op in (_OP.select, _OP.cond):
            return select(*operands)
        if op not in _FOLDS:
            raise InternalError(f"isl wrote an operation of kind {op}")
        return reduce(_FOLDS[op], operands)


def subtract(a: IntegerSet, b: IntegerSet) -> IntegerSet:
    """The points of `a` that are not in `b`."""
    return IntegerSet(a.space, a._data.subtract(b._data).coalesce())


def are_disjoint(a: IntegerSet, b: IntegerSet) -> bool:
    """Whether the sets have no common point."""
    return bool(a._data.is_disjoint(b._data))


def count_points(s: IntegerSet) -> int:
    """How many points a bounded set without parameters has.

    Convex parts are products of their connected components, so large products cost no more
    than their factors.
    """
    total = 0
    for basic in s._data.make_disjoint().compute_divs().get_basic_sets():
        part = IntegerSet(s.space, isl.Set.from_basic_set(basic))
        factors = [part.restrict_to(g)._data.count_val() for g in part.components()]
        total += prod(int(f.to_str()) for f in factors)
    return total
