"""Errors of one comparison: the worst, the first beyond the tolerance, and what to say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorad.checking.report import Array, Disagreement, Row, place_text
from tensorad.checking.slopes import Slopes


class Tally:
    """A derivative computed in some mode, compared element by element.

    Args:
        derivative: of what by what.
        mode: "forward", "reverse" or a finer name.
        tol: the allowed error, relative to the largest value compared (at least 1).
    """

    def __init__(self, derivative: str, mode: str, tol: float) -> None:
        self.derivative = derivative
        self.mode = mode
        self.tol = tol
        self.values = 0
        self.kinks = 0
        self.error = 0.0
        self.place = ""
        self.bad: tuple[str, float, float] | None = None
        """The first wrong element: its name, what was found, what was expected."""

    def add(self, name: str, found: Array, expected: Slopes) -> None:
        """Compare arrays; elements at kinks must lie between the one-sided slopes."""
        errors = expected.errors(found)
        self.values += errors.size
        self.kinks += int(expected.kinks.sum())
        if not errors.size:
            return
        worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
        self._worst(float(errors[worst]), place_text(name, _index(worst)))
        wrong = np.argwhere(errors > self.tol)
        if len(wrong) and self.bad is None:
            where = _index(wrong[0])
            self.bad = (place_text(name, where), float(found[where]), expected.at(where))

    def add_one(self, place: str, found: float, expected: float, scale: float) -> None:
        """Compare two numbers."""
        error = distance(found, expected) / scale
        self.values += 1
        self._worst(error, place)
        if error > self.tol and self.bad is None:
            self.bad = (place, found, expected)

    def _worst(self, error: float, place: str) -> None:
        if error >= self.error:
            self.error, self.place = error, place

    def row(self) -> Row:
        """The line of the report."""
        return Row(self.derivative, self.mode, self.values, self.error, self.place, self.kinks)

    def settled(self) -> Row:
        """The line of the report.

        Raises:
            Disagreement: an element is wrong.
        """
        if self.bad is None:
            return self.row()
        place, found, expected = self.bad
        y, x = self.derivative.split(" by ")
        kind = self.mode if " " in self.mode else f"{self.mode} mode"
        raise Disagreement(
            f"{kind} disagrees for {y} by {x}: {place} is {found:.9g}, expected "
            f"{expected:.9g} (tolerance {self.tol:g}).",
            self.row(),
        )


def _index(where: Iterable[Any]) -> tuple[int, ...]:
    return tuple([int(i) for i in where])


def distance(a: float, b: float) -> float:
    """|a - b|; NaN agrees with NaN, an infinity with itself."""
    if a == b or (np.isnan(a) and np.isnan(b)):
        return 0.0
    difference = abs(a - b)
    return float("inf") if np.isnan(difference) else difference


def scale_of(*arrays: Array) -> float:
    """The largest finite absolute value, at least 1."""
    finite = [float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays]
    return max([1.0, *finite])
