"""Certificates of the steps around eliminations: conditions lifted out of sums, and stages.

Lifting sum(v) to sum(w where c) claims that v is a structural zero wherever c does not hold
and that v is w wherever it does. A stage claims that reading it at a point is the reduction
there. Both claims are checked from the formulas as they are, not from how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import InternalError
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Expr,
    Reduce,
    Select,
    const,
    logical_and,
    logical_not,
    logical_or,
    sub,
)
from tensorad.ir.functions import is_stop
from tensorad.ir.tensor import Compute
from tensorad.ir.visit import conjuncts, fresh_axes, postorder, rewrite, substitute
from tensorad.simplify.certify.certificate import certify, demand
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.solution import Piece, Solution
from tensorad.simplify.index.quasi_affine import axis_conditions
from tensorad.simplify.zeros.lift import guarded, is_index_condition, is_zero, split_condition


def demand_lifting(
    axes: Sequence[Axis], condition: Expr, source: Expr, lifted: Expr, value: Expr
) -> None:
    """`source` where `condition` holds is `value` where also `lifted` holds, otherwise 0.

    Raises:
        InternalError: this is not proved.
    """
    live = logical_and(condition, nonzero_where(source))
    claim = _implication(axes, live, logical_and(condition, lifted))
    if not certify(claim).verdict.holds:
        raise InternalError(f"{source}\nmay be nonzero where\n{lifted}\ndoes not hold")
    if _inside(source, lifted) is not _inside(value, lifted):
        raise InternalError(f"{source}\nis not\n{value}\nwhere\n{lifted}")


def _implication(axes: Sequence[Axis], premise: Expr, conclusion: Expr) -> Elimination:
    """premise => conclusion, as a plan that tests both where the domain tests one."""
    own = tuple(axes)
    identity: dict[Expr, Expr] = {a: a for a in own}
    plan = Piece(TRUE, own, identity, logical_and(premise, conclusion))
    return Elimination((), own, premise, Solution((plan,), False))


def nonzero_where(root: Expr) -> Expr:
    """A condition on indices outside which the value is a structural zero."""
    found: dict[Expr, Expr] = {}
    for e in postorder(root):
        found[e] = _nonzero_node(e, found)
    return found[root]


def _nonzero_node(e: Expr, found: dict[Expr, Expr]) -> Expr:
    match e:
        case Call(op="mul", args=(a, b)):
            return logical_and(found[a], found[b])
        case Call(op="div" | "neg", args=(a, *_)):
            return found[a]
        case Select(cond=c, then=a, orelse=b):
            if not any(map(is_index_condition, conjuncts(c))):
                return logical_or(found[a], found[b])
            index, data = split_condition(c)
            first = logical_and(index, found[a])
            second = found[b] if data else logical_and(logical_not(index), found[b])
            return logical_or(first, second)
        case Cast(value=v) if v.dtype is BOOL:
            return split_condition(v)[0]
        case Cast(value=v):
            return found[v]
        case Apply(function=f, args=(a,)) if is_stop(f):
            return found[a]
    return FALSE if is_zero(e) else TRUE


def _inside(root: Expr, condition: Expr) -> Expr:
    """The value where the condition holds: choices that it decides are made, also in itself.

    What else switches a value to 0 reads as lifting leaves it, however it was written.
    """
    known = dict.fromkeys(conjuncts(condition))

    def rule(e: Expr) -> Expr | None:
        match e:
            case Select(cond=c, then=a, orelse=b) if is_zero(b):
                return guarded(_undecided(c, known), a)
            case Select(cond=c, then=a, orelse=b) if is_zero(a):
                return guarded(_undecided(logical_not(c), known), b)
            case Cast(value=v) if v.dtype is BOOL:
                return guarded(_undecided(v, known), const(1, e.dtype))
        return None

    for part in list(known):  # what holds is also true as it reads where the others hold
        known.update(dict.fromkeys(conjuncts(rewrite(part, rule))))
    return rewrite(root, rule)


def _undecided(c: Expr, known: dict[Expr, None]) -> Expr:
    parts = conjuncts(c)
    rest = [p for p in parts if p not in known]
    return c if len(rest) == len(parts) else logical_and(*rest)


def demand_stage(used: Sequence[Axis], starts: Sequence[Expr], e: Reduce, made: Compute) -> None:
    """Reading `made` at (used - starts) is the reduction `e` at every value of `used`.

    Raises:
        InternalError: this is not proved.
    """
    body = made.bodies[0]
    if not isinstance(body, Reduce) or len(body.axes) != len(e.axes):
        return  # folded to a constant: there is nothing left to read
    place: dict[Expr, Expr] = {}
    for own, a, start in zip(made.axes, used, starts, strict=True):
        place[own] = sub(a, start)
    inside = [substitute(axis_conditions(own), place) for own in made.axes]
    mapping = fresh_axes(body.axes, place)
    loops = [mapping[a] for a in body.axes]
    values: dict[Expr, Expr] = dict(zip(e.axes, loops, strict=True))
    axes = tuple([a for a in loops if isinstance(a, Axis)])
    residual = substitute(body.condition, mapping)
    plan = Piece(logical_and(*inside), axes, values, residual)
    demand(Elimination(tuple(used), e.axes, e.condition, Solution((plan,), True)))
