"""Sums of one form compared by listing their points, where all sizes are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorad.ir.expr import Axis
from tensorad.simplify.certify.outcomes import Refuted
from tensorad.simplify.readback.columns import Columns, codes_of
from tensorad.simplify.readback.relations import Part, orders_of

Array = Any
FEW_POINTS: Final = 1 << 13
MOST_POINTS: Final = 1 << 19
_ROUNDING: Final = 1e-5


def compare_points(
    outer: Sequence[Axis],
    one: Sequence[Part],
    other: Sequence[Part],
    groups: Sequence[Sequence[Sequence[int]]],
    most: int = MOST_POINTS,
) -> None:
    """Whether two sums of values of one form have the same places, each with the same number.

    Raises:
        Undecided: the points cannot be listed.
        Refuted: they differ.
    """
    columns = Columns({}, most)
    elements = columns.begin(outer)
    made: list[tuple[Array, ...]] = []
    numbers: list[Array] = []
    for sign, parts in ((1.0, one), (-1.0, other)):
        for p in parts:
            points = columns.along(elements, p.loops, p.where)
            place = [columns.values(e, points) for e in p.place]
            weight = np.full(points.count, sign * float(p.number))
            for e, n in p.weights:
                weight *= columns.values(e, points).astype(float) ** n
            for order in orders_of(groups):
                made.append((points.origin, *[place[k] for k in order]))
                numbers.append(weight)
    rows, weights = [np.concatenate(c) for c in zip(*made, strict=True)], np.concatenate(numbers)
    if not len(weights):
        return
    _, group = np.unique(codes_of(rows, len(weights)), return_inverse=True)
    total = np.bincount(group.ravel(), weights)
    size = np.bincount(group.ravel(), np.abs(weights))
    if (np.abs(total) > _ROUNDING * size).any():
        raise Refuted("a place is not visited as often, or with another factor")
