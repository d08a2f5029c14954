"""Sums compared by listing their points, where all sizes are numbers.

What both sides have by form and place, with the same number, is left out first. Values are found
only for what is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorad.ir.expr import Axis
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.columns import Rows, codes_of
from tensorad.simplify.readback.instances import Instances
from tensorad.simplify.readback.monomials import Term
from tensorad.simplify.readback.places import Forms, form_of_product

Array = Any
FEW_POINTS: Final = 1 << 13
MOST_POINTS: Final = 1 << 18
_ROUNDING: Final = 1e-5


@dataclass(frozen=True, eq=False)
class _Listed:
    """A term of one of two sums, at points."""

    side: int
    term: Term
    points: Rows

    def weights(self, factors: Array) -> Array:
        return (-1.0 if self.side else 1.0) * float(self.term.number) * factors


def compare_points(
    outer: Sequence[Axis],
    one: Sequence[Term],
    other: Sequence[Term],
    most: int = MOST_POINTS,
    forms: Forms | None = None,
) -> None:
    """Whether two sums are the same products at each element, each with the same number.

    Raises:
        Undecided: the points cannot be listed.
        Refuted: they differ.
    """
    columns = Instances(most, Forms() if forms is None else forms)
    elements = columns.begin(outer)
    listed = [
        _Listed(side, t, columns.along(elements, t.loops, t.where))
        for side, terms in enumerate((one, other))
        for t in terms
    ]
    left = _without_shared(columns, listed)
    undefined, differs = _valued(columns, elements.count, left)
    if undefined and sum(t.points.count for t in left) < sum(t.points.count for t in listed):
        undefined, differs = _valued(columns, elements.count, listed)
    if undefined:
        raise Refuted("it divides by 0 where the naive sum does not")
    if differs:
        raise Refuted("a place is not visited as often, or with another factor")


def _without_shared(columns: Instances, listed: Sequence[_Listed]) -> list[_Listed]:
    """What is left of both sums without factors that both have at an element, equally often."""
    left: list[_Listed] = []
    by_form: dict[Hashable, list[tuple[_Listed, list[Array]]]] = {}
    for t in listed:
        form, place = form_of_product(columns.forms, list(t.term.atoms.items()))
        try:
            at = [columns.values(e, t.points) for e in place]
        except Undecided:  # at points where nobody asks for it
            left.append(t)
            continue
        by_form.setdefault(form, []).append((t, [t.points.origin, *at]))
    for found in by_form.values():
        terms = [t for t, _ in found]
        if len({t.side for t in terms}) == 1:
            left += terms
            continue
        counts = [t.points.count for t in terms]
        rows = [np.concatenate(c) for c in zip(*[at for _, at in found], strict=True)]
        weights = np.concatenate(
            [t.weights(np.ones(n)) for t, n in zip(terms, counts, strict=True)]
        )
        group, differs = _groups(rows, weights)
        sides = np.repeat([t.side for t in terms], counts)
        both = np.ones(len(differs), dtype=bool)
        for side in range(2):
            both &= np.bincount(group[sides == side], minlength=len(differs)) > 0
        kept = np.split((differs | ~both)[group], np.cumsum(counts)[:-1])
        for t, holds in zip(terms, kept, strict=True):
            if holds.any():
                left.append(_Listed(t.side, t.term, t.points.where(holds)))
    return left


def _valued(columns: Instances, elements: int, listed: Sequence[_Listed]) -> tuple[bool, bool]:
    """(whether only the second sum divides by 0 somewhere, whether values differ)."""
    broken = np.zeros((2, elements), dtype=bool)
    made: list[tuple[Array, Array]] = []
    weights: list[Array] = []
    for t in listed:
        products, factors = columns.products(t.term.atoms, t.points)
        bad = np.isnan(factors)
        broken[t.side, t.points.origin[bad]] = True
        made.append((t.points.origin, products))
        weights.append(np.where(bad, 0.0, t.weights(factors)))
    undefined = bool((broken[1] & ~broken[0]).any())
    if not made:
        return undefined, False
    rows = [np.concatenate(c) for c in zip(*made, strict=True)]
    return undefined, bool(_groups(rows, np.concatenate(weights))[1].any())


def _groups(rows: Sequence[Array], weights: Array) -> tuple[Array, Array]:
    """(the group of equal rows of each row, whether the weights of each group differ from 0)."""
    _, group = np.unique(codes_of(rows, len(weights)), return_inverse=True)
    group = group.ravel()
    total, size = np.bincount(group, weights), np.bincount(group, np.abs(weights))
    return group, np.abs(total) > _ROUNDING * size
