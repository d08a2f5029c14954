"""Products of an adjoint and a partial derivative: what a guard has switched off stays 0.

`select(s[i] > 0, s[i], 0)` gives s an adjoint that is 0 where s is not positive, and the partial
derivatives of s may be infinite there. The guard then is the product's, as in forward mode; it
is not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.autodiff.adjoints.adjoint import Adjoint, Target, store
from tensorad.autodiff.adjoints.contributions import Contribution, everywhere
from tensorad.autodiff.adjoints.inlining import Uses
from tensorad.autodiff.local.linear import any_of, times
from tensorad.ir.analysis.finite import may_be_infinite
from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Cast,
    Expr,
    Select,
    add,
    cast,
    const,
    div,
    logical_and,
    logical_not,
    logical_or,
    mul,
    neg,
    read,
    select,
    sub,
)
from tensorad.ir.order import REDUCE, occurs, outside_reductions
from tensorad.ir.tensor import Placeholder, Shape, Tensor, dim_expr, outputs
from tensorad.ir.visit import conjuncts, substitute, uses_any, with_fresh_reductions
from tensorad.process import memo
from tensorad.simplify.zeros.lift import guarded, is_zero

_known: WeakKeyDictionary[Target, tuple[tuple[Axis, ...], Expr]] = memo(WeakKeyDictionary())


def product(
    adjoint: Adjoint, indices: Sequence[Expr], coefficient: Expr, switch: Expr = TRUE
) -> Expr:
    """The adjoint at (batch indices, tensor indices) times a partial derivative.

    Args:
        switch: where the selects around the partial derivative let it through.
    """
    if not may_be_infinite(coefficient):
        return times(cast(adjoint.at(indices), coefficient.dtype), coefficient)
    condition, value = _at(adjoint, indices)
    whole = _both(condition, switch)
    return guarded(whole, times(cast(value, coefficient.dtype), coefficient))


def switched_on(adjoint: Adjoint, indices: Sequence[Expr], switch: Expr = TRUE) -> Expr:
    """Where the data let an adjoint at (batch indices, tensor indices) be other than 0, and a
    partial derivative that it is multiplied by.
    """
    return _both(_at(adjoint, indices)[0], switch)


def _at(adjoint: Adjoint, indices: Sequence[Expr]) -> tuple[Expr, Expr]:
    """(where the adjoint is switched on, its value there)."""
    axes, body = adjoint.formula()
    condition, value = split(body)
    own, reached = (axes, TRUE) if adjoint.sum_of is None else collected(adjoint.sum_of)
    here: Mapping[Expr, Expr] = dict(zip(axes, indices, strict=True))
    around = substitute(condition, here)
    parts = substitute(reached, dict(zip(own, indices, strict=True)))
    whole = _both(around, parts)
    if condition is TRUE or adjoint.tensor is not None:
        return whole, adjoint.at(indices)
    return whole, Adjoint(axes, value).at(indices)


def collected(target: Target) -> tuple[tuple[Axis, ...], Expr]:
    """(axes, where a contribution reaches an element over them that data have not switched off).

    True if no data decide. Whether a sum has any such contribution is counted.
    """
    known = _known.get(target)
    if known is None:
        axes = compute_axes((*target.batch, *target.of.shape))
        data = any(depends_on_data(condition) for _, condition in _conditions(target, axes))
        known = _known[target] = axes, _reaching(target, axes) if data else TRUE
    return known


def reached(target: Target) -> tuple[tuple[Axis, ...], Expr]:
    """As `collected`; where indices alone decide, their condition."""
    axes = compute_axes((*target.batch, *target.of.shape))
    return axes, _reaching(target, axes)


def number(target: Target, contributions: Sequence[Contribution] | None = None) -> Tensor | None:
    """How many contributions reach each element, guards being on; None if none ever does."""
    name = f"d{target.of.name}.reached"
    of = outputs(Placeholder(name, target.of.shape, target.of.dtype))[0]
    parts = target.contributions if contributions is None else contributions
    counted = replace(target, of=of, contributions=[_counting(c, of) for c in parts])
    found = counted.finish(name, True, Uses(0, False))
    return None if found is None else store(found, name)


def _conditions(target: Target, axes: Sequence[Axis]) -> list[tuple[Contribution, Expr]]:
    lead = axes[: len(target.batch)]
    return [(c, _both(c.guard, c.switch(lead))) for c in target.contributions]


def _reaching(target: Target, axes: tuple[Axis, ...]) -> Expr:
    own = axes[len(target.batch) :]
    counted: list[Contribution] = []
    found: list[Expr] = []
    for c, condition in _conditions(target, axes):
        direct = _without_sum(c, condition, target.of.shape, own)
        if direct is None:
            counted.append(c)
        else:
            found.append(direct)
    if counted and TRUE not in dict.fromkeys(found):
        count = number(target, counted)
        found += [] if count is None else [read(count, axes) > 0]
    return any_of(found)


def _counting(c: Contribution, of: Tensor) -> Contribution:
    """1 for each point at which something is contributed."""

    def weight(batch: Sequence[Expr]) -> Expr:
        return guarded(c.switch(batch), const(1, of.dtype))

    return replace(c, weight=weight, sparse=None, kinds=-1, switch=everywhere)


def _without_sum(
    c: Contribution, condition: Expr, shape: Shape, own: Sequence[Axis]
) -> Expr | None:
    """Where a contribution reaches an element, if that is a condition on the element alone.

    A sum over further axes counts as one of some terms.
    """
    axes, read = dict.fromkeys(c.axes), {i: None for i in c.indices if isinstance(i, Axis)}
    if c.condition is not TRUE or not len(read) == len(c.indices):
        return None
    for a, n in zip(read, shape, strict=True):
        if not (a in axes and a.lower is ZERO and a.step is ONE and a.upper is dim_expr(n)):
            return None
    summed = [a for a in axes if a not in read]
    if uses_any(condition, summed) or any(uses_any(a.upper, read) for a in summed):
        return None
    return substitute(with_fresh_reductions(condition), dict(zip(c.indices, own, strict=True)))


def split(root: Expr) -> tuple[Expr, Expr]:
    """root -> (condition, value) with root = value where the condition holds, otherwise 0.

    The condition is that of selects on data around the whole value, or around all its terms;
    those in the second factor of a product belong to a partial derivative and say nothing.
    """
    found: dict[Expr, tuple[Expr, Expr]] = {}
    for e in outside_reductions((root,), _operands):
        found[e] = _split_node(e, found)
    condition, value = found[root]
    plain = depends_on_data(condition) and not occurs(REDUCE, condition)
    return (condition, value) if plain else (TRUE, root)


def _operands(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Call(op="mul" | "div" | "neg", args=(a, *_)):
            return (a,)
        case Call(op="add" | "sub"):
            return e.args
        case Select(then=a, orelse=b):
            return (a,) if is_zero(b) else (b,) if is_zero(a) else ()
        case Cast(value=v) if v.dtype.is_float:
            return (v,)
    return ()


def _split_node(e: Expr, found: Mapping[Expr, tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    parts = [found[c] for c in _operands(e)]
    if not parts or (all(p is TRUE for p, _ in parts) and not isinstance(e, Select)):
        return TRUE, e
    p, x = parts[0]
    match e:
        case Select(cond=c, orelse=b):
            return _both(c if is_zero(b) else logical_not(c), p), x
        case Call(op="mul", args=(_, b)):
            return p, mul(x, b)
        case Call(op="div", args=(_, b)):
            return p, div(x, b)
        case Call(op="neg"):
            return p, neg(x)
        case Cast():
            return p, cast(x, e.dtype)
    q, y = parts[1]
    if p is q and isinstance(e, Call):
        return p, add(x, y) if e.op == "add" else sub(x, y)
    return logical_or(p, q), e


def _both(first: Expr, second: Expr) -> Expr:
    """The second, less what the first says, is evaluated where the first holds."""
    said = dict.fromkeys(conjuncts(first))
    second = logical_and(*[p for p in conjuncts(second) if p not in said])
    if depends_on_data(second) and second is not TRUE:
        return select(first, second, FALSE)
    return logical_and(first, second)
