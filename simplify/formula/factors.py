"""Sums of products written as formulas: common factors once, divisions last."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, add, const, div, mul, neg, sub
from tensorad.simplify.formula.laurent import Monomial, Sum, rounded

Term = tuple[Monomial, Fraction]


def product(monomial: Monomial, coefficient: Fraction, dtype: DType) -> Expr:
    """coefficient * numerators / denominators, one factor after the other."""
    result: Expr | None = None
    for atom, power in monomial:
        for _ in range(power):
            result = atom if result is None else mul(result, atom)
    if result is None:
        result = const(rounded(coefficient, dtype), dtype)
    elif coefficient == -1:
        result = neg(result)
    elif coefficient != 1:
        result = mul(result, const(rounded(coefficient, dtype), dtype))
    for atom, power in monomial:
        for _ in range(-power):
            result = div(result, atom)
    return result


def factored(total: Sum, dtype: DType) -> Expr:
    """The sum as a formula in which what several terms share is written once."""
    return _build(list(total.terms.items()), dtype)


def _build(terms: Sequence[Term], dtype: DType) -> Expr:
    if not terms:
        return const(0, dtype)
    if len(terms) == 1:
        return product(*terms[0], dtype)
    shared = _most_shared(terms)
    if shared is None:
        return _plain_sum(terms, dtype)
    atom, power = shared
    inside = [t for t in terms if _power(t[0], atom) * power > 0]
    rest = [t for t in terms if _power(t[0], atom) * power <= 0]
    common = _common(inside)
    quotient = [(_divide(m, common), c) for m, c in inside]
    sum_of_rest = _build(quotient, dtype)
    whole = _times(sum_of_rest, common)
    return whole if not rest else _joined(whole, rest, dtype)


def _joined(whole: Expr, rest: Sequence[Term], dtype: DType) -> Expr:
    if all(c < 0 for _, c in rest):
        return sub(whole, _build([(m, -c) for m, c in rest], dtype))
    return add(whole, _build(rest, dtype))


def _times(e: Expr, common: Monomial) -> Expr:
    """e times a product: atoms multiplied in front, then divisions."""
    front: Expr | None = None
    for atom, power in common:
        for _ in range(power):
            front = atom if front is None else mul(front, atom)
    result = e if front is None else mul(front, e)
    for atom, power in common:
        for _ in range(-power):
            result = div(result, atom)
    return result


def _plain_sum(terms: Sequence[Term], dtype: DType) -> Expr:
    """Terms that share nothing; a positive one first if there is one."""
    ordered = sorted(terms, key=lambda t: t[1] < 0)
    result = product(*ordered[0], dtype)
    for m, c in ordered[1:]:
        result = sub(result, product(m, -c, dtype)) if c < 0 else add(result, product(m, c, dtype))
    return result


def _power(monomial: Monomial, atom: Expr) -> int:
    return next((p for a, p in monomial if a is atom), 0)


def _most_shared(terms: Sequence[Term]) -> tuple[Expr, int] | None:
    """The (atom, sign of its power) that most terms contain, at least two."""
    count: dict[tuple[Expr, int], int] = {}
    for m, _ in terms:
        for atom, power in m:
            key = (atom, 1 if power > 0 else -1)
            count[key] = count.get(key, 0) + 1
    best = max(count, key=lambda k: count[k], default=None)
    return best if best is not None and count[best] > 1 else None


def _common(terms: Sequence[Term]) -> Monomial:
    """The product of powers that divides every term."""
    common: list[tuple[Expr, int]] = []
    for atom, _ in terms[0][0]:
        powers = [_power(m, atom) for m, _ in terms]
        if all(p > 0 for p in powers) or all(p < 0 for p in powers):
            common.append((atom, min(powers, key=abs)))
    return tuple(common)


def _divide(monomial: Monomial, common: Monomial) -> Monomial:
    powers = dict(monomial)
    for atom, power in common:
        powers[atom] -= power
    return tuple([(a, p) for a, p in powers.items() if p])
