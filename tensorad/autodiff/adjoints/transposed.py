"""A read in a formula as a contribution to the adjoint of what it reads."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.autodiff.adjoints.adjoint import Adjoint, Contribution
from tensorad.autodiff.adjoints.switched import product, switched_on
from tensorad.autodiff.local.linear import Term, any_of
from tensorad.autodiff.local.scans import Head as ScanHead
from tensorad.autodiff.local.views import view
from tensorad.ir.analysis.finite import may_be_infinite
from tensorad.ir.expr import TRUE, Axis, Expr, Reduce, cast, logical_and
from tensorad.ir.order import AXIS, READ, REDUCE, occurs
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import substitute


def contribution(op: Compute, adjoint: Adjoint, term: Term) -> Contribution:
    """The adjoint of a formula times the coefficient of one read in it."""
    coefficient = term.coefficient

    def weight(batch: Sequence[Expr]) -> Expr:
        return product(adjoint, (*batch, *op.axes), coefficient, term.switch)

    def switch(batch: Sequence[Expr]) -> Expr:
        return switched_on(adjoint, (*batch, *op.axes), term.switch)

    axes = (*op.axes, *term.axes)
    summed = term.axes or not _covers(term.read.indices, op.axes)
    guard = logical_and(adjoint.support_at(op.axes), term.guard) if summed else term.guard
    kinds = adjoint.body.kinds | coefficient.kinds
    where = (axes, term.condition, term.read.indices)
    return Contribution(*where, weight, guard, kinds=kinds, switch=switch)


def given(adjoint: Adjoint, own: tuple[Axis, ...], guard: Expr = TRUE) -> Contribution:
    """An adjoint at all elements, over axes of a tensor."""

    def weight(batch: Sequence[Expr]) -> Expr:
        return adjoint.at((*batch, *own))

    def switch(batch: Sequence[Expr]) -> Expr:
        return switched_on(adjoint, (*batch, *own))

    return Contribution(own, TRUE, own, weight, guard, switch=switch)


def may_pass_on(t: Tensor) -> bool:
    """Whether what a tensor's adjoint receives can go straight on: it is a formula or a sum."""
    if not isinstance(t.op, Compute):
        return False
    viewed = view(t.op)
    assert isinstance(viewed, Compute), "a compute is viewed as one"
    body = viewed.bodies[t.index]
    return not isinstance(body, Reduce) or body.combiner.is_sum


def passed_on(c: Contribution, op: Compute, t: Tensor, term: Term) -> Contribution:
    """What reaches a read of t's formula of one contribution to t's adjoint, which is not kept.

    At each point of the contribution, and of the term's sum, for the element of t it goes to.
    """
    axes = (*c.axes, *term.axes)
    here: dict[Expr, Expr] = dict(zip(op.axes, c.indices, strict=True))
    coefficient = substitute(term.coefficient, here)
    own = substitute(term.switch, here)

    def weight(batch: Sequence[Expr]) -> Expr:
        adjoint = Adjoint(c.axes, cast(c.weight(batch), t.dtype))
        return product(adjoint, c.axes, coefficient, switch(batch))

    def switch(batch: Sequence[Expr]) -> Expr:
        return logical_and(c.switch(batch), own)

    condition = logical_and(c.condition, substitute(term.condition, here))
    guard = logical_and(c.guard, substitute(term.guard, here))
    indices = tuple([substitute(i, here) for i in term.read.indices])
    return Contribution(axes, condition, indices, weight, guard, switch=switch)


def received(
    t: Term,
    axes: tuple[Axis, ...],
    condition: Expr,
    adjoint: Adjoint,
    place: Sequence[Expr],
    guard: Expr = TRUE,
) -> Contribution:
    """The adjoint at (batch, place) times the coefficient of a read."""

    def weight(batch: Sequence[Expr]) -> Expr:
        return product(adjoint, (*batch, *place), t.coefficient, t.switch)

    def switch(batch: Sequence[Expr]) -> Expr:
        return switched_on(adjoint, (*batch, *place), t.switch)

    whole = logical_and(guard, t.guard)
    return Contribution(axes, condition, t.read.indices, weight, whole, switch=switch)


def whole_contribution(op: Compute, term: Term, heads: Sequence[Adjoint]) -> Contribution:
    """A term whose coefficient is the whole adjoint of its read, made of several heads."""
    axes = (*op.axes, *term.axes)
    where = (axes, term.condition, term.read.indices)
    direct = whole_contribution(op, term.at_winner, heads) if term.at_winner else None

    def switch(batch: Sequence[Expr]) -> Expr:
        return logical_and(any_of([switched_on(h, op.axes) for h in heads]), term.switch)

    guard = term.guard
    if may_be_infinite(term.coefficient):
        guard = logical_and(guard, switch(()))
    return Contribution(*where, lambda _: term.coefficient, guard, direct, switch=switch)


def pointwise(op: Compute, terms: Sequence[Term]) -> bool:
    """Whether every term uses each point of the output for one element of its tensor."""
    return all(
        not t.axes and _covers(t.read.indices, op.axes) and t.condition is TRUE for t in terms
    )


def sizes_with_points(op: Compute) -> Expr:
    """The sizes for which the loops of a reduction have points, as far as they alone decide."""
    axes = {a: None for b in op.bodies if isinstance(b, Reduce) for a in b.axes}
    bounds = [a.lower < a.upper for a in axes if a.extent is None]
    return logical_and(*[b for b in bounds if not occurs(AXIS | READ | REDUCE, b)])


def _covers(indices: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    found = [i for i in indices if isinstance(i, Axis)]
    return len({*found}) == len(found) == len(indices) and all(a in set(found) for a in axes)


def is_formula(t: Tensor) -> bool:
    """Whether a tensor is computed without loops for each element."""
    return isinstance(t.op, Compute) and not occurs(REDUCE, *t.op.bodies)


def may_have_elements(t: Tensor) -> bool:
    """Whether no extent is known to be 0."""
    return not any(isinstance(n, int) and n == 0 for n in t.shape)


def behind(lead: tuple[Axis, ...], adjoint: Adjoint) -> ScanHead:
    """The adjoint at (lead, indices)."""
    return lambda indices: adjoint.at((*lead, *indices))
