"""Dual numbers in plain Python: the oracle of folds, which shares nothing with the library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.workloads.combiner_cases import Case, State


class Dual:
    """A number with its derivatives by all inputs, and for each the sum of |terms| in it.

    Comparisons look at the number alone.
    """

    def __init__(self, a: Any, b: Any = 0.0, size: Any = None) -> None:
        self.a, self.b = np.float64(a), b
        self.size = np.abs(b) if size is None else size

    @staticmethod
    def of(x: Any) -> Dual:
        return x if isinstance(x, Dual) else Dual(x)

    def through(self, value: Any, slope: Any) -> Dual:
        """f(self) from its value and slope."""
        return Dual(value, self.b * slope, self.size * abs(slope))

    def __add__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.a + o.a, self.b + o.b, self.size + o.size)

    def __sub__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.a - o.a, self.b - o.b, self.size + o.size)

    def __mul__(self, other: Any) -> Dual:
        o = Dual.of(other)
        size = self.size * abs(o.a) + abs(self.a) * o.size
        return Dual(self.a * o.a, self.b * o.a + self.a * o.b, size)

    def __truediv__(self, other: Any) -> Dual:
        o = Dual.of(other)
        q = self.a / o.a
        return Dual(q, (self.b - q * o.b) / o.a, (self.size + abs(q) * o.size) / abs(o.a))

    def __rsub__(self, other: Any) -> Dual:
        return Dual.of(other) - self

    def __rtruediv__(self, other: Any) -> Dual:
        return Dual.of(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        return Dual(-self.a, -self.b, self.size)

    def __lt__(self, other: Any) -> bool:
        return bool(self.a < Dual.of(other).a)

    def __gt__(self, other: Any) -> bool:
        return bool(self.a > Dual.of(other).a)


class DualFunctions:
    """te's functions for dual numbers, with the contract's rules at ties and for NaN."""

    @staticmethod
    def exp(x: Dual) -> Dual:
        return x.through(np.exp(x.a), np.exp(x.a))

    @staticmethod
    def log(x: Dual) -> Dual:
        return x.through(np.log(x.a), 1 / x.a)

    @staticmethod
    def sin(x: Dual) -> Dual:
        return x.through(np.sin(x.a), np.cos(x.a))

    @staticmethod
    def sqrt(x: Dual) -> Dual:
        return x.through(np.sqrt(x.a), 0.5 / np.sqrt(x.a))

    @staticmethod
    def tanh(x: Dual) -> Dual:
        return x.through(np.tanh(x.a), 1 - np.tanh(x.a) ** 2)

    @staticmethod
    def log1p(x: Dual) -> Dual:
        return x.through(np.log1p(x.a), 1 / (1 + x.a))

    @staticmethod
    def abs(x: Dual) -> Dual:
        return x.through(abs(x.a), np.sign(x.a))

    @staticmethod
    def maximum(x: Any, y: Any) -> Dual:
        x, y = Dual.of(x), Dual.of(y)
        return y if y.a > x.a or (math.isnan(y.a) and not math.isnan(x.a)) else x

    @staticmethod
    def minimum(x: Any, y: Any) -> Dual:
        x, y = Dual.of(x), Dual.of(y)
        return y if y.a < x.a or (math.isnan(y.a) and not math.isnan(x.a)) else x

    @staticmethod
    def select(c: bool, x: Any, y: Any) -> Any:
        return x if c else y


def oracle(
    case: Case, inputs: Sequence[np.ndarray], weights: Sequence[float]
) -> tuple[float, np.ndarray, np.ndarray]:
    """(value, derivatives by every input, their sums of |terms|): a left fold of dual numbers.

    Every input has a tangent of its own, so the cost is inputs * steps.
    """
    count, n = len(inputs), len(inputs[0])
    units = np.eye(count * n).reshape(count, n, count * n)
    state: State = tuple([_number(case, c, v) for c, v in enumerate(case.identity)])
    with np.errstate(all="ignore"):
        for k in range(n):
            here = [Dual(a[k], units[m, k]) for m, a in enumerate(inputs)]
            element = case.element(DualFunctions, here, k)
            step = tuple([_number(case, c, v) for c, v in enumerate(element)])
            state = case.step(DualFunctions, state, step)
        total = Dual(0.0, np.zeros(count * n))
        for c, w in zip(case.looked_at, weights, strict=True):
            total = total + Dual.of(state[c]) * w
    shape = (count, n)
    return float(total.a), total.b.reshape(shape), total.size.reshape(shape)


def _number(case: Case, component: int, v: Any) -> Any:
    return v if component in case.integer else Dual.of(v)
