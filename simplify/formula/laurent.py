"""Sums of products of powers: the normal form of rational formulas over opaque atoms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from tensorad.ir.dtypes import BOOL, FLOAT32, DType
from tensorad.ir.expr import Cast, Expr
from tensorad.process import memoised

Monomial = tuple[tuple[Expr, int], ...]
"""(atom, nonzero power) pairs, in the order in which their ring first saw the atoms."""

_MAX_TERMS: Final = 32
"""A longer sum is not expanded further."""
_MAX_FACTORS: Final = 4_000
"""Factors of all products that one ring multiplies; those of formulas in use take up to 200."""


def is_indicator(e: Expr) -> bool:
    """Whether an atom is a condition as a number: its powers are itself."""
    return isinstance(e, Cast) and e.value.dtype is BOOL


class TooLong(Exception):
    """A normal form beyond the budget; callers leave the formula as it is written."""


class Sum:
    """Rational coefficients times monomials."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}
        if len(self.terms) > _MAX_TERMS:
            raise TooLong

    def plus(self, other: Sum, factor: Fraction | int = 1) -> Sum:
        """self + factor * other."""
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, Fraction(0)) + factor * c
        return Sum(terms)

    def scaled(self, factor: Fraction | int) -> Sum:
        """factor * self."""
        return Sum({m: factor * c for m, c in self.terms.items()})

    def single(self) -> tuple[Monomial, Fraction] | None:
        """The only term, if there is just one."""
        return next(iter(self.terms.items())) if len(self.terms) == 1 else None


class Ring:
    """An order of atoms, so that equal products are equal tuples."""

    def __init__(self) -> None:
        self._numbers: dict[Expr, int] = {}
        self._left = _MAX_FACTORS

    def number(self, atom: Expr) -> int:
        """When the atom was first seen."""
        return self._numbers.setdefault(atom, len(self._numbers))

    def knows(self, atom: Expr) -> bool:
        """Whether the atom was seen."""
        return atom in self._numbers

    def atom(self, e: Expr, power: int = 1) -> Sum:
        """One atom to a power."""
        self.number(e)
        return Sum({((e, power),): Fraction(1)})

    def product(self, factors: Iterable[tuple[Expr, int]]) -> Monomial:
        """The product of powers, as a monomial."""
        powers: dict[Expr, int] = {}
        for atom, power in factors:
            powers[atom] = powers.get(atom, 0) + power
        kept = [
            (atom, min(power, 1) if is_indicator(atom) else power)
            for atom, power in powers.items()
            if power
        ]
        return tuple(sorted(kept, key=lambda f: self.number(f[0])))

    def times(self, a: Sum, b: Sum) -> Sum:
        """a * b, expanded.

        Raises:
            TooLong: the product, or all that the ring has multiplied.
        """
        if len(a.terms) * len(b.terms) > _MAX_TERMS:
            raise TooLong
        self._left -= len(b.terms) * sum(map(len, a.terms)) + len(a.terms) * sum(map(len, b.terms))
        if self._left < 0:
            raise TooLong
        terms: dict[Monomial, Fraction] = {}
        for m, c in a.terms.items():
            for n, d in b.terms.items():
                product = self.product((*m, *n))
                terms[product] = terms.get(product, Fraction(0)) + c * d
        return Sum(terms)

    def inverse(self, a: Sum) -> Sum | None:
        """1 / a, if a is a single term."""
        found = a.single()
        if found is None:
            return None
        monomial, coefficient = found
        return Sum({tuple([(e, -p) for e, p in monomial]): 1 / coefficient})


def constant(value: Fraction | int) -> Sum:
    """A number."""
    return Sum({(): Fraction(value)})


@memoised(4096)
def rational(value: float, dtype: DType) -> Fraction:
    """The simplest rational that `dtype` rounds to the value: 0.1 is 1/10.

    A formula that says 0.1 means a tenth; n times the constant 1/n is 1.
    """
    exact = Fraction(value)
    largest = 1_000 if dtype is FLOAT32 else 1_000_000
    candidates = [exact.limit_denominator(largest)]
    if 1e-7 < abs(value) < 1:
        candidates.append(Fraction(1, round(1 / exact)))
    for c in candidates:
        if rounded(c, dtype) == value:
            return c
    return exact


def rounded(value: Fraction, dtype: DType) -> float:
    """The float nearest to a rational (infinite beyond the range)."""
    try:
        double = float(value)
    except OverflowError:
        double = float("inf") if value > 0 else float("-inf")
    with np.errstate(all="ignore"):
        return float(np.float32(double)) if dtype is FLOAT32 else double
