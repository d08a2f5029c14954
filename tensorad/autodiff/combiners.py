"""Derivatives of reductions with any combiner, each in time linear in the reduction.

Sums differentiate directly. A combiner that selects one operand (max, min, argmax-like
tuples) goes through the index of the winner. Every other one is a fold: see `folds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from tensorad.autodiff.box import Box
from tensorad.autodiff.folds import fold_terms
from tensorad.autodiff.linear import Term, body_terms
from tensorad.errors import InternalError
from tensorad.ir.combiner import Combiner, beats, make_combiner
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import (
    Call,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    call,
    const,
    int_const,
    logical_and,
    logical_not,
    logical_or,
    read,
    reduce_expr,
    select,
)
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, substitute, substitute_all


def reduce_terms(op: Compute, component: int, wanted: Callable[[Read], bool]) -> list[Term]:
    """The linear terms of output `component`, whose body is a reduction of plain sources."""
    e = op.bodies[component]
    if not isinstance(e, Reduce):
        raise TypeError(f"{e} is not a reduction")
    if e.combiner.is_sum:
        return body_terms(component, e.sources[0], wanted, e.axes, e.condition)
    if selection(e.combiner) is not None:
        return _selection_terms(op, component, e, wanted)
    return fold_terms(op, component, e, wanted)


@lru_cache(maxsize=1024)
def selection(combiner: Combiner) -> Expr | None:
    """When the later operand y replaces the state x, if every component follows that choice."""
    found: Expr | None = None
    for x, y, result in zip(combiner.lhs, combiner.rhs, combiner.results, strict=True):
        take = _takes_later(x, y, result)
        if take is None or (found is not None and take is not found):
            return None
        found = take
    return found


def _takes_later(x: Param, y: Param, result: Expr) -> Expr | None:
    match result:
        case Call(op="maximum" | "minimum", args=(a, b)):
            if a is x and b is y:
                return beats(result.op, y, x)
            if a is y and b is x:
                return logical_not(beats(result.op, x, y))
        case Select(cond=c, then=a, orelse=b):
            if a is y and b is x:
                return c
            if a is x and b is y:
                return logical_not(c)
    return None


_winners: WeakKeyDictionary[Compute, dict[tuple[object, ...], Tensor]] = WeakKeyDictionary()


def winner(op: Compute, e: Reduce) -> Tensor:
    """The position (in the box of its axes) of the selected element; -1 if there is none."""
    known = _winners.setdefault(op, {})
    key = (e.combiner, e.sources, e.axes, e.condition)
    if key not in known:
        known[key] = _make_winner(op, e)
    return known[key]


def _make_winner(op: Compute, e: Reduce) -> Tensor:
    dtypes = tuple([c.dtype for c in e.combiner.identity])
    combiner = _with_position(e.combiner, dtypes)
    sources = (*e.sources, Box.around(e.axes).position())
    whole = reduce_expr(combiner, sources, e.axes, e.condition, e.combiner.arity)
    axes, (body,) = copy_bodies(op.axes, (whole,))
    return outputs(Compute(f"{op.name}.winner", axes, (body,), op.source))[0]


@lru_cache(maxsize=1024)
def _with_position(combiner: Combiner, dtypes: tuple[DType, ...]) -> Combiner:
    """The combiner that carries the selected element's position along."""
    take = selection(combiner)
    if take is None:
        raise TypeError(f"{combiner.name} is not a selection")
    chosen = take
    m = combiner.arity

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        renamed: dict[Expr, Expr] = {}
        renamed.update(zip((*combiner.lhs, *combiner.rhs), (*x[:m], *y[:m]), strict=True))
        better = substitute(chosen, renamed)
        # the identity is no operand: an operand equal to it takes its place
        same = logical_and(*[b == a for a, b in zip(x[:m], y[:m], strict=True)])
        replace = logical_and(y[m] >= 0, logical_or(better, logical_and(x[m] < 0, same)))
        return tuple([select(replace, b, a) for a, b in zip(x, y, strict=True)])

    identity = (*combiner.identity, const(-1, INT64))
    name = f"{combiner.name} with position"
    return make_combiner(name, combine, identity, associative=combiner.associative)


def _selection_terms(
    op: Compute, component: int, e: Reduce, wanted: Callable[[Read], bool]
) -> list[Term]:
    """out[o] = source(o, winner[o]): the source's terms where they are the selected ones."""
    box = Box.around(e.axes)
    position = read(winner(op, e), op.axes)
    selected = position == box.position()
    at_winner = box.at(call("maximum", position, int_const(0)))
    terms: list[Term] = []
    for t in body_terms(component, e.sources[e.index], wanted, e.axes, e.condition):
        place = substitute_all((t.coefficient, t.read, t.guard), at_winner)
        coefficient, there, guard = place
        if not isinstance(there, Read):
            raise InternalError(f"{t.read} became {there}")
        guard = logical_and(position >= 0, guard)
        direct = Term(component, coefficient, there, guard=guard)
        terms.append(replace(t, guard=logical_and(selected, t.guard), at_winner=direct))
    return terms
