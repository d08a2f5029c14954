"""The adjoints of what a fold reads, from the adjoints of all its components together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tensorad.autodiff.adjoints.adjoint import Adjoint, store
from tensorad.autodiff.adjoints.inlining import Uses, may_inline
from tensorad.autodiff.local.combiners import reduce_terms
from tensorad.autodiff.local.folds import fold_adjoint_terms, fold_outputs
from tensorad.autodiff.local.linear import Term, times
from tensorad.autodiff.local.rescaled import Rescaled, rescaled, sum_terms
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Call,
    Const,
    Expr,
    Read,
    Reduce,
    cast,
    const,
    mul,
    read,
    sub,
)
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import rewrite, substitute
from tensorad.simplify.formula.zero_test import vanishes

Wanted = Callable[[Read], bool]
_WITHOUT: Final = {"eq": FALSE, "ne": TRUE, "gt": TRUE, "ge": TRUE, "lt": FALSE, "le": FALSE}
"""What a comparison of a positive number with 0 says."""


def adjoint_terms(
    op: Compute, e: Reduce, heads: Mapping[int, Adjoint], wanted: Wanted
) -> list[Term]:
    """Terms whose coefficients are the whole adjoints of their reads: of one sum, or by a sweep.

    Args:
        e: any component of the fold.
        heads: component -> the adjoint of its output.
    """
    form, numbers = rescaled(e.combiner), fold_outputs(op, e)
    if (
        form is None
        or not {form.shift, *form.scales}.issuperset(heads)
        or form.shift not in numbers
    ):
        return fold_adjoint_terms(op, e, {c: a.at for c, a in heads.items()}, wanted)
    return _rescaled_terms(op, form, numbers, heads, wanted)


def _rescaled_terms(
    op: Compute,
    form: Rescaled,
    numbers: Mapping[int, int],
    heads: Mapping[int, Adjoint],
    wanted: Wanted,
) -> list[Term]:
    """The terms without a sweep.

    A shift m with head g and sums s_c with heads h_c: whatever moves m is worth
    g - sum(rate_c * h_c * s_c). Unless that is 0 (as a rational function), it goes to the element
    that is the shift. Each element's share of the sums is left.
    """
    made = outputs(op)
    values = {c: read(made[numbers[c]], op.axes) for c in (form.shift, *heads)}
    cancels = _cancels(op, form, numbers, heads, values)
    stored = {c: _stored(a, f"d{made[numbers[c]].name}") for c, a in heads.items()}
    terms: list[Term] = []
    for c, scale in form.scales.items():
        e = op.bodies[numbers[c]] if c in heads else None
        if isinstance(e, Reduce):
            why = "shifting all elements only scales what is summed"
            note(Decision((made[numbers[c]],), "scaled sum", why, part=e))
            head, last = stored[c].at(op.axes), values[form.shift]
            terms += sum_terms(e, c, scale, form.shift, last, wanted, head)
    own = [] if cancels else reduce_terms(op, numbers[form.shift], wanted)
    if own:
        at = {c: a.at(op.axes) for c, a in stored.items()}
        rest = _remainder(op, form, numbers, at, values)
        terms += [_times(rest, t) for t in own]
    return terms


def _stored(head: Adjoint, name: str) -> Adjoint:
    """The head, read from memory if it is more than a formula for each of its uses."""
    if may_inline(head.body, Uses(2, False)):
        return head
    return Adjoint(head.axes, head.body, store(head, name))


def _times(head: Expr, t: Term) -> Term:
    direct = t.at_winner and _times(head, t.at_winner)
    coefficient = times(cast(head, t.coefficient.dtype), t.coefficient)
    return replace(t, coefficient=coefficient, at_winner=direct)


def _cancels(
    op: Compute,
    form: Rescaled,
    numbers: Mapping[int, int],
    heads: Mapping[int, Adjoint],
    values: Mapping[int, Expr],
) -> bool:
    """Whether moving the shift alone changes nothing: the remainder is 0."""
    formulas = {c: _formula(a, op) for c, a in heads.items()}
    total = _remainder(op, form, numbers, formulas, values)
    positive: dict[Expr, None] = {}
    for c in heads:
        e = op.bodies[numbers[c]]
        if c in form.scales and isinstance(e, Reduce) and _is_positive(e.sources[c]):
            positive[values[c]] = None
    return vanishes(op.axes, _with_positive(total, positive), {})


def _remainder(
    op: Compute,
    form: Rescaled,
    numbers: Mapping[int, int],
    heads: Mapping[int, Expr],
    values: Mapping[int, Expr],
) -> Expr:
    """g - sum(rate_c * h_c * s_c)."""
    dtype = op.bodies[numbers[form.shift]].dtype
    total = heads.get(form.shift, const(0, dtype))
    for c, scale in form.scales.items():
        if c in heads:
            part = cast(mul(heads[c], values[c]), dtype)
            total = sub(total, mul(const(float(scale.rate), dtype), part))
    return total


def _formula(adjoint: Adjoint, op: Compute) -> Expr:
    """The adjoint at the fold's axes as a formula, also if it is stored."""
    axes, body = adjoint.formula()
    return substitute(body, dict(zip(axes, op.axes, strict=True)))


def _is_positive(e: Expr) -> bool:
    return isinstance(e, Const) and e.value > 0


def _with_positive(e: Expr, values: Mapping[Expr, None]) -> Expr:
    """A formula wherever some values are positive: sums of positive terms, the largest as it is.

    Without elements such a sum is 0, but then there is nothing to differentiate by.
    """

    def decided(e: Expr) -> Expr | None:
        match e:
            case Call(op=op, args=(x, Const(value=0))) if op in _WITHOUT and x in values:
                return _WITHOUT[op]
        return None

    return rewrite(e, decided)
