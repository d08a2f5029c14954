"""Folds of a shift and of sums that it scales: (largest, sum of exp(e - largest)).

Each step scales what was summed before to the new shift. Where the combiner's formula says so,
such a sum is sum(t * exp(a * (x - m))) with the last shift m, and differentiates as one, in every
mode: no step has to be walked backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tensorad.autodiff.local.linear import Term, body_terms
from tensorad.autodiff.local.steps import jacobian_entries
from tensorad.ir.combiner import Combiner, per_combiner
from tensorad.ir.expr import (
    TRUE,
    Call,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    call,
    const,
    mul,
    neg,
    param,
    select,
    sub,
)
from tensorad.ir.functions import Function, apply
from tensorad.ir.visit import free_leaves, substitute
from tensorad.simplify.formula.laurent import TooLong
from tensorad.simplify.formula.normal_form import Interned, Normal
from tensorad.simplify.formula.zero_test import vanishes

_EXTREMA: Final = ("maximum", "minimum")


@dataclass(frozen=True, eq=False)
class Scale:
    """What a summand is multiplied by: exp(rate * (own - last)) wherever that is finite.

    Attributes:
        own: stands for the summand's shift.
        last: stands for the fold's.
        value: the combiner's own formula for it.
        rate: a number.
        function: (own, last) -> value, with the derivatives of the exponential also where the
            formula says 1 in its place; None if it never does.
    """

    own: Param
    last: Param
    value: Expr
    rate: Fraction
    function: Function | None

    def at(self, own: Expr, last: Expr) -> Expr:
        """The scale of a summand with this shift."""
        if self.function is not None:
            return apply(self.function, (own, last))
        return substitute(self.value, {self.own: own, self.last: last})


@dataclass(frozen=True, eq=False)
class Rescaled:
    """The component that is the shift, and the scales of the components that follow it."""

    shift: int
    scales: Mapping[int, Scale]


@per_combiner
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
    if rate is None:
        return None
    shown = param("own", own[0].dtype)
    value = substitute(factors[0], {own[0]: shown})
    return Scale(shown, last, value, rate, _function(value, shown, last, rate))


def _function(value: Expr, own: Param, last: Param, rate: Fraction) -> Function | None:
    if not isinstance(value, Select):
        return None

    def partials(value: Param, _: tuple[Param, ...]) -> tuple[Expr, Expr]:
        slope = mul(const(float(rate), value.dtype), value)
        return slope, neg(slope)

    return Function("scale", (own, last), value, partials)


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


def sum_terms(
    e: Reduce,
    component: int,
    scale: Scale,
    shift: int,
    last: Expr,
    wanted: Callable[[Read], bool],
    head: Expr | None = None,
) -> list[Term]:
    """The terms of one scaled sum as far as its elements go, for a shift that stays.

    Each element's share is the scale for what is summed, and rate * scale * t for its shift.

    Args:
        component: of the terms.
        shift: the fold's component that is the shift.
        last: its value.
        head: what every term is multiplied by.
    """
    own, summed = e.sources[shift], e.sources[e.index]
    factor = scale.at(own, last)
    factor = factor if head is None else mul(head, factor)
    moved = mul(factor, mul(const(float(scale.rate), e.dtype), summed))
    return [
        *body_terms(component, summed, wanted, e.axes, e.condition, factor),
        *body_terms(component, own, wanted, e.axes, e.condition, moved),
    ]
