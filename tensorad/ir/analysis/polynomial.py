"""Polynomials of symbolic sizes: exact counts that print as `32*n + n**2`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from tensorad.ir.expr import Axis, Call, Expr

Monomial = tuple[tuple[Expr, int], ...]
"""(symbol, power >= 1) pairs, ordered by the symbols' texts."""


class Polynomial:
    """A sum of rational coefficients times powers of symbols. Symbols are expressions."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}

    @classmethod
    def constant(cls, value: int | Fraction) -> Polynomial:
        """A number."""
        return cls({(): Fraction(value)})

    @classmethod
    def symbol(cls, e: Expr) -> Polynomial:
        """One symbol."""
        return cls({((e, 1),): Fraction(1)})

    def __add__(self, other: Polynomial | int) -> Polynomial:
        terms = dict(self.terms)
        for m, c in _as_polynomial(other).terms.items():
            terms[m] = terms.get(m, Fraction(0)) + c
        return Polynomial(terms)

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + -_as_polynomial(other)

    def __mul__(self, other: Polynomial | int | Fraction) -> Polynomial:
        terms: dict[Monomial, Fraction] = {}
        for m, c in self.terms.items():
            for n, d in _as_polynomial(other).terms.items():
                product = _times(m, n)
                terms[product] = terms.get(product, Fraction(0)) + c * d
        return Polynomial(terms)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, Polynomial)):
            return self.terms == _as_polynomial(other).terms
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        return _text(self)

    __repr__ = __str__

    def as_constant(self) -> Fraction | None:
        """The number this is, if it has no symbols."""
        if not self.terms:
            return Fraction(0)
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def symbols(self) -> list[Expr]:
        """Those it has, in the order of its terms."""
        return list(dict.fromkeys([s for m in self.terms for s, _ in m]))

    def coefficients_of(self, e: Expr) -> list[Polynomial]:
        """c with self = sum of c[p] * e**p."""
        parts: list[dict[Monomial, Fraction]] = [{}]
        for m, c in self.terms.items():
            power = next((p for s, p in m if s is e), 0)
            while len(parts) <= power:
                parts.append({})
            rest = tuple([(s, p) for s, p in m if s is not e])
            parts[power][rest] = parts[power].get(rest, Fraction(0)) + c
        return [Polynomial(p) for p in parts]

    def separate(self, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """(q, r) with self = q * divisor + r: r has the terms that the divisor does not divide.

        Requires: the divisor has one term. The coefficients of q are whole.
        """
        ((factor, scale),) = divisor.terms.items()
        whole: dict[Monomial, Fraction] = {}
        rest: dict[Monomial, Fraction] = {}
        for m, c in self.terms.items():
            left = _without(m, factor)
            if left is None or (c / scale).denominator != 1:
                rest[m] = c
            else:
                whole[left] = c / scale
        return Polynomial(whole), Polynomial(rest)

    def replace(self, e: Expr, value: Polynomial) -> Polynomial:
        """The polynomial with `value` in place of the symbol `e`."""
        result = Polynomial({})
        for c in reversed(self.coefficients_of(e)):
            result = result * value + c
        return result

    def sum_over(self, e: Expr, lower: Polynomial, upper: Polynomial) -> Polynomial:
        """The sum of self for e = lower, ..., upper - 1. Requires: lower <= upper."""
        result = Polynomial({})
        for power, c in enumerate(self.coefficients_of(e)):
            below = _power_sum(power)
            result += c * (_compose(below, upper) - _compose(below, lower))
        return result


def _as_polynomial(value: Polynomial | int | Fraction) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial.constant(value)


def _times(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    powers: dict[Expr, int] = dict(m)
    for s, p in n:
        powers[s] = powers.get(s, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: _order(item[0])))


def _order(e: Expr) -> tuple[str, int]:
    """By text; axes of one name by age."""
    return str(e), e.serial if isinstance(e, Axis) else 0


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """monomial / factor, if it divides."""
    powers = dict(monomial)
    for symbol, power in factor:
        if powers.get(symbol, 0) < power:
            return None
        powers[symbol] -= power
    return tuple([(s, p) for s, p in powers.items() if p])


@cache
def _power_sum(power: int) -> tuple[Fraction, ...]:
    """Coefficients, lowest first, of S(n) = 0**power + 1**power + ... + (n - 1)**power.

    From n**(p+1) = sum over q <= p of binomial(p+1, q) S_q(n).
    """
    result = [Fraction(0)] * (power + 2)
    result[power + 1] = Fraction(1)
    binomial = 1
    for q in range(power):
        for degree, c in enumerate(_power_sum(q)):
            result[degree] -= binomial * c
        binomial = binomial * (power + 1 - q) // (q + 1)
    return tuple([c / (power + 1) for c in result])


def _compose(coefficients: tuple[Fraction, ...], value: Polynomial) -> Polynomial:
    result = Polynomial({})
    for c in reversed(coefficients):
        result = result * value + Polynomial.constant(c)
    return result


def _text(p: Polynomial) -> str:
    if not p.terms:
        return "0"
    order = sorted(p.terms, key=lambda m: (sum(power for _, power in m), _monomial_text(m)))
    text = ""
    for m in order:
        c = p.terms[m]
        body = _term_text(m, abs(c))
        if not text:
            text = f"-{body}" if c < 0 else body
        else:
            text += f" - {body}" if c < 0 else f" + {body}"
    return text


def _term_text(m: Monomial, c: Fraction) -> str:
    if not m:
        return str(c)
    factor = "" if c.numerator == 1 else f"{c.numerator}*"
    return f"{factor}{_monomial_text(m)}" + ("" if c.denominator == 1 else f"/{c.denominator}")


def _monomial_text(m: Monomial) -> str:
    parts = []
    for s, power in m:
        text = f"({s})" if isinstance(s, Call) and s.op in ("floordiv", "mod") else str(s)
        parts.append(text if power == 1 else f"{text}**{power}")
    return "*".join(parts)
