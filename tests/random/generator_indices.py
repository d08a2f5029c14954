"""Random index expressions: affine, divided, wrapped, clamped, reflected, looked up, guarded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorad import te
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import TRUE, Axis, Const, Expr, call, const, logical_and, select
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
        self.features: set[str] = set()
        """Names of the index forms written so far."""

    def tuple_of(self, shape: Sequence[Dim], scope: Sequence[Index]) -> tuple[list[Expr], Expr]:
        """Indices into every axis of a shape, sometimes a diagonal, and where they are valid."""
        indices: list[Expr] = []
        conditions: list[Expr] = []
        for d, n in enumerate(shape):
            before = [e for e, m in zip(indices, shape[:d], strict=True) if m is n]
            if before and self.rng.random() < 0.12:
                self.features.add("diagonal")
                indices.append(before[-1])
                continue
            e, condition = self.index(n, scope)
            indices.append(e)
            conditions.append(condition)
        return indices, logical_and(*conditions)

    def index(self, n: Dim, scope: Sequence[Index]) -> tuple[Expr, Expr]:
        """An index into an axis of extent n, and the condition under which it is in bounds."""
        if not isinstance(n, int):
            return self.symbolic_index(n, scope)
        known = [s for s in scope if s.lo is not None]
        same = [s.expr for s in known if s.hi == n - 1 and s.lo == 0]
        if same and self.rng.random() < 0.45:
            return self.rng.choice(same), TRUE
        symbolic = [s.expr for s in scope if s.lo is None]
        if symbolic and (not known or self.rng.random() < 0.3):
            e = self.rng.choice(symbolic)
            return (e % n, TRUE) if n and self.rng.random() < 0.5 else (e, _inside(e, n))
        return self.fit(self.form(known), n)

    def form(self, scope: Sequence[Index]) -> Index:
        """An affine or divided index, or one of two by a condition on an axis."""
        first = self.affine(scope)
        if not scope or self.rng.random() > 0.08:
            return first
        self.features.add("piecewise")
        second, s = self.affine(scope), self.rng.choice(list(scope))
        middle = ((s.lo or 0) + (s.hi or 0) + 1) // 2
        condition = self.rng.choice((s.expr < middle, s.expr % 2 == 0, s.expr != middle))
        lo = min(first.lo or 0, second.lo or 0)
        hi = max(first.hi or 0, second.hi or 0)
        return Index(select(condition, first.expr, second.expr), lo, hi)

    def affine(self, scope: Sequence[Index]) -> Index:
        """c0 + c1*i + c2*j, with negative coefficients, divided and wrapped up to three times."""
        rng = self.rng
        base = rng.randint(-2, 3)
        result = Index(const(base, INT64), base, base)
        for s in rng.sample(list(scope), min(len(scope), rng.choice((0, 1, 1, 1, 2, 2, 3)))):
            result = _plus(result, s, rng.choice((1, 1, 1, 1, -1, -1, 2, 3, -2)))
        for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 1, 2, 3))):
            result = self.divided(result)
            if scope and rng.random() < 0.25:
                result = _plus(result, rng.choice(list(scope)), rng.choice((1, -1, 2, 3)))
        return result

    def divided(self, index: Index) -> Index:
        """The quotient or the remainder by a small number."""
        d = self.rng.randint(2, 5)
        self.features.add("divided")
        e, lo, hi = index.expr, index.lo or 0, index.hi or 0
        if self.rng.random() < 0.5:
            return Index(e // d, lo // d, hi // d)
        if lo // d == hi // d:
            return Index(e % d, lo % d, hi % d)
        return Index(e % d, 0, d - 1)

    def fit(self, index: Index, n: int) -> tuple[Expr, Expr]:
        """Shift, wrap, divide, clamp, reflect, look up or guard the index into [0, n)."""
        rng = self.rng
        e, lo, hi = index.expr, index.lo or 0, index.hi or 0
        if hi - lo < n and rng.random() < 0.8:
            return e + rng.randint(-lo, n - 1 - hi), TRUE
        kinds = ("wrap", "clamp", "divide", "reflect", "edges", "table", "guard", "guard", "guard")
        kind = rng.choice(kinds) if n else "guard"
        self.features.add(kind)
        match kind:
            case "wrap":
                return e % n, TRUE
            case "clamp":
                lower = call("maximum", e, const(0, INT64))
                return call("minimum", lower, const(n - 1, INT64)), TRUE
            case "divide":
                return (e - lo) // ((hi - lo) // n + 1), TRUE
            case "reflect":
                period = max(1, 2 * (n - 1))
                return call("minimum", e % period, period - e % period), TRUE
            case "edges":
                mirrored = select(e < 0, -e, select(e > n - 1, 2 * (n - 1) - e, e))
                return mirrored, TRUE if lo > -n and hi <= 2 * (n - 1) else _inside(mirrored, n)
            case "table":
                return self.looked_up(Index(e, lo, hi), n), TRUE
        return e, _inside(e, n)

    def looked_up(self, index: Index, n: int) -> Expr:
        """An entry of a constant table of positions, some of them repeated."""
        length = self.rng.randint(1, 6)
        table = te.const(np.array([self.rng.randrange(n) for _ in range(length)], dtype="int64"))
        return table[index.expr % length]

    def symbolic_index(self, n: Expr, scope: Sequence[Index]) -> tuple[Expr, Expr]:
        """An index into an axis of symbolic extent: valid for every size, or guarded."""
        rng = self.rng
        axes = [s.expr for s in scope if isinstance(s.expr, Axis)]
        same = [a for a in axes if a.lower is const(0, INT64) and a.upper is n]
        if not same or rng.random() < 0.2:
            return self.guarded_symbolic(n, axes)
        a: Expr = rng.choice(same)
        c = rng.randint(1, 3)
        return rng.choice(
            (
                (a, TRUE),
                (a, TRUE),
                (n - 1 - a, TRUE),
                (call("minimum", a + c, n - 1), TRUE),
                (call("maximum", a - c, const(0, INT64)), TRUE),
                (select(a + c < n, a + c, a), TRUE),
                (a // (c + 1), TRUE),
                (a - a % (c + 1), TRUE),
                (a - c, a - c >= 0),
            )
        )

    def guarded_symbolic(self, n: Expr, axes: Sequence[Expr]) -> tuple[Expr, Expr]:
        """An affine index of the axes, a constant without axes, where it is inside."""
        rng = self.rng
        if not axes:
            return const(0, INT64), _inside(const(0, INT64), n)
        e = rng.choice(axes) * rng.choice((1, 1, 1, 2, -1)) + rng.randint(-1, 1)
        if rng.random() < 0.3:
            e = e + rng.choice(axes)
        return e, _inside(e, n)


def axis_index(a: Axis) -> Index:
    """An axis with its interval; an empty one counts as its lower bound."""
    if isinstance(a.lower, Const) and isinstance(a.upper, Const):
        return Index(a, int(a.lower.value), max(int(a.lower.value), int(a.upper.value) - 1))
    return Index(a, None, None)


def _plus(index: Index, term: Index, factor: int) -> Index:
    """index + factor * term."""
    ends = (factor * (term.lo or 0), factor * (term.hi or 0))
    e = index.expr + term.expr * factor
    return Index(e, (index.lo or 0) + min(ends), (index.hi or 0) + max(ends))


def _inside(e: Expr, n: Dim) -> Expr:
    return logical_and(e >= 0, e < n)
