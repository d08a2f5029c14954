"""Numeric slopes along a direction: central differences that notice kinks and jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorad.checking.report import Array

_GAP: Final = 1e-5
"""One-sided slopes further apart than this (relative) are looked at again with a smaller step."""
_SHRINK: Final = 8.0


@dataclass(frozen=True)
class Slopes:
    """Slopes of every element of a tensor.

    Attributes:
        central: (f(eps) - f(-eps)) / (2 eps).
        kinks: where the one-sided slopes differ whatever the step.
        low, high: the one-sided slopes in order.
    """

    central: Array
    kinks: Array
    low: Array
    high: Array

    @property
    def scale(self) -> float:
        """The largest finite slope away from kinks, at least 1."""
        usable = np.abs(self.central[np.isfinite(self.central) & ~self.kinks])
        return max(1.0, float(usable.max(initial=0.0)))

    def errors(self, found: Array) -> Array:
        """How far `found` is from the slopes, relative to the scale; NaN agrees with NaN."""
        with np.errstate(invalid="ignore"):
            difference = np.abs(found - self.central)
            outside = np.maximum(self.low - found, found - self.high)
        difference = np.where(found == self.central, 0.0, difference)
        difference = np.where(np.isnan(found) & np.isnan(self.central), 0.0, difference)
        difference = np.where(self.kinks, np.maximum(outside, 0.0), difference)
        return np.asarray(np.where(np.isnan(difference), np.inf, difference) / self.scale)

    def at(self, where: tuple[int, ...]) -> float:
        """The central slope of one element."""
        return float(self.central[where])

    def settle(self, found: Array) -> Array:
        """The slopes, `found` at kinks."""
        return np.asarray(np.where(self.kinks, found, self.central))


def exactly(values: Array) -> Slopes:
    """Values that are to be met without kinks."""
    return Slopes(values, np.zeros(values.shape, dtype=bool), values, values)


def slopes(value: Callable[[float], Array], at_zero: Array, eps: float) -> Slopes:
    """The slopes at 0 of a function of one number; `at_zero` is value(0)."""
    with np.errstate(all="ignore"):
        ahead, behind = value(eps), value(-eps)
        central = _change(ahead, behind) / (2 * eps)
        right, left = _change(ahead, at_zero) / eps, _change(at_zero, behind) / eps
        gap = np.asarray(np.abs(right - left))
        finite = central[np.isfinite(central)]
        scale = max(1.0, float(np.abs(np.median(np.abs(finite))) if finite.size else 0.0))
        kinks = np.asarray(gap > _GAP * scale)
        if kinks.any():
            step = eps / _SHRINK
            nearer = _change(value(step), at_zero) - _change(at_zero, value(-step))
            nearer = np.abs(nearer) / step
            shrinks = (nearer <= gap * 2 / _SHRINK) & (nearer >= gap / (2 * _SHRINK))
            kinks = np.asarray(kinks & ~shrinks)
    return Slopes(central, kinks, np.minimum(left, right), np.maximum(left, right))


def _change(a: Array, b: Array) -> Array:
    """a - b; an infinity that stays one does not change."""
    return np.asarray(np.where(a == b, 0.0, a - b))
