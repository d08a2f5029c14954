"""Sums of one form compared by listing their points, where all sizes are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorad.ir.expr import Axis
from tensorad.simplify.certify.outcomes import Refuted
from tensorad.simplify.readback.columns import Columns
from tensorad.simplify.readback.relations import Part, orders_of

Array = Any
_MOST_POINTS: Final = 1 << 19
_ROUNDING: Final = 1e-5


def compare_points(
    outer: Sequence[Axis],
    one: Sequence[Part],
    other: Sequence[Part],
    groups: Sequence[Sequence[Sequence[int]]],
) -> None:
    """Whether two sums of values of one form have the same places, each with the same number.

    Raises:
        Undecided: the points cannot be listed.
        Refuted: they differ.
    """
    columns = Columns({}, _MOST_POINTS)
    elements = columns.begin(outer)
    rows: list[Array] = []
    numbers: list[Array] = []
    for sign, parts in ((1.0, one), (-1.0, other)):
        for p in parts:
            points = columns.along(elements, p.loops, p.where)
            place = [columns.values(e, points) for e in p.place]
            weight = np.ones(points.count)
            for e, n in p.weights:
                weight *= columns.values(e, points).astype(float) ** n
            for order in orders_of(groups):
                rows.append(np.stack([points.origin, *[place[k] for k in order]], axis=1))
                numbers.append(sign * float(p.number) * weight)
    every, weights = np.concatenate(rows), np.concatenate(numbers)
    if not len(every):
        return
    _, group = np.unique(every, axis=0, return_inverse=True)
    total = np.bincount(group.ravel(), weights)
    size = np.bincount(group.ravel(), np.abs(weights))
    if (np.abs(total) > _ROUNDING * size).any():
        raise Refuted("a place is not visited as often, or with another factor")
