"""What a derivative passes and what it mentions, seen from values of functions in plain Python.

Nothing here has a rule: slopes of a function are differences of its values, and what a slope
mentions is what it changes with.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from statistics import NormalDist
from typing import Any, Final

from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import Apply, Call, Cast, Const, Expr, Param, Select

Values = Sequence[float]
_STEP: Final = 1e-3
_SAME: Final = 1e-2
"""Slopes that differ by less are equal: those of differences are not exact."""


def _slope(f: Callable[[float], float], x: float, step: float = 1e-4) -> float:
    return (f(x + step) - f(x - step)) / (2 * step)


def _digamma(x: float) -> float:
    return _slope(math.lgamma, x)


PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
    "minimum": min, "maximum": max, "pow": math.pow, "neg": operator.neg, "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0), "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": operator.not_,
    "floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc,
    "isnan": math.isnan, "isfinite": math.isfinite, "acos": math.acos, "acosh": math.acosh,
    "asin": math.asin, "asinh": math.asinh, "atan": math.atan, "atan2": math.atan2,
    "atanh": math.atanh, "cbrt": math.cbrt, "cos": math.cos, "cosh": math.cosh,
    "digamma": _digamma, "erf": math.erf, "erfc": math.erfc,
    "erfinv": lambda a: NormalDist().inv_cdf((a + 1) / 2) / math.sqrt(2), "exp": math.exp,
    "exp2": lambda a: 2.0**a, "expm1": math.expm1, "fmod": math.fmod, "lgamma": math.lgamma,
    "log": math.log, "log10": math.log10, "log1p": math.log1p, "log2": math.log2,
    "rsqrt": lambda a: 1 / math.sqrt(a), "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "sin": math.sin, "sinh": math.sinh, "sqrt": math.sqrt, "tan": math.tan, "tanh": math.tanh,
    "trigamma": lambda a: _slope(_digamma, a, 1e-2),
}  # fmt: skip
"""Every operation of the language on Python's numbers."""


def value(e: Expr, given: Mapping[Expr, Any]) -> Any:
    """An expression of parameters."""
    match e:
        case Param():
            return given[e]
        case Const():
            return e.value
        case Select():
            return value(e.then if value(e.cond, given) else e.orelse, given)
        case Cast():
            kind = float if e.dtype.is_float else int
            return kind(value(e.value, given))
        case Call():
            return PLAIN[e.op](*[value(a, given) for a in e.args])
        case Apply():
            inner = zip(e.function.params, [value(a, given) for a in e.args], strict=True)
            return value(e.function.result, dict(inner))
    raise NotImplementedError(f"{type(e).__name__} {e}")


def _samples(count: int) -> Iterator[list[float]]:
    """Arguments of a function: of both signs, between 0 and 1, above 1."""
    rng = random.Random(count)
    for low, high in ((-3.0, 3.0), (0.1, 0.9), (1.1, 3.0), (-0.9, 0.9)):
        for _ in range(12):
            yield [rng.uniform(low, high) for _ in range(count)]


def _slopes(f: Callable[..., Any], at: Values) -> list[float] | None:
    """Of a function by each argument; None outside of its domain."""
    try:
        found = []
        for n in range(len(at)):
            up, down = ([*at[:n], at[n] + d, *at[n + 1 :]] for d in (_STEP, -_STEP))
            found.append(float(f(*up) - f(*down)) / (2 * _STEP))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return found


def _differ(a: float, b: float) -> bool:
    return abs(a - b) > _SAME * max(1.0, abs(a), abs(b))


@cache
def moving(op: str, count: int) -> tuple[bool, ...]:
    """For each argument of an operation whether its result changes smoothly with it."""
    found = [s for s in (_slopes(PLAIN[op], at) for at in _samples(count)) if s is not None]
    assert len(found) >= 6, op
    jumps = [[abs(v) * _STEP > 0.1 for v in s] for s in found]  # floor just beside an integer
    pairs = [zip(s, j, strict=True) for s, j in zip(found, jumps, strict=True)]
    moved = [[_differ(v, 0.0) and not jump for v, jump in pair] for pair in pairs]
    return tuple([any(column) for column in zip(*moved, strict=True)])


