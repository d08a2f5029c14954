"""Mixed-radix indices with symbolic radices: an axis becomes its digits, and products vanish.

isl is linear, so `k // (h*w)` or `(c*h + i)*w + j` with symbolic h and w are beyond it. Such
formulas come from reshapes: an axis of extent c*h*w stands for the three digits that it packs.
Writing every axis as sum(digit * weight) turns quotients, remainders and equations into
equations between digits, which are linear again:

    (q*d + r) // d = q and (q*d + r) % d = r           where 0 <= r < d
    q*d + r = q'*d + r'  <=>  q = q' and r = r'         where 0 <= r, r' < d

The digits of an outer axis are quotients and remainders of it; those of an inner axis are new
inner axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tensorad.ir.analysis.polynomial import Monomial, Polynomial
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    axis,
    floordiv,
    mod,
)
from tensorad.ir.order import SIZE, occurs
from tensorad.ir.visit import children, free_leaves, postorder, rewrite, substitute
from tensorad.simplify.index.size_products import (
    Names,
    equation,
    is_linear,
    is_of_sizes,
    moduli,
    of_sizes,
    to_expr,
)

_MOST_SPLITS = 24
_ONE = Polynomial.constant(1)


@dataclass(frozen=True, eq=False)
class Digits:
    """A problem over digits, and the way back.

    Attributes:
        outer, inner: the axes, those that were split replaced by their digits.
        written: for each of the conditions, the conditions over digits that it became.
        values: each inner axis that was split, as an expression of its digits.
        mapping: every new axis (but digits of inner axes) and name in the terms of before.
    """

    outer: list[Axis]
    inner: list[Axis]
    written: list[list[Expr]]
    values: dict[Expr, Expr]
    mapping: dict[Expr, Expr]

    @property
    def conditions(self) -> list[Expr]:
        """All conditions over digits."""
        return [c for group in self.written for c in group]


def split_digits(
    outer: Sequence[Axis], inner: Sequence[Axis], conditions: Sequence[Expr]
) -> Digits | None:
    """The problem over digits; None if there is nothing to split or to name."""
    bounds = [b for a in (*outer, *inner) for b in (a.lower, a.upper, a.step)]
    if not occurs(SIZE, *bounds, *conditions):
        return None
    first, is_whole = _solved(_Problem(outer, inner), conditions)
    if is_whole:
        return first
    other, is_whole = _solved(_Problem(outer, inner, merges_first=True), conditions)
    return other if is_whole and other is not None else first


def _solved(problem: _Problem, conditions: Sequence[Expr]) -> tuple[Digits | None, bool]:
    """The problem over digits, and whether all of its conditions could be written over them."""
    for _ in range(_MOST_SPLITS):
        problem.is_whole = True
        try:
            parts = [problem.condition(p) for p in conditions]
        except _Again:
            continue
        return problem.result(parts), problem.is_whole
    return None, False


class _Again(Exception):
    """An axis was split: everything has to be written anew."""


class _Opaque(Exception):
    """The expression is no polynomial of digits and sizes."""


@dataclass(frozen=True, eq=False)
class _Digit:
    """One digit of an axis: (axis // weight) % extent."""

    dim: Axis
    weight: Polynomial
    extent: Polynomial


class _Problem:
    """Axes and their digits so far."""

    def __init__(
        self, outer: Sequence[Axis], inner: Sequence[Axis], merges_first: bool = False
    ) -> None:
        """`merges_first`: inner axes that a number packs are merged before one is split."""
        self.outer = list(outer)
        self.inner = list(inner)
        self.merges_first = merges_first
        self.is_whole = True
        """Whether every condition so far could be written over digits."""
        self.digits: dict[Axis, list[_Digit]] = {}
        self.extents: dict[Expr, Polynomial] = {}
        self.positive: dict[Expr, None] = {}
        """Factors of extents: at least 1 wherever there is a point."""
        self.merged: dict[Polynomial, Axis] = {}
        """Inner axes that count through one range, as one axis."""
        self.parts: dict[Axis, list[_Digit]] = {}
        """The inner axes that a merged axis stands for."""
        bounds = [b for a in (*outer, *inner) for b in (a.lower, a.upper, a.step)]
        self.fixed = free_leaves(*bounds)
        """Axes in bounds: they stay whole."""
        for a in (*outer, *inner):
            if a.lower is ZERO and a.step is ONE and is_of_sizes(a.upper):
                self._enter(_Digit(a, _ONE, of_sizes(a.upper)))

    def _enter(self, digit: _Digit) -> None:
        self.extents[digit.dim] = digit.extent
        if len(digit.extent.terms) == 1:
            (monomial,) = digit.extent.terms
            self.positive.update(dict.fromkeys(s for s, _ in monomial))

    # Expressions as polynomials

    def condition(self, c: Expr) -> list[Expr]:
        """An equivalent list of conditions over digits; linear ones where possible."""
        try:
            if isinstance(c, Call) and c.op == "eq" and c.args[0].dtype.is_integer:
                return self._equate(self.polynomial(c.args[0]), self.polynomial(c.args[1]))
            return [rewrite(c, self._rewritten)]
        except _Opaque:
            self.is_whole = False
            return [substitute(c, self._images())]

    def _rewritten(self, e: Expr) -> Expr | None:
        if isinstance(e, Axis):
            return self._images().get(e)
        if isinstance(e, Call) and e.op in ("floordiv", "mod") and not isinstance(e.args[1], Const):
            return to_expr(self.polynomial(e))
        return None

    def _images(self) -> dict[Expr, Expr]:
        return {a: to_expr(self._sum(a)) for a in self.digits}

    def _sum(self, a: Axis) -> Polynomial:
        if a not in self.digits:
            return Polynomial.symbol(a)
        total = Polynomial({})
        for d in self.digits[a]:
            total = total + Polynomial.symbol(d.dim) * d.weight
        return total

    def polynomial(self, root: Expr) -> Polynomial:
        """The value over digits, quotients and remainders resolved."""
        found: dict[Expr, Polynomial] = {}
        for e in postorder(root):
            if is_of_sizes(e):
                found[e] = of_sizes(e)
            else:
                found[e] = self._combine(e, [found[c] for c in children(e)])
        return found[root]

    def _combine(self, e: Expr, args: list[Polynomial]) -> Polynomial:
        if isinstance(e, Axis):
            return self._sum(e)
        if not isinstance(e, Call) or not e.dtype.is_integer:
            raise _Opaque
        match e.op:
            case "add":
                return args[0] + args[1]
            case "sub":
                return args[0] - args[1]
            case "neg":
                return -args[0]
            case "mul":
                return args[0] * args[1]
            case "floordiv" | "mod":
                quotient, rest = self._divide(args[0], args[1], merging=True)
                return quotient if e.op == "floordiv" else rest
        raise _Opaque

    def _divide(
        self, p: Polynomial, divisor: Polynomial, merging: bool = False
    ) -> tuple[Polynomial, Polynomial]:
        """(q, r) with p = q*divisor + r and 0 <= r < divisor; splits an axis to get there."""
        if len(divisor.terms) != 1:
            raise _Opaque
        if p in self.merged:
            p = self._sum(self.merged[p])
        ((factor, scale),) = divisor.terms.items()
        if scale <= 0 or any(s not in self.positive for s, _ in factor):
            raise _Opaque
        whole, rest = p.separate(divisor)
        if self._is_within(rest, divisor):
            return whole, rest
        if merging and self.merges_first:
            self._merge(p)
        for monomial, c in rest.terms.items():
            self._split_in(monomial, c, divisor)
        if merging:
            self._merge(p)
        raise _Opaque

    def _is_within(self, p: Polynomial, limit: Polynomial) -> bool:
        """Whether 0 <= p < limit is evident."""
        low, high = Polynomial({}), Polynomial({})
        for monomial, c in p.terms.items():
            axes = [(s, n) for s, n in monomial if isinstance(s, Axis)]
            sizes = tuple([(s, n) for s, n in monomial if not isinstance(s, Axis)])
            if not axes:
                low, high = low + Polynomial({monomial: c}), high + Polynomial({monomial: c})
                continue
            most = Polynomial({sizes: c})
            for s, n in axes:
                if s not in self.extents:
                    return False
                for _ in range(n):
                    most = most * (self.extents[s] - 1)
            if c > 0:
                high = high + most
            else:
                low = low + most
        return self._is_natural(low) and self._is_natural(limit - high - 1)

    def _is_natural(self, p: Polynomial) -> bool:
        """Whether p >= 0 once all of its symbols are >= 1."""
        symbols = {s for m in p.terms for s, _ in m}
        for s in symbols:
            if s not in self.positive:
                return False
            p = p.replace(s, Polynomial.symbol(s) + 1)
        return all(c >= 0 for c in p.terms.values())

    # Splitting

    def _split_in(self, monomial: Monomial, c: Fraction, divisor: Polynomial) -> None:
        """Split the axis of one term where its multiples of the divisor begin.

        Raises:
            _Again: it was split.
        """
        found = [s for s, _ in monomial if isinstance(s, Axis)]
        if len(found) != 1 or found[0] not in self.extents or c <= 0:
            return
        dim = found[0]
        coefficient = Polynomial({tuple([t for t in monomial if t[0] is not dim]): c})
        low, left = divisor.separate(coefficient)
        if left != 0 or low == 1 or len(low.terms) != 1:
            return
        high, left = self.extents[dim].separate(low)
        if left != 0 or high == 1:
            return
        owner = next((a for a, ds in self.digits.items() if any(d.dim is dim for d in ds)), dim)
        if owner in self.fixed:
            return
        self._split(owner, dim, low, high)
        raise _Again

    def _split(self, owner: Axis, dim: Axis, low: Polynomial, high: Polynomial) -> None:
        """dim = upper digit * low + lower digit."""
        old = self.digits.get(owner, [_Digit(owner, _ONE, self.extents[owner])])
        new: list[_Digit] = []
        for d in old:
            if d.dim is not dim:
                new.append(d)
                continue
            for weight, extent in ((d.weight * low, high), (d.weight, low)):
                a = axis(f"{owner.name}{len(new)}", ZERO, to_expr(extent))
                new.append(_Digit(a, weight, extent))
                self._enter(new[-1])
        self.digits[owner] = new

    def _merge(self, p: Polynomial) -> None:
        """Make one axis of inner axes whose mixed-radix number p is.

        Raises:
            _Again: they are one axis now.
        """
        parts: list[_Digit] = []
        total, weight = Polynomial({}), _ONE
        while total != p:
            found = [a for a in self.inner if self._has_weight(p, a, weight)]
            if len(found) != 1 or found[0] in self.digits or found[0] in self.fixed:
                return
            extent = self.extents[found[0]]
            parts.append(_Digit(found[0], weight, extent))
            total, weight = total + Polynomial.symbol(found[0]) * weight, weight * extent
        if len(parts) < 2:
            return
        a = axis("".join([d.dim.name for d in reversed(parts)]), ZERO, to_expr(weight))
        self.merged[p] = a
        self.parts[a] = parts
        self._enter(_Digit(a, _ONE, weight))
        gone = {d.dim for d in parts}
        self.inner = [*[b for b in self.inner if b not in gone], a]
        raise _Again

    def _has_weight(self, p: Polynomial, a: Axis, weight: Polynomial) -> bool:
        found = p.coefficients_of(a)
        return a in self.extents and len(found) == 2 and found[1] == weight

    def _equate(self, left: Polynomial, right: Polynomial) -> list[Expr]:
        """left == right as equations without products, if the digits allow."""
        if is_linear(left - right):
            return [equation(left, right)]
        for modulus in moduli(left, right):
            try:
                (q, r), (s, t) = self._divide(left, modulus), self._divide(right, modulus)
            except _Opaque:
                continue
            return [*self._equate(r, t), *self._equate(q, s)]
        raise _Opaque

    # The problem over digits

    def result(self, conditions: Sequence[Sequence[Expr]]) -> Digits | None:
        """The rewritten problem; sums and products of sizes that isl cannot take get names."""
        mapping: dict[Expr, Expr] = {}
        for a in self.outer:
            for d in self.digits.get(a, ()):
                mapping[d.dim] = self._digit_of(a, d, a)
        values: dict[Expr, Expr] = {
            a: to_expr(self._sum(a)) for a in self.inner if a in self.digits
        }
        for a, parts in self.parts.items():
            number = values.pop(a, a)
            values.update({d.dim: self._digit_of(a, d, number) for d in parts})
        names = Names()
        outer = [names.axis(a) for a in self._replaced(self.outer)]
        inner = [names.axis(a) for a in self._replaced(self.inner)]
        written = [[names.linear(p) for p in group] for group in conditions]
        if not self.digits and not names.sizes:
            return None
        gone = {d.dim for parts in self.parts.values() for d in parts}
        if any(a in gone for group in written for a in free_leaves(*group)):
            return None
        for old, new in names.axes.items():
            mapping[new] = mapping.get(old, old)
        mapping.update({new: old for old, new in names.sizes.items()})
        return Digits(outer, inner, written, values, mapping)

    def _replaced(self, axes: Sequence[Axis]) -> list[Axis]:
        found: list[Axis] = []
        for a in axes:
            found += [d.dim for d in self.digits[a]] if a in self.digits else [a]
        return found

    def _digit_of(self, a: Axis, d: _Digit, number: Expr) -> Expr:
        shifted = number if d.weight == 1 else floordiv(number, to_expr(d.weight))
        top = d.weight * d.extent == self.extents[a]
        return shifted if top else mod(shifted, to_expr(d.extent))
