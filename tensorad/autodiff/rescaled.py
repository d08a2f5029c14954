"""Folds of a shift and of sums that it scales: (largest, sum of exp(e - largest)).

Each step scales what was summed before to the new shift. Where the combiner's formula says so,
such a sum is sum(t * exp(a * (x - m))) with the last shift m, and differentiates as one: if its
head and that of the shift cancel, no step has to be walked backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tensorad.autodiff.adjoint import Adjoint, Uses, may_inline, store
from tensorad.autodiff.folds import fold_adjoint_terms, fold_outputs
from tensorad.autodiff.linear import Term, body_terms
from tensorad.autodiff.steps import jacobian_entries
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Call,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    call,
    cast,
    const,
    mul,
    param,
    read,
    select,
    sub,
)
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import free_leaves, rewrite, substitute
from tensorad.simplify.laurent import TooLong
from tensorad.simplify.normal import Interned, Normal
from tensorad.simplify.record import Decision, note
from tensorad.simplify.vanish import vanishes

_EXTREMA: Final = ("maximum", "minimum")
_WITHOUT: Final = {"eq": FALSE, "ne": TRUE, "gt": TRUE, "ge": TRUE, "lt": FALSE, "le": FALSE}
"""What a comparison of a positive number with 0 says."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What a summand is multiplied by: exp(rate * (own - last)) wherever that is finite.

    Attributes:
        own: stands for the summand's shift.
        last: stands for the fold's.
        value: the combiner's own formula for it.
        rate: a number.
    """

    own: Param
    last: Param
    value: Expr
    rate: Fraction


@dataclass(frozen=True, eq=False)
class Rescaled:
    """The component that is the shift, and the scales of the components that follow it."""

    shift: int
    scales: Mapping[int, Scale]


@lru_cache(maxsize=1024)
def rescaled(combiner: Combiner) -> Rescaled | None:
    """The fold's shift and the sums it scales, as far as its formula shows them."""
    for c, result in enumerate(combiner.results):
        if not _is_extremum(combiner, c, result):
            continue
        found = {d: _scale(combiner, c, d) for d in range(combiner.arity) if d != c}
        scales = {d: s for d, s in found.items() if s is not None}
        if scales:
            return Rescaled(c, scales)
    return None


def _is_extremum(combiner: Combiner, c: int, result: Expr) -> bool:
    """Whether a component is the largest or smallest of its elements, nothing without any."""
    if not isinstance(result, Call) or result.op not in _EXTREMA:
        return False
    x, y, dtype = combiner.lhs[c], combiner.rhs[c], result.dtype
    nothing = dtype.lowest if result.op == "maximum" else dtype.highest
    own = {x: None, y: None} == dict.fromkeys(result.args)
    return own and dtype.is_float and combiner.identity[c].value == nothing


def _scale(combiner: Combiner, shift: int, c: int) -> Scale | None:
    """The scale of component c, if a step is state * scale(state) + element * scale(element).

    That is proved of the step itself: a jump of the step has no derivative.
    """
    x, y, result = combiner.lhs[c], combiner.rhs[c], combiner.results[c]
    if not result.dtype.is_float or combiner.identity[c].value != 0:
        return None
    last = param("last", result.dtype)
    own = (combiner.lhs[shift], combiner.rhs[shift])
    factors: list[Expr] = []
    rest = result
    for side, operand, operands in zip(own, (x, y), (combiner.lhs, combiner.rhs), strict=True):
        entry = jacobian_entries(combiner, operands)[c][c]
        if entry is None or entry[0] is not TRUE:
            return None
        rest = sub(rest, mul(operand, entry[1]))
        factor = _of_its_own(combiner.results[shift], entry[1], side, own, last)
        if any(leaf is not side and leaf is not last for leaf in free_leaves(factor)):
            return None
        factors.append(factor)
    if substitute(factors[0], {own[0]: own[1]}) is not factors[1] or not vanishes((), rest, {}):
        return None
    rate = _rate(factors[0], own[0], last)
    return None if rate is None else Scale(own[0], last, factors[0], rate)


def _of_its_own(
    largest: Expr, factor: Expr, side: Param, own: Sequence[Param], last: Param
) -> Expr:
    """The factor by `last`, which is the largest (or least) of both shifts.

    Where a side's shift is not the last one, it is the other extremum.
    """
    found = dict.fromkeys(_extrema(largest, own), last)
    factor = substitute(factor, found)
    if not isinstance(factor, Select) or not _compares("eq", factor.cond, side, last):
        return factor
    beside = {e: side for op in _EXTREMA for e in _extrema(call(op, *own), own) if e not in found}
    return select(factor.cond, factor.then, substitute(factor.orelse, beside))


