"""Random index expressions: affine, divided, wrapped, clamped, guarded; constant and symbolic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import TRUE, Axis, Const, Expr, call, const, logical_and
from tensorad.ir.tensor import Dim


@dataclass(frozen=True)
class Index:
    """An index expression with the interval [lo, hi] of its values (None: symbolic)."""

    expr: Expr
    lo: int | None
    hi: int | None


class Indices:
    """Writes indices; all randomness comes from `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def index(self, n: Dim, scope: Sequence[Index]) -> tuple[Expr, Expr]:
        """An index into an axis of extent n, and the condition under which it is in bounds."""
        if not isinstance(n, int):
            return self.symbolic_index(n, scope)
        known = [s for s in scope if s.lo is not None]
        same = [s.expr for s in known if s.hi == n - 1 and s.lo == 0]
        if same and self.rng.random() < 0.5:
            return self.rng.choice(same), TRUE
        symbolic = [s.expr for s in scope if s.lo is None]
        if symbolic and (not known or self.rng.random() < 0.3):
            e = self.rng.choice(symbolic)
            return (e % n, TRUE) if n and self.rng.random() < 0.5 else (e, _inside(e, n))
        return self.fit(self.affine(known), n)

    def affine(self, scope: Sequence[Index]) -> Index:
        """c0 + c1*i + c2*j, sometimes divided, with negative coefficients."""
        rng = self.rng
        base = rng.randint(-2, 3)
        e, lo, hi = const(base, INT64), base, base
        result: Expr = e
        for s in rng.sample(list(scope), min(len(scope), rng.choice((0, 1, 1, 1, 2, 2)))):
            c = rng.choice((1, 1, 1, 1, -1, -1, 2, 3, -2))
            ends = (c * (s.lo or 0), c * (s.hi or 0))
            result, lo, hi = result + s.expr * c, lo + min(ends), hi + max(ends)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            d = rng.randint(2, 5)
            if rng.random() < 0.5:
                result, lo, hi = result // d, lo // d, hi // d
            elif lo // d == hi // d:
                result, lo, hi = result % d, lo % d, hi % d
            else:
                result, lo, hi = result % d, 0, d - 1
        return Index(result, lo, hi)

    def fit(self, index: Index, n: int) -> tuple[Expr, Expr]:
        """Shift, wrap, divide, clamp or guard the index into [0, n)."""
        e, lo, hi = index.expr, index.lo or 0, index.hi or 0
        if hi - lo < n and self.rng.random() < 0.8:
            return e + self.rng.randint(-lo, n - 1 - hi), TRUE
        kind = self.rng.choice(("wrap", "clamp", "divide", "guard", "guard")) if n else "guard"
        match kind:
            case "wrap":
                return e % n, TRUE
            case "clamp":
                lower = call("maximum", e, const(0, INT64))
                return call("minimum", lower, const(n - 1, INT64)), TRUE
            case "divide":
                return (e - lo) // ((hi - lo) // n + 1), TRUE
        return e, _inside(e, n)

    def symbolic_index(self, n: Expr, scope: Sequence[Index]) -> tuple[Expr, Expr]:
        """An index into an axis of symbolic extent: valid for every size, or guarded."""
        rng = self.rng
        axes = [s.expr for s in scope if isinstance(s.expr, Axis)]
        same = [a for a in axes if a.lower is const(0, INT64) and a.upper is n]
        if not same or rng.random() < 0.2:
            e = rng.choice(axes) + rng.randint(-1, 1) if axes else const(0, INT64)
            return e, _inside(e, n)
        a: Expr = rng.choice(same)
        c = rng.randint(1, 3)
        return rng.choice(
            (
                (a, TRUE),
                (a, TRUE),
                (n - 1 - a, TRUE),
                (call("minimum", a + c, n - 1), TRUE),
                (call("maximum", a - c, const(0, INT64)), TRUE),
                (a // (c + 1), TRUE),
                (a - a % (c + 1), TRUE),
                (a - c, a - c >= 0),
            )
        )


def axis_index(a: Axis) -> Index:
    """An axis with its interval; an empty one counts as its lower bound."""
    if isinstance(a.lower, Const) and isinstance(a.upper, Const):
        return Index(a, int(a.lower.value), max(int(a.lower.value), int(a.upper.value) - 1))
    return Index(a, None, None)


def _inside(e: Expr, n: Dim) -> Expr:
    return logical_and(e >= 0, e < n)
