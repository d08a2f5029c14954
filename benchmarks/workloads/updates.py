"""What a training step does with gradients: plain descent, and Adam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Descent:
    """w - rate g."""

    rate: float = 1e-4
    moments: int = 0

    def corrections(self, module: Any, count: Any) -> list[Any]:
        """None."""
        return []

    def new(
        self, module: Any, w: Any, g: Any, moments: Sequence[Any], corrections: Sequence[Any]
    ) -> list[Any]:
        """The weight."""
        return [w - self.rate * g]


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.

    Attributes:
        moments: arrays kept for each weight, zero at first.
    """

    rate: float = 1e-3
    decays: tuple[float, float] = (0.9, 0.999)
    least: float = 1e-8
    moments: int = 2

    def corrections(self, module: Any, count: Any) -> list[Any]:
        """What both moments are divided by in step `count`, from 1."""
        return [1.0 - module.exp(count * math.log(d)) for d in self.decays]

    def new(
        self, module: Any, w: Any, g: Any, moments: Sequence[Any], corrections: Sequence[Any]
    ) -> list[Any]:
        """The weight and its moments, written with a module's `sqrt`."""
        (first, second), (one, two) = self.decays, corrections
        m = first * moments[0] + (1.0 - first) * g
        v = second * moments[1] + (1.0 - second) * (g * g)
        return [w - self.rate / one * m / (module.sqrt(v / two) + self.least), m, v]


Update = Descent | Adam
