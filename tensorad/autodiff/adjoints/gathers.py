"""Contributions as sums over the points that reach each element of an adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.autodiff.adjoints.contributions import Contribution, gather_is_cheaper, merged, sum_of
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Select,
    Size,
    add,
    call,
    cast,
    logical_and,
    reduce_expr,
)
from tensorad.ir.order import CONDITION, INDEX, INDICATOR, REDUCE, SELECT, occurs
from tensorad.ir.tensor import Shape, dim_expr
from tensorad.ir.visit import substitute
from tensorad.simplify.certify.certificate import is_demanded
from tensorad.simplify.domain.memoised import demand_same
from tensorad.simplify.index.algebra import simplify_indices
from tensorad.simplify.zeros.lift import guarded, is_static
from tensorad.simplify.zeros.passes import drop_implied_guards, is_solved, is_told, nonzero_body
from tensorad.simplify.zeros.repeated_terms import without_repeats


def best_gather(
    c: Contribution, sparse: Sequence[Contribution], axes: tuple[Axis, ...], n_batch: int
) -> Expr | None:
    """The contribution gathered; None if it cannot be, or scattering visits fewer points.

    Args:
        sparse: the same contribution over fewer points, if it belongs to a selection.
        axes: of the adjoint; the first `n_batch` lead the head.
    """
    if not sparse:
        return gather(c, axes, n_batch)
    thin = gather_all(sparse, axes, n_batch)
    if thin is not None:
        return thin  # it asks for each element once, not for each operand that reads it
    whole = gather(c, axes, n_batch)
    if whole is not None and not occurs(REDUCE, whole):
        return whole
    compared = [_compared(s, axes[n_batch:]) for s in sparse]
    pointwise = gather_all(compared, axes, n_batch)
    if pointwise is not None and not occurs(REDUCE, pointwise):
        cheap = whole is not None and gather_is_cheaper(whole, axes, [], n_batch)
        return whole if cheap else pointwise
    if whole is None or not gather_is_cheaper(whole, axes, sparse, n_batch):
        return None
    return whole


def gather(c: Contribution, axes: tuple[Axis, ...], n_batch: int) -> Expr | None:
    """The contribution as a sum over the points that reach each element of the adjoint.

    None if the index map cannot be inverted exactly: then it has to be scattered.
    """
    own, value = axes[n_batch:], guarded(c.guard, c.weight(axes[:n_batch]))
    direct = None if is_told() else _at_own_indices(c, own, value)
    if direct is None:
        return _solved(c, axes, own, value)
    if is_demanded():
        solved = _solved(c, axes, own, value)
        demand_same(axes, direct, value if solved is None else solved)
    return direct


def _at_own_indices(c: Contribution, own: Sequence[Axis], value: Expr) -> Expr | None:
    """Y[i, j] reads X[i, j] or X[j, i], at all points: there is nothing to solve.

    Ensures: the formula that `_solved` comes to.
    """
    if _may_vanish(value.kinds):
        return None
    at: dict[Expr, Expr] = dict(zip(c.indices, own, strict=True))
    if c.condition is not TRUE or not len(at) == len(own) == len(c.axes):
        return None
    if not all(a in at and _same_values(a, at[a]) for a in c.axes):
        return None
    body = substitute(value, at)
    return simplify_indices(own, body) if occurs(INDEX, body) else body


def _may_vanish(kinds: int) -> bool:
    """Whether conditions on indices may decide where a value is zero, or a sum is inside."""
    return bool(kinds & REDUCE or (kinds & CONDITION and kinds & (SELECT | INDICATOR)))


def in_place(c: Contribution, lead: Sequence[Axis], shape: Shape) -> Expr | None:
    """What `gather` comes to, over the contribution's own axes: they are all its indices, and
    take each element of a tensor of the shape once.

    None if that is not simple: then it has to be gathered.
    """
    if c.sparse is not None or c.condition is not TRUE or len(c.indices) != len(c.axes):
        return None
    guard = 0 if c.guard is TRUE else c.guard.kinds | SELECT
    if is_told() or _may_vanish(c.kinds | guard):
        return None
    for a, i, n in zip(c.axes, c.indices, shape, strict=True):
        if i is not a or a.upper is not dim_expr(n) or not _same_values(a, a):
            return None
    value = guarded(c.guard, c.weight(lead))
    return simplify_indices(c.axes, value) if occurs(INDEX, value) else value


def _same_values(a: Axis, b: Expr) -> bool:
    """Whether two axes take the same values 0, 1, ..., more than one as far as one can see."""
    if not isinstance(b, Axis) or a.upper is not b.upper or a.extent in (0, 1):
        return False
    plain = isinstance(a.upper, (Const, Size))
    return plain and a.lower is b.lower is ZERO and a.step is b.step is ONE


def _solved(
    c: Contribution, axes: tuple[Axis, ...], own: Sequence[Axis], value: Expr
) -> Expr | None:
    """The value summed over the points that an equation per index leaves."""
    places = [(x, i) for x, i in zip(own, c.indices, strict=True) if i is not x]
    if not all(is_static(i) for _, i in places):
        return None
    hits = logical_and(*[call("eq", x, i) for x, i in places])
    there: dict[Expr, Expr] = {i: x for x, i in places if isinstance(i, (Call, Select))}
    value = substitute(value, there)
    combiner = sum_combiner(value.dtype)
    everywhere = reduce_expr(combiner, (value,), c.axes, logical_and(hits, c.condition))
    solved = nonzero_body(axes, everywhere)
    body = without_repeats(solved)
    if body is not solved:
        body = drop_implied_guards(axes, body)
    return body if is_solved(body) else None


def gather_all(parts: Sequence[Contribution], axes: tuple[Axis, ...], n_batch: int) -> Expr | None:
    """The sum of the contributions, each gathered; None if one cannot be."""
    total: Expr | None = None
    for members in merged(parts):
        part = gather(sum_of(members), axes, n_batch)
        if part is None:
            return None
        total = part if total is None else add(total, cast(part, total.dtype))
    return total


def _compared(c: Contribution, own: Sequence[Axis]) -> Contribution:
    """The contribution where each element asks whether an index found at run time is its own."""
    pairs = list(zip(own, c.indices, strict=True))
    hits = [call("eq", x, i) for x, i in pairs if not is_static(i)]
    indices = tuple([i if is_static(i) else x for x, i in pairs])
    return replace(c, indices=indices, guard=logical_and(c.guard, *hits))
