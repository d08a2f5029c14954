"""Conditions as the numbers 0 and 1: how proofs compute with selects and guards."""

from __future__ import annotations

from typing import Final

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import FALSE, TRUE, Axis, Call, Const, Expr, cast, int_const
from tensorad.simplify.formula.laurent import Ring, Sum, constant
from tensorad.simplify.index.linear import Linear, linear_form

_MAX_STEPS: Final = 8
"""Axes replaced by their bounds before a difference is left undecided."""


def indicator(ring: Ring, condition: Expr, dtype: DType) -> Sum:
    """1 where the condition holds, otherwise 0; what the axes' bounds decide is decided."""
    if condition is TRUE or condition is FALSE:
        return constant(int(condition is TRUE))
    match condition:
        case Call(op="and", args=args):
            product = constant(1)
            for a in args:
                product = ring.times(product, indicator(ring, a, dtype))
            return product
        case Call(op="or", args=args):
            none = constant(1)
            for a in args:
                none = ring.times(none, _complement(indicator(ring, a, dtype)))
            return _complement(none)
        case Call(op="not", args=(a,)):
            return _complement(indicator(ring, a, dtype))
        case Call(op=op, args=(a, b)) if op in _AT_LEAST and a.dtype.is_integer:
            return _comparison(ring, op, linear_form(a).plus(linear_form(b), -1), dtype)
    return ring.atom(cast(condition, dtype))


def _complement(value: Sum) -> Sum:
    return constant(1).plus(value, -1)


_AT_LEAST: Final = {"ge": (1, 0), "gt": (1, -1), "le": (-1, 0), "lt": (-1, -1), "eq": (0, 0),
                    "ne": (0, 0)}  # fmt: skip
"""a op b as sign * (a - b) + offset >= 0."""


def _comparison(ring: Ring, op: str, difference: Linear, dtype: DType) -> Sum:
    if op == "ne":
        return _complement(_comparison(ring, "eq", difference, dtype))
    if op == "eq":
        above = _not_negative(ring, difference, dtype)
        return ring.times(above, _not_negative(ring, difference.scaled(-1), dtype))
    sign, offset = _AT_LEAST[op]
    return _not_negative(ring, difference.scaled(sign).plus(Linear({}, offset)), dtype)


def _not_negative(ring: Ring, d: Linear, dtype: DType) -> Sum:
    """d >= 0; one minus its opposite, if the ring knows that one."""
    least, most = least_value(d), least_value(d.scaled(-1))
    if least is not None and least >= 0:
        return constant(1)
    if most is not None and most > 0:  # -d > 0 everywhere
        return constant(0)
    ordered = Linear(dict(sorted(d.terms.items(), key=lambda t: _order(t[0]))), d.constant)
    opposite = _atom(ordered.scaled(-1).plus(Linear({}, -1)), dtype)
    if ring.knows(opposite):
        return _complement(ring.atom(opposite))
    return ring.atom(_atom(ordered, dtype))


def _atom(d: Linear, dtype: DType) -> Expr:
    bare = Linear(d.terms, 0).to_expr()
    return cast(bare >= int_const(-d.constant), dtype)


def _order(e: Expr) -> tuple[int, str]:
    return (e.serial, "") if isinstance(e, Axis) else (-1, str(e))


def least_value(d: Linear) -> int | None:
    """A lower bound of a linear expression over its axes: bounds in the place of axes,
    those first on which no other's bounds depend. None if that does not end in a number."""
    for _ in range(_MAX_STEPS):
        axes = [e for e in d.terms if isinstance(e, Axis)]
        if not axes:
            break
        last = next((a for a in axes if not any(_depends(b, a) for b in axes)), None)
        if last is None or not (isinstance(last.step, Const) and last.step.value == 1):
            return None
        factor = d.terms[last]
        bound = linear_form(last.lower)
        if factor < 0:
            bound = linear_form(last.upper).plus(Linear({}, -1))
        rest = Linear({e: c for e, c in d.terms.items() if e is not last}, d.constant)
        d = rest.plus(bound, factor)
    return d.constant if not d.terms else None


def _depends(b: Axis, a: Axis) -> bool:
    return a in linear_form(b.lower).terms or a in linear_form(b.upper).terms
