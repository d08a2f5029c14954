"""Factors that do not vary over all axes of a formula, computed once for the axes they need."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.visit import free_leaves
from tensorad.simplify.factors import factored
from tensorad.simplify.laurent import Monomial, Ring, Sum
from tensorad.simplify.normal import movable

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
        if len(outers) == 1 and _is_short(*next(iter(outers.items()))):
            outer, c = next(iter(outers.items()))
            terms[ring.product((*inner, *outer))] = c
            continue
        sign = -1 if all(c < 0 for c in outers.values()) else 1
        factor = factored(Sum(outers).scaled(sign), dtype)
        made.append(factor)
        terms[ring.product((*inner, (factor, 1)))] = Fraction(sign)
    return Sum(terms), made


def _split(ring: Ring, m: Monomial, wide: Sequence[Axis]) -> tuple[Monomial, Monomial]:
    """(the factors over all axes, the others); everything stays if the others vary over all."""
    used = [[a for a in wide if a in free_leaves(atom)] for atom, _ in m]
    narrow = [len(u) < len(wide) and movable(atom) for (atom, _), u in zip(m, used, strict=True)]
    together = {a: None for u, n in zip(used, narrow, strict=True) if n for a in u}
    if len(together) == len(wide):
        return m, ()
    inner = [f for f, n in zip(m, narrow, strict=True) if not n]
    outer = [f for f, n in zip(m, narrow, strict=True) if n]
    return ring.product(inner), ring.product(outer)


def _is_short(outer: Monomial, c: Fraction) -> bool:
    """Whether a factor is no operation of its own."""
    powers = sum(abs(p) for _, p in outer)
    return powers == 0 or (powers == 1 and abs(c) == 1)
