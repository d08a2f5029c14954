"""Factors that do not vary over all axes of a formula, computed once for the axes they need."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import (
    FUNCTIONS,
    TRUE,
    Axis,
    Call,
    Expr,
    Read,
    Reduce,
    Select,
    reduce_expr,
    select,
)
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.visit import free_leaves, postorder, uses_any
from tensorad.simplify.formula.factors import factored
from tensorad.simplify.formula.invariant_factors import movable
from tensorad.simplify.formula.laurent import Monomial, Ring, Sum
from tensorad.simplify.index.quasi_affine import starts_at_zero
from tensorad.simplify.zeros.lift import is_zero

Parts = dict[Monomial, dict[Monomial, Fraction]]
"""product of what varies over all axes -> sum of the factors that do not."""


def hoisted(ring: Ring, total: Sum, axes: Sequence[Axis], dtype: DType) -> tuple[Sum, list[Expr]]:
    """(the sum with such factors as atoms, the factors), each at least one operation long."""
    wide = [a for a in axes if a.extent != 1]
    parts: Parts = {}
    for m, c in total.terms.items():
        inner, outer = _split(ring, m, wide)
        parts.setdefault(inner, {})[outer] = c
    terms: dict[Monomial, Fraction] = {}
    made: list[Expr] = []
    for inner, outers in parts.items():
        single = len(outers) == 1 and _is_short(*next(iter(outers.items())))
        if single or not any(_reads(outer) for outer in outers):
            terms.update({ring.product((*inner, *outer)): c for outer, c in outers.items()})
            continue
        sign = -1 if all(c < 0 for c in outers.values()) else 1
        factor = factored(Sum(outers).scaled(sign), dtype)
        made.append(factor)
        terms[ring.product((*inner, (factor, 1)))] = Fraction(sign)
    return Sum(terms), made


def _split(ring: Ring, m: Monomial, wide: Sequence[Axis]) -> tuple[Monomial, Monomial]:
    """(the other factors, those over some axes): of several choices of axes the one that
    takes the most operations out."""
    used = [tuple([a for a in wide if a in free_leaves(atom)]) for atom, _ in m]
    best: list[bool] = [False] * len(m)
    for axes in dict.fromkeys(used):
        if len(axes) < len(wide):
            inside = dict.fromkeys(axes)
            taken = [
                all(a in inside for a in u) and movable(atom)
                for u, (atom, _) in zip(used, m, strict=True)
            ]
            if _operations(m, taken) > _operations(m, best):
                best = taken
    inner = [f for f, out in zip(m, best, strict=True) if not out]
    outer = [f for f, out in zip(m, best, strict=True) if out]
    return ring.product(inner), ring.product(outer)


def _operations(m: Monomial, taken: Sequence[bool]) -> int:
    """Operations of the product of the factors taken, each factor counting one for itself."""
    total = 0
    for (atom, power), out in zip(m, taken, strict=True):
        if out:
            total += abs(power) + (not isinstance(atom, (Read, Reduce)))
    return total


def _reads(m: Monomial) -> bool:
    """Whether a factor reads a tensor; one of sizes alone is no tensor of its own."""
    return occurs(READ, *[atom for atom, _ in m])


def _is_short(outer: Monomial, c: Fraction) -> bool:
    """Whether a factor is no operation of its own."""
    if not all(isinstance(atom, (Read, Reduce)) for atom, _ in outer):
        return False
    powers = sum(abs(p) for _, p in outer)
    return powers == 0 or (powers == 1 and abs(c) == 1)


def narrow_functions(axes: Sequence[Axis], sums: Sequence[Expr]) -> dict[Expr, None]:
    """Functions inside sums that do not vary over all axes around them."""
    found: dict[Expr, None] = {}
    for e in sums:
        if not isinstance(e, Reduce) or e.condition is not TRUE:
            continue
        around = [a for a in (*axes, *e.axes) if a.extent != 1]
        if all(starts_at_zero(a) for a in e.axes):
            for part in postorder(*e.sources):
                if isinstance(part, Call) and part.op in FUNCTIONS and movable(part):
                    free = free_leaves(part)
                    if not all(a in free for a in around) and not occurs(REDUCE, part):
                        found[part] = None
    return found


def guard_outside(body: Expr) -> Expr:
    """sum(select(c, f, 0)) -> select(c, sum(f), 0), if c is the same for the whole sum."""
    if not isinstance(body, Reduce) or not body.combiner.is_sum or body.condition is not TRUE:
        return body
    match body.sources[0]:
        case Select(cond=c, then=f, orelse=zero) if is_zero(zero):
            if not uses_any(c, body.axes) and movable(c) and movable(f):
                whole = reduce_expr(body.combiner, (f,), body.axes)
                return select(c, whole, zero)
    return body
