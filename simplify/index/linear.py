"""Linear combinations of index expressions, and how they read as expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import TRUE, Axis, Call, Const, Expr, add, floordiv, int_const, mod, mul, sub


class Linear:
    """sum of coefficient * leaf, plus a constant; leaves may be floor divisions or remainders."""

    def __init__(self, terms: Mapping[Expr, int], constant: int) -> None:
        self.terms = {leaf: c for leaf, c in terms.items() if c}
        self.constant = constant

    def drop(self, leaf: Expr) -> None:
        """Remove one leaf's term."""
        self.terms.pop(leaf, None)

    def scaled(self, factor: int) -> Linear:
        """factor * self."""
        return Linear({e: factor * c for e, c in self.terms.items()}, factor * self.constant)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        terms = dict(self.terms)
        for e, c in other.terms.items():
            terms[e] = terms.get(e, 0) + factor * c
        return Linear(terms, self.constant + factor * other.constant)

    def split_signs(self) -> tuple[Linear, Linear]:
        """(p, n) with self = p - n and no negative coefficient in either."""
        up = {e: c for e, c in self.terms.items() if c > 0}
        down = {e: -c for e, c in self.terms.items() if c < 0}
        constant = self.constant
        return Linear(up, max(constant, 0)), Linear(down, max(-constant, 0))

    def to_expr(self) -> Expr:
        """Positive terms, negative ones, the constant (first if all else is negative)."""
        positive = [mul(int_const(c), e) for e, c in self.terms.items() if c > 0]
        start, end = (0, self.constant) if positive or self.constant < 0 else (self.constant, 0)
        result: Expr = int_const(start)
        for e in positive:
            result = add(result, e)
        for e, c in self.terms.items():
            if c < 0:
                result = sub(result, mul(int_const(-c), e))
        return add(result, int_const(end))


def modulo_form(linear: Linear, factor: int, numerator: Linear, divisor: int) -> Linear:
    """linear + factor * (numerator // divisor), as a remainder where that is shorter.

    t*n - t*d*(n // d) -> t*(n % d), applied when it removes terms of `linear`.
    """
    if factor % divisor == 0 and numerator.terms:
        t = -factor // divisor
        rest = linear.plus(numerator, -t)
        if len(rest.terms) < len(linear.terms):
            remainder = mod(numerator.to_expr(), int_const(divisor))
            return rest.plus(Linear({remainder: t}, 0))
    quotient = floordiv(numerator.to_expr(), int_const(divisor))
    return linear.plus(Linear({quotient: factor}, 0))


def about_remainder(linear: Linear, *, equal: bool) -> Expr | None:
    """linear == 0 (or >= 0) for one remainder and a constant, as a person would write it.

    (e + c) % d == k is e % d == (k - c) % d, and (e + c) % d >= c is e % d < d - c.
    """
    if len(linear.terms) != 1:
        return None
    ((leaf, factor),) = linear.terms.items()
    if not isinstance(leaf, Call) or leaf.op != "mod" or not isinstance(leaf.args[1], Const):
        return None
    divisor = int(leaf.args[1].value)
    form = linear_form(leaf.args[0])
    if not equal and min(linear.constant, linear.constant + factor * (divisor - 1)) >= 0:
        return TRUE
    shift = form.constant % divisor
    plain = mod(Linear(form.terms, 0).to_expr(), leaf.args[1])
    if equal and abs(factor) == 1:
        return plain == int_const((-linear.constant * factor - shift) % divisor)
    if not equal and factor == 1 and shift and -linear.constant == shift:
        return plain < divisor - shift
    return None


def floor_div(numerator: Linear, divisor: int) -> Expr:
    """numerator // divisor."""
    return floordiv(numerator.to_expr(), int_const(divisor))


def ceil_div(numerator: Linear, divisor: int) -> Expr:
    """numerator / divisor rounded up, for a divisor > 0."""
    if divisor == 1:
        return numerator.to_expr()
    return floor_div(Linear(numerator.terms, numerator.constant + divisor - 1), divisor)


def linear_form(root: Expr) -> Linear:
    """The int64 expression as a linear combination; nonlinear parts are leaves."""
    if type(root) is Axis:
        return Linear({root: 1}, 0)
    found = _short_form(root)
    return _shared_form(root) if found is None else found


_SHORT_STEPS: Final = 48


def _short_form(root: Expr) -> Linear | None:
    """The same for short sums, every use of a shared part walked; None for long ones."""
    terms: dict[Expr, int] = {}
    constant = 0
    stack = [(root, 1)]
    for _ in range(_SHORT_STEPS):
        if not stack:
            return Linear(terms, constant)
        e, factor = stack.pop()
        kind = type(e)
        if kind is Const and e.dtype is INT64:
            constant += factor * e.value  # type: ignore[attr-defined]  # of a constant
            continue
        parts = linear_parts(e) if kind is Call else ()
        if not parts:
            terms[e] = terms.get(e, 0) + factor
            continue
        match e.op:  # type: ignore[attr-defined]  # of a call
            case "add" | "sub":
                second = factor if e.op == "add" else -factor  # type: ignore[attr-defined]
                stack.extend(((parts[1], second), (parts[0], factor)))
            case "neg":
                stack.append((parts[0], -factor))
            case _:
                number = next(a for a in e.args if isinstance(a, Const))  # type: ignore[attr-defined]
                stack.append((parts[0], factor * int(number.value)))
    return None


def _shared_form(root: Expr) -> Linear:
    """The same with every distinct part walked once."""
    memo: dict[Expr, Linear] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        parts = linear_parts(e)
        missing = [p for p in parts if p not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        memo[e] = _combine(e, [memo[p] for p in parts])
    return memo[root]


def linear_parts(e: Expr) -> tuple[Expr, ...]:
    """The operands of a sum, a difference, a negation or a constant multiple of index dtype."""
    if type(e) is Call and e.dtype is INT64:
        if e.op in ("add", "sub", "neg"):
            return e.args
        if e.op == "mul":
            a, b = e.args
            return (b,) if isinstance(a, Const) else (a,) if isinstance(b, Const) else ()
    return ()


def _combine(e: Expr, parts: list[Linear]) -> Linear:
    if isinstance(e, Const) and e.dtype is INT64:
        return Linear({}, int(e.value))
    if not parts or not isinstance(e, Call):
        return Linear({e: 1}, 0)
    match e.op:
        case "add":
            return parts[0].plus(parts[1])
        case "sub":
            return parts[0].plus(parts[1], -1)
        case "neg":
            return parts[0].scaled(-1)
    factor = next(a for a in e.args if isinstance(a, Const))
    return parts[0].scaled(int(factor.value))


def common_terms(forms: Sequence[Linear]) -> Linear:
    """The terms that all forms have with the same coefficient, without constants."""
    first, *rest = forms
    terms = {e: c for e, c in first.terms.items() if all(f.terms.get(e) == c for f in rest)}
    return Linear(terms, 0)
