"""Comparing a plan with its contributions over the digits of their axes.

For formulas with products of symbolic sizes: the domain and everything the plan says are
written over digits (see `mixed_radix.py`), where they are linear, and compared there as sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import Axis, Expr, Size
from tensorad.ir.order import axes_in, sizes_in
from tensorad.simplify.certify.outcomes import Refuted, Undecided, expressible
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.listed_points import is_evaluable
from tensorad.simplify.domain.mixed_radix import Digits, split_digits
from tensorad.simplify.index.quasi_affine import axis_conditions, free_parameters
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import Space


@dataclass(frozen=True, eq=False)
class _Claim:
    """One piece over digits: its loops, where it visits, which old point each visit is."""

    loops: list[Axis]
    tests: list[Expr]
    equations: list[Expr]


def compare_over_digits(e: Elimination) -> None:
    """Compare a plan with its domain.

    Raises:
        Undecided: there is nothing to split.
        NotAffine: something is not linear over digits either.
        Refuted: the plan is wrong.
    """
    own, of_pieces = expressible(e, is_evaluable)
    groups = [own]
    for piece, tests in zip(e.solution.pieces, of_pieces, strict=True):
        groups += [tests, [old == piece.values[old] for old in e.inner]]
    loops = [a for p in e.solution.pieces for a in p.axes]
    digits = split_digits(e.outer, [*e.inner, *loops], [c for g in groups for c in g])
    if digits is None:
        raise Undecided("there are no digits to split")
    written = _grouped(digits, groups)
    owners = _owners(digits, [*e.inner, *loops])
    inner = [a for a in digits.inner if owners[a] in set(e.inner)]
    claims = []
    for n, piece in enumerate(e.solution.pieces):
        dims = [a for a in digits.inner if owners[a] in set(piece.axes)]
        claims.append(_Claim(dims, written[1 + 2 * n], written[2 + 2 * n]))
    _compare(digits, inner, written[0], claims)


def _grouped(digits: Digits, groups: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
    """The written conditions in the groups their originals came in."""
    parts = iter(digits.written)
    return [[c for _ in group for c in next(parts)] for group in groups]


def _owners(digits: Digits, axes: Sequence[Axis]) -> dict[Axis, Axis]:
    """Digit -> the axis it is a digit of."""
    by_digit: dict[Expr, Axis] = {a: a for a in axes}
    for a in axes:
        if a in digits.values:
            found = axes_in(digits.values[a])
            by_digit.update(dict.fromkeys(found, a))
    return {new: by_digit[digits.mapping.get(new, new)] for new in digits.inner}


def _compare(
    digits: Digits, inner: Sequence[Axis], own: Sequence[Expr], claims: Sequence[_Claim]
) -> None:
    known = _known(digits, [*own, *[c for x in claims for c in (*x.tests, *x.equations)]])
    params = [*[s for s in free_parameters((), *known) if isinstance(s, Size)], *digits.outer]
    sizes = [s for a in digits.inner for s in sizes_in(axis_conditions(a))]
    params = [*dict.fromkeys([*sizes, *params])]
    bounds = [axis_conditions(a) for a in inner]
    domain = IntegerSet.of(Space(params, inner), *known, *bounds, *own)
    rest = domain
    for claim in claims:
        dims = [*inner, *claim.loops]
        loops = [axis_conditions(a) for a in claim.loops]
        visits = IntegerSet.of(Space(params, claim.loops), *known, *loops, *claim.tests)
        wide = IntegerSet.of(
            Space(params, dims), *known, *bounds, *loops, *claim.tests, *claim.equations
        )
        if not visits.is_subset(wide.restrict_to(claim.loops)):
            raise Refuted("the plan visits points outside the axes' bounds")
        if not wide.restrict_to(claim.loops, inner).is_singleton():
            raise Refuted("several points of the plan are the same contribution")
        claimed = wide.restrict_to(inner)
        if not claimed.is_subset(domain):
            raise Refuted("the plan visits points that do not contribute")
        if not claimed.is_subset(rest):
            raise Refuted("the plan visits contributions twice")
        rest = rest.minus(claimed)
    if not rest.is_empty():
        raise Refuted("the plan misses contributions")


def _known(digits: Digits, parts: Sequence[Expr]) -> list[Expr]:
    """Bounds of the outer digits, and what is known of the sizes in sight."""
    bounds = [axis_conditions(a) for a in digits.outer]
    inner = [axis_conditions(a) for a in digits.inner]
    sizes = dict.fromkeys(sizes_in(*bounds, *parts, *inner))
    facts = [f for f in facts_about(sizes) if all(s in sizes for s in sizes_in(f))]
    return [*[s >= 0 for s in sizes], *facts, *bounds]