@cache
def mentioned(op: str, count: int) -> tuple[tuple[bool, ...], ...]:
    """For each argument of an operation, which arguments the slope by it changes with."""
    found = [[False] * count for _ in range(count)]
    samples = list(_samples(count))
    for n, m in product(range(count), repeat=2):
        for at, other in pairwise(samples):
            here = _slopes(PLAIN[op], at)
            there = _slopes(PLAIN[op], [*at[:m], other[m], *at[m + 1 :]])
            if here is not None and there is not None and _differ(here[n], there[n]):
                found[n][m] = True
    return tuple([tuple(row) for row in found])


class Fold:
    """A combiner, seen from what it makes of numbers."""

    def __init__(self, combiner: Combiner) -> None:
        self.combiner = combiner
        self.params = (*combiner.lhs, *combiner.rhs)
        self.floats = [p for p in self.params if p.dtype.is_float]
        self._rows = {
            n: [self._row(n, seed) for seed in range(60)]
            for n, r in enumerate(combiner.results)
            if r.dtype.is_float
        }

    def _given(self, seed: int) -> dict[Expr, Any]:
        rng = random.Random(seed)
        low = -2.0 if seed % 2 else 0.1
        return {
            p: rng.uniform(low, 2.0) if p.dtype.is_float else rng.randint(-1, 4)
            for p in self.params
        }

    def _row(self, n: int, seed: int) -> dict[Param, float]:
        """The slopes of one result by all float operands."""
        given = self._given(seed)

        def f(*values: float) -> Any:
            now = given | dict(zip(self.floats, values, strict=True))
            return value(self.combiner.results[n], now)

        found = _slopes(f, [given[p] for p in self.floats])
        return {} if found is None else dict(zip(self.floats, found, strict=True))

    def reached(self, n: int) -> list[Param]:
        """The operands that a result changes smoothly with."""
        return [p for p in self.floats if any(_differ(r.get(p, 0), 0) for r in self._rows[n])]

    def components(self, wanted: Sequence[int]) -> list[int]:
        """Those of the state that the wanted ones depend on, from step to step."""
        c = self.combiner
        place = {p: n for n, p in enumerate(c.lhs)}
        if len(c.lhs) == len(c.rhs):
            place |= {p: n for n, p in enumerate(c.rhs)}
        found: list[int] = []
        stack = [n for n in wanted if n in self._rows]
        while stack:
            n = stack.pop()
            if n not in found:
                found.append(n)
                stack.extend([place[p] for p in self.reached(n) if p in place])
        return sorted(found)

    def elements(self, components: Sequence[int]) -> list[int]:
        """The right operands that these components change smoothly with."""
        reached = {p for n in components for p in self.reached(n)}
        return [m for m, p in enumerate(self.combiner.rhs) if p in reached]

    def walks(self, components: Sequence[int]) -> int:
        """0 for sums, 1 where the result is one of the operands, 2 otherwise."""
        rows = [(n, r) for n in components for r in self._rows[n] if r]
        if all(self._adds(n, r) for n, r in rows):
            return 0
        return 1 if all(self._selects(r) for _, r in rows) else 2

    def _adds(self, n: int, row: Mapping[Param, float]) -> bool:
        c = self.combiner
        own = {c.lhs[n], c.rhs[n]} if n < len(c.rhs) else set()
        return bool(own) and not any(_differ(v, float(p in own)) for p, v in row.items())

    def _selects(self, row: Mapping[Param, float]) -> bool:
        slopes = [v for v in row.values() if _differ(v, 0.0)]
        return not slopes or (len(slopes) == 1 and not _differ(slopes[0], 1.0))


@cache
def fold(combiner: Combiner) -> Fold:
    """What is known of a combiner."""
    return Fold(combiner)
