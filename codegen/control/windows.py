"""Formulas that change a tensor in a part of its elements, as updates of this part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tensorad.ir.combiner import set_combiner
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    Axis,
    Call,
    Expr,
    LocalSize,
    Read,
    Select,
    add,
    axis,
    logical_and,
    logical_not,
    logical_or,
    read,
    select,
    sub,
)
from tensorad.ir.order import READ, REDUCE, occurs, outside_reductions
from tensorad.ir.tensor import Compute, Scatter, Tensor, Update, outputs
from tensorad.ir.visit import copy_bodies, free_leaves, reads, rewrite, substitute
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.simplify.zeros.lift import guarded, lift, split_condition

Changed = tuple[Expr, Expr]
"""Where a formula may differ from the old element, and what it is there."""
_MOST_PIECES: Final = 8
_ROUNDS: Final = 8
"""Formulas that read one another which are looked through."""


def updates_of(
    t: Tensor, old: Tensor, uses: Mapping[Tensor, int], *, before: bool
) -> Tensor | None:
    """`old` after updates of the elements in which `t` may differ from it; None: perhaps all.

    Args:
        uses: how many operations read each tensor of those that are made here.
        before: whether formulas that read `old` at other elements than they are for are
            computed before elements change, in tensors of their own.
    """
    op = t.op
    if not isinstance(op, Compute) or len(op.bodies) > 1 or t.shape != old.shape or not op.axes:
        return None
    own = read(old, op.axes)
    where, value = _changed(_opened(op.bodies[0], own if before else None, uses), own)
    if where is TRUE:
        return None
    solution = eliminate((), op.axes, where)
    if not solution.exact or not 0 < len(solution.pieces) <= _MOST_PIECES:
        return None
    made = old
    for piece in solution.pieces:
        step = _update(op, made, piece, value)
        if step is None:
            return None
        made = step
    return made


def _opened(body: Expr, own: Read | None, uses: Mapping[Tensor, int]) -> Expr:
    """The formula with those in it that nothing else reads, and that it reads at one place; but not
    those that read the tensor of `own` elsewhere.
    """
    for _ in range(_ROUNDS):
        places: dict[Tensor, dict[tuple[Expr, ...], None]] = {}
        for r in reads(body):
            places.setdefault(r.tensor, {})[r.indices] = None
        inner = {t: next(iter(at)) for t, at in places.items() if uses.get(t) == 1 == len(at)}
        found: dict[Tensor, Expr] = {}
        for t, at in inner.items():
            op = t.op
            if isinstance(op, Compute) and len(op.bodies) == 1 and not occurs(REDUCE, *op.bodies):
                formula = substitute(op.bodies[0], dict(zip(op.axes, at, strict=True)))
                if own is None or all(r is own for r in reads(formula) if r.tensor is own.tensor):
                    found[t] = formula
        if not found:
            break
        body = rewrite(body, partial(_formula, found), {}, READ)
    return body


def _formula(opened: Mapping[Tensor, Expr], e: Expr) -> Expr | None:
    return opened.get(e.tensor) if isinstance(e, Read) else None


def _changed(root: Expr, old: Expr) -> Changed:
    """Where the formula may differ from `old`; only conditions on indices are told."""
    known: dict[Expr, Changed] = {}
    for e in outside_reductions((root,), _operands):
        known[e] = (FALSE, e) if e is old else _changed_node(e, known, old)
    return known[root]


def _operands(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, Select):
        return (e.then, e.orelse)
    return e.args if isinstance(e, Call) and e.op in ("add", "sub") else ()


def _changed_node(e: Expr, known: Mapping[Expr, Changed], old: Expr) -> Changed:
    match e:
        case Select(then=a, orelse=b):
            return _changed_select(e, known[a], known[b], old)
        case Call(op="add", args=(a, b)):
            if known[a][0] is FALSE:
                where, term = lift(b)
                return where, add(a, term)
            if known[b][0] is FALSE:
                where, term = lift(a)
                return where, add(term, b)
            for own, other in ((a, b), (b, a)):
                if known[own][0] is not TRUE:
                    return logical_or(known[own][0], lift(other)[0]), e
        case Call(op="sub", args=(a, b)) if known[a][0] is not TRUE:
            where, term = lift(b)
            if known[a][0] is FALSE:
                return where, sub(a, term)
            return logical_or(known[a][0], where), e
    return TRUE, e


def _changed_select(e: Select, then: Changed, orelse: Changed, old: Expr) -> Changed:
    c = e.cond
    index, data = split_condition(c)
    (p, x), (q, y) = then, orelse
    if q is FALSE:
        for part in reversed(data):
            x = select(part, x, old)
        return logical_and(index, p), x
    if data:
        return TRUE, e  # x and y are only what it is where it may differ
    if p is FALSE:
        return logical_and(logical_not(c), q), y
    return logical_or(logical_and(c, p), logical_and(logical_not(c), q)), select(c, x, y)


def _update(op: Compute, old: Tensor, piece: Piece, value: Expr) -> Tensor | None:
    """`old` updated at the points of one piece; sums are made before, as a formula of their own."""
    there = tuple([piece.values[a] for a in op.axes])
    body = substitute(value, piece.values)
    condition = logical_and(piece.guard, piece.residual)
    axes = piece.axes
    if occurs(REDUCE, body):
        made = _own_formula(op, axes, guarded(condition, body))
        if made is None:
            return None
        body = read(made, tuple([sub(a, a.lower) for a in axes]))
    update = Update(there, body, condition)
    scatter = Scatter(
        op.name, op.shape, old.dtype, axes, (update,), set_combiner(old.dtype), old, op.source
    )
    return outputs(scatter)[0]


def staged(t: Tensor, old: Tensor) -> Tensor | None:
    """A scatter onto `old` whose values read other elements of it: they are computed before, in
    tensors of their own."""
    op = t.op
    if not isinstance(op, Scatter) or op.init is not old:
        return None
    updates = []
    for u in op.updates:
        if any(r.tensor is old for r in reads(u.value)):
            made = _own_formula(op, op.axes, guarded(u.condition, u.value))
            if made is None:
                return None
            u = replace(u, value=read(made, tuple([sub(a, a.lower) for a in op.axes])))
        updates.append(u)
    return outputs(replace(op, updates=tuple(updates)))[0]


def _own_formula(op: Compute | Scatter, axes: Sequence[Axis], body: Expr) -> Tensor | None:
    """The values over axes that begin at 0; None where only the run tells their extents."""
    extents = [sub(a.upper, a.lower) for a in axes]
    known = not any(isinstance(e, (LocalSize, Axis, Read)) for e in free_leaves(*extents))
    if not known or any(a.step is not ONE for a in axes):
        return None
    own = [axis(a.name, 0, n) for a, n in zip(axes, extents, strict=True)]
    moved: dict[Expr, Expr] = {a: add(a.lower, b) for a, b in zip(axes, own, strict=True)}
    new_axes, bodies = copy_bodies(tuple(own), (substitute(body, moved),))
    return outputs(Compute(op.name, new_axes, bodies, op.source))[0]
