"""Zero elimination: the passes that make a body visit only its nonzero points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Reduce,
    Select,
    const,
    logical_and,
    logical_or,
    neg,
    reduce_expr,
    select,
    summed,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.reference.forms import BODY
from tensorad.ir.visit import (
    conjuncts,
    outside_reductions,
    reads,
    substitute_all,
    uses_any,
    with_fresh_reductions,
)
from tensorad.passes import Pass, bypasses_memo, run_passes
from tensorad.simplify.certify.certificate import is_demanded, is_read_back
from tensorad.simplify.domain.memoised import BodyMemo
from tensorad.simplify.index.algebra import simplify_indices
from tensorad.simplify.index.linear import linear_form
from tensorad.simplify.readback.compare import demand_equal
from tensorad.simplify.zeros.certified_steps import demand_lifting
from tensorad.simplify.zeros.eliminate import eliminate, solve_sum
from tensorad.simplify.zeros.lift import (
    is_index_condition,
    is_static,
    lift,
    rewrite_outside,
    summands,
    switches,
)


def split_sums(axes: Sequence[Axis], body: Expr) -> Expr:
    """sum(a + b) -> sum(a) + sum(b), where a and b are nonzero under different conditions."""

    def split(e: Expr) -> Expr | None:
        if not isinstance(e, Reduce) or not e.combiner.is_sum:
            return None
        terms = summands(e.sources[0])
        if len(terms) == 1 or len(dict.fromkeys(lift(t)[0] for _, t in terms)) == 1:
            return None
        sources = [t if sign > 0 else neg(t) for sign, t in terms]
        sums = [reduce_expr(e.combiner, (s,), e.axes, e.condition) for s in sources]
        return summed(map(with_fresh_reductions, sums))

    return rewrite_outside(body, split)


def lift_nonzeroness(axes: Sequence[Axis], body: Expr) -> Expr:
    """sum(select(c, v, 0) * w) -> sum(v * w where c); select(c, v, 0) * w -> select(c, v*w, 0).

    Only conditions on indices move; other combiners do not skip a 0.
    """

    def lift_reduce(e: Expr) -> Expr | None:
        if not isinstance(e, Reduce) or not e.combiner.is_sum:
            return None
        condition, value = lift(e.sources[0])
        if condition is TRUE:
            return None
        if is_demanded():
            demand_lifting((*axes, *e.axes), e.condition, e.sources[0], condition, value)
        return reduce_expr(e.combiner, (value,), e.axes, logical_and(e.condition, condition))

    body = rewrite_outside(body, lift_reduce)
    if occurs(REDUCE, body):
        return body
    condition, value = lift(body)
    if condition is TRUE:
        return body
    if is_demanded():
        demand_lifting(axes, TRUE, body, condition, value)
    return select(condition, value, const(0, body.dtype))


def solve_domains(axes: Sequence[Axis], body: Expr) -> Expr:
    """sum over a domain with conditions -> sums over its points only.

    Other folds keep their axes and their order; their bounds become tight.
    """

    def solve(e: Expr) -> Expr | None:
        if isinstance(e, Reduce) and e.combiner.is_sum and any(a.extent == 0 for a in e.axes):
            return const(0, e.dtype)
        if not isinstance(e, Reduce) or (e.condition is TRUE and e.axes):
            return None
        return solve_sum(axes, e) if e.combiner.is_sum else _tighten(axes, e)

    return rewrite_outside(body, solve)


def _tighten(axes: Sequence[Axis], e: Reduce) -> Expr | None:
    """A fold over the points of its domain, in the same order; None if axes would be lost."""
    pieces = eliminate(axes, e.axes, e.condition).pieces
    if len(pieces) != 1:
        return None
    (piece,) = pieces
    if len(piece.axes) != len(e.axes):
        return None
    moved = zip(e.axes, piece.axes, strict=True)
    if not all(_is_shift(piece.values[a], new, piece.axes[n:]) for n, (a, new) in enumerate(moved)):
        return None
    sources = substitute_all(e.sources, piece.values)
    condition = logical_and(piece.guard, piece.residual)
    return reduce_expr(e.combiner, sources, piece.axes, condition, e.index)


def _is_shift(value: Expr, loop: Axis, inner: Sequence[Axis]) -> bool:
    """Whether the value grows with its loop, given the loops outside it."""
    form = linear_form(value)
    if form.terms.get(loop) != 1:
        return False
    form.drop(loop)
    return not uses_any(form.to_expr(), inner)


def drop_implied_guards(axes: Sequence[Axis], body: Expr) -> Expr:
    """select(c, a, b) -> select(c', a, b), c' without what the bounds of the axes imply."""

    def drop(e: Expr) -> Expr | None:
        if not isinstance(e, Select) or not is_index_condition(e.cond):
            return None
        pieces = eliminate(axes, (), e.cond).pieces
        guard = logical_or(*[logical_and(p.guard, p.residual) for p in pieces])
        return select(guard, e.then, e.orelse)

    return rewrite_outside(body, drop)


BodyPass = Pass[Sequence[Axis], Expr]
"""Over the formula of an element, given its axes."""
SOLVE_DOMAINS: Final[BodyPass] = Pass(
    "solve_domains",
    solve_domains,
    "after lifting, which makes the conditions that it solves",
    deciding=True,
)
DROP_IMPLIED_GUARDS: Final[BodyPass] = Pass(
    "drop_implied_guards", drop_implied_guards, "after solving, which leaves guards of pieces"
)
SIMPLIFY_INDICES: Final[BodyPass] = Pass(
    "simplify_indices", simplify_indices, "last: indices are what the others put in"
)
NONZERO_PASSES: Final[tuple[BodyPass, ...]] = (
    Pass("split_sums", split_sums, "before lifting: an `or` of conditions solves nothing"),
    Pass("lift_nonzeroness", lift_nonzeroness, "before solving: it makes the conditions"),
    SOLVE_DOMAINS,
    DROP_IMPLIED_GUARDS,
    SIMPLIFY_INDICES,
)


_memo = BodyMemo()


def nonzero_body(axes: Sequence[Axis], body: Expr) -> Expr:
    """The same values, visiting only points that can be nonzero.

    Requires: the body's free axes are `axes`.
    Ensures: equal values for finite data (a product with a structural zero is dropped, so
        0 * inf no longer shows).
    """
    if is_told():
        return _run(axes, body)
    return _memo.get(axes, body, _run)


def is_told() -> bool:
    """Whether somebody wants to see the passes or their decisions: then nothing is remembered."""
    return bypasses_memo() or is_listening()


def _run(axes: Sequence[Axis], body: Expr) -> Expr:
    found = run_passes(NONZERO_PASSES, axes, body, BODY)
    if is_read_back():
        demand_equal("zeros left out", axes, body, found)
    return found


def is_solved(body: Expr) -> bool:
    """Whether no reduction still tests its own axes by axes, sizes and constant tables alone.

    A constant table that switches the summed value to 0 is tested like data.
    """
    for e in outside_reductions((body,)) if occurs(REDUCE, body) else ():
        if isinstance(e, Reduce):
            chosen = [s for source in e.sources for s in switches(source)]
            tests = [e.condition, *[s.cond for s in chosen if reads(s.cond)]]
            for part in [p for t in tests for p in conjuncts(t)]:
                if is_static(part) and uses_any(part, e.axes):
                    return False
    return True
