"""Sums compared by listing their points, where all sizes are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorad.ir.expr import Axis
from tensorad.simplify.certify.outcomes import Refuted
from tensorad.simplify.readback.columns import codes_of
from tensorad.simplify.readback.instances import Instances
from tensorad.simplify.readback.monomials import Term

Array = Any
FEW_POINTS: Final = 1 << 13
MOST_POINTS: Final = 1 << 18
_ROUNDING: Final = 1e-5


def compare_points(
    outer: Sequence[Axis],
    one: Sequence[Term],
    other: Sequence[Term],
    most: int = MOST_POINTS,
) -> None:
    """Whether two sums are the same products at each element, each with the same number.

    Raises:
        Undecided: the points cannot be listed.
        Refuted: they differ.
    """
    columns = Instances(most)
    elements = columns.begin(outer)
    places: list[Array] = []
    products: list[Array] = []
    numbers: list[Array] = []
    undefined: list[Array] = []
    for sign, terms in ((1.0, one), (-1.0, other)):
        broken = np.zeros(elements.count, dtype=bool)
        for t in terms:
            points = columns.along(elements, t.loops, t.where)
            made, weights = columns.products(t.atoms, points)
            bad = np.isnan(weights)
            broken[points.origin[bad]] = True
            places.append(points.origin)
            products.append(made)
            numbers.append(np.where(bad, 0.0, sign * float(t.number) * weights))
        undefined.append(broken)
    if (undefined[1] & ~undefined[0]).any():
        raise Refuted("it divides by 0 where the naive sum does not")
    if not places:
        return
    rows, weights = [np.concatenate(c) for c in (places, products)], np.concatenate(numbers)
    if not len(weights):
        return
    _, group = np.unique(codes_of(rows, len(weights)), return_inverse=True)
    total = np.bincount(group.ravel(), weights)
    size = np.bincount(group.ravel(), np.abs(weights))
    if (np.abs(total) > _ROUNDING * size).any():
        raise Refuted("a place is not visited as often, or with another factor")