def _extrema(e: Expr, own: Sequence[Param]) -> list[Expr]:
    """An extremum of two shifts, its operands in either order."""
    assert isinstance(e, Call)  # two parameters do not fold
    return [call(e.op, *own), call(e.op, *own[::-1])]


def _rate(value: Expr, own: Param, last: Param) -> Fraction | None:
    """a, if the value is exp(a * (own - last)) wherever both are finite; exp(0) may read 1."""
    if isinstance(value, Select) and value.then is const(1, value.dtype):
        value = value.orelse if _compares("eq", value.cond, own, last) else value
    if not isinstance(value, Call) or value.op != "exp":
        return None
    try:
        form = Normal(Interned(), proof=True).form(value.args[0])
    except TooLong:
        return None
    rate = form.terms.get(((own, 1),))
    if rate is None or form.terms.get(((last, 1),)) != -rate or len(form.terms) != 2:
        return None
    return rate


def _compares(op: str, e: Expr, x: Expr, y: Expr) -> bool:
    return isinstance(e, Call) and e.op == op and e.args[0] is x and e.args[1] is y


def adjoint_terms(
    op: Compute, e: Reduce, heads: Mapping[int, Adjoint], wanted: Callable[[Read], bool]
) -> list[Term]:
    """Terms whose coefficients are the whole adjoints of their reads: of one sum, or by a sweep.

    Args:
        e: any component of the fold.
        heads: component -> the adjoint of its output.
    """
    terms = _rescaled_terms(op, e, heads, wanted)
    if terms is not None:
        return terms
    return fold_adjoint_terms(op, e, {c: a.at for c, a in heads.items()}, wanted)


def _rescaled_terms(
    op: Compute, e: Reduce, heads: Mapping[int, Adjoint], wanted: Callable[[Read], bool]
) -> list[Term] | None:
    """The terms without a sweep; None if they are not proved.

    A shift m with head g and sums s_c with heads h_c: whatever moves m is worth
    g - sum(rate_c * h_c * s_c). If that is 0 (as a rational function), each element's own
    share is left: scale * h_c for what is summed, and rate * scale * t * h_c for its shift.
    """
    form, numbers = rescaled(e.combiner), fold_outputs(op, e)
    if form is None or form.shift not in numbers:
        return None
    if any(c != form.shift and c not in form.scales for c in heads):
        return None
    made = outputs(op)
    values = {c: read(made[numbers[c]], op.axes) for c in (form.shift, *heads)}
    if not _cancels(op, e, form, heads, values):
        return None
    about = made[numbers[e.index]]
    note(Decision(about, "scaled sum", "shifting all elements only scales what is summed", part=e))
    terms: list[Term] = []
    for c, scale in form.scales.items():
        if c not in heads:
            continue
        head = heads[c]
        if not may_inline(head.body, Uses(2, False)):
            tensor = store(head, f"d{made[numbers[c]].name}")
            head = Adjoint(head.axes, head.body, tensor)
        shift, summed = e.sources[form.shift], e.sources[c]
        factor = substitute(scale.value, {scale.own: shift, scale.last: values[form.shift]})
        factor = mul(head.at(op.axes), factor)
        terms += body_terms(c, summed, wanted, e.axes, e.condition, factor)
        moved = mul(factor, mul(const(float(scale.rate), e.dtype), summed))
        terms += body_terms(c, shift, wanted, e.axes, e.condition, moved)
    return terms


def _cancels(
    op: Compute, e: Reduce, form: Rescaled, heads: Mapping[int, Adjoint], values: Mapping[int, Expr]
) -> bool:
    """Whether moving the shift alone changes nothing: g - sum(rate_c * h_c * s_c) is 0."""
    total: Expr = const(0, e.combiner.results[form.shift].dtype)
    if form.shift in heads:
        total = _formula(heads[form.shift], op)
    for c, scale in form.scales.items():
        if c in heads:
            part = cast(mul(_formula(heads[c], op), values[c]), total.dtype)
            total = sub(total, mul(const(float(scale.rate), total.dtype), part))
    sums = [c for c in heads if c in form.scales and _is_positive(e.sources[c])]
    positive = dict.fromkeys([values[c] for c in sums])
    return vanishes(op.axes, _with_positive(total, positive), {})


def _formula(adjoint: Adjoint, op: Compute) -> Expr:
    """The adjoint at the fold's axes as a formula, also if it is stored."""
    axes, body = adjoint.axes, adjoint.body
    if adjoint.tensor is not None and isinstance(adjoint.tensor.op, Compute):
        axes, body = adjoint.tensor.op.axes, adjoint.tensor.op.bodies[adjoint.tensor.index]
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
